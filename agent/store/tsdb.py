"""The database: append a tick, answer a window, keep itself small. One SQLite file, one writer.

Recent ticks are rows of the table ``head``, written through as they come and mirrored in memory, where windows are
answered from. Ten minutes of them at a time become a compressed block, 1-minute points and daily maxima.
"""

import contextlib
import fcntl
import io
import logging
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import numpy as np

from agent.samples import Sample
from agent.store import blocks, checkpoints, codec, compaction, retention, rollup, schema
from agent.store.codec import CodecError
from agent.store.head import Head
from agent.store.rollup import Points
from agent.store.schema import StoreCorrupt, StoreError
from agent.store.series import EMPTY, Integers, Series, joined
from agent.store.settings import StoreSettings

log = logging.getLogger(__name__)

_RETENTION_EVERY_MS = 600_000
_NEVER_MS = -(1 << 62)
_MOST_BLOCKS_IN_MEMORY = 6
_FINISHED = object()
_MEMORY = Path(":memory:")


@dataclass(frozen=True, slots=True)
class StoreSize:
    """How large the store is."""

    file_bytes: int
    """The file and its write-ahead log on disk."""
    used_bytes: int
    """What of the file holds data."""
    series: int
    """Series known."""
    head_ticks: int
    """Ticks not yet compressed."""


class Tsdb:
    """The open store. Used from one thread; only `checkpoint` may run in another one."""

    def __init__(self, path: Path, settings: StoreSettings, connection: sqlite3.Connection, lock: IO[str]) -> None:
        self.path = path
        self._settings = settings
        self._connection = connection
        self._lock = lock
        self._ids: dict[tuple[str, str], int] = {}
        self._entities: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._scales: dict[int, float] = {}
        self._layouts: dict[tuple[int, ...], int] = {}
        self._head = Head()
        self._jobs: Iterator[None] | None = None
        self._minute_days = settings.minute_days
        self._retained_ms = self._seen_ms = _NEVER_MS
        self._load()

    @classmethod
    def open(cls, path: Path | str, settings: StoreSettings | None = None) -> Self:
        """Open the database, or begin a new one; a damaged file is set aside and said so.

        Raises:
            StoreError: The folder cannot be written, or another agent uses the file. One line.
        """
        path, settings = Path(path), settings or StoreSettings()
        lock = _locked(path)
        try:
            try:
                return cls(path, settings, schema.connect(path, settings.max_bytes), lock)
            except StoreCorrupt as error:
                aside = schema.set_aside(path)
                log.error("%s; it is kept as %s and history begins anew", error, aside.name)  # noqa: TRY400 - one line
                return cls(path, settings, schema.connect(path, settings.max_bytes), lock)
        except BaseException:
            lock.close()
            raise

    @classmethod
    def in_memory(cls, settings: StoreSettings | None = None) -> Self:
        """A store without a file, for as long as the real one cannot be opened; its size limit bounds the memory."""
        settings = settings or StoreSettings()
        return cls(_MEMORY, settings, schema.connect(_MEMORY, settings.max_bytes), io.StringIO())

    def append(self, now: float, samples: Sequence[Sample]) -> None:
        """Keep one tick. It survives ``kill -9`` when this returns.

        A clock that went back begins a new block; nothing is lost.

        Args:
            now: The tick's time. [seconds since 1970]
            samples: Its samples, at most one per metric and entity.

        Raises:
            ValueError: A value is not a finite number; nothing of the tick is kept.
            StoreError: It could not be written. It is still in memory, and windows have it.
            StoreCorrupt: The file is damaged: `close` and `open` again.
        """
        time_ms = round(now * 1000)
        with _errors(self.path):
            ids = self._series_ids(samples)
            scales = np.array([self._scales[one] for one in ids])
            amounts = codec.to_steps(np.array([sample.value for sample in samples], dtype=float), scales)
            if len(self._head) and time_ms <= self._head.times_ms[-1]:
                self._seal_all()
            self._head.append(time_ms, ids, amounts / scales)
            layout = self._layout(tuple(ids))
            self._write(
                "INSERT OR REPLACE INTO head (time_ms, layout, amounts) VALUES (?, ?, ?)",
                (time_ms, layout, amounts.tobytes()),
            )

    def window(self, metric: str, entity: str, start: float, end: float) -> Series:
        """Raw samples with start < time <= end. [seconds since 1970] Empty when there are none."""
        series = self._ids.get((metric, entity))
        return EMPTY if series is None else self._window([series], start, end).get(series, EMPTY)

    def windows(self, metric: str, start: float, end: float) -> dict[str, Series]:
        """The same for every entity that has samples of this metric in the window."""
        entities = self._entities.get(metric, {})
        found = self._window(list(entities.values()), start, end)
        return {entity: found[series] for entity, series in entities.items() if series in found}

    def minutes(self, metric: str, start: float, end: float) -> dict[str, Points]:
        """1-minute points (average, highest, count) by entity, of minutes that begin at start <= time < end.

        They reach back `minute_days`; the minutes of the last ticks are computed on the spot.
        """
        start_ms, end_ms = round(start * 1000), round(end * 1000)
        names = {series: entity for entity, series in self._entities.get(metric, {}).items()}
        parts: defaultdict[int, list[Points]] = defaultdict(list)
        with _errors(self.path):
            for series, points in blocks.read_minutes(
                self._connection, {one: self._scales[one] for one in names}, start_ms, end_ms
            ):
                parts[series].append(points)
        for series in names:
            recent = self._head.window(series, start_ms - 1, end_ms - 1)
            if len(recent):
                times = np.rint(recent.times * 1000).astype(np.int64)
                parts[series].append(rollup.points(times, recent.values, rollup.MINUTE_MS))
        return {names[one]: rollup.merged(rollup.concatenated(found), rollup.MINUTE_MS) for one, found in parts.items()}

    def averages(self, metric: str, start: float, end: float, period_seconds: int = 300) -> dict[str, Series]:
        """Averages of whole periods by entity, at the times the periods begin; from 1-minute points."""
        found = self.minutes(metric, start, end)
        return {entity: rollup.averages(points, period_seconds * 1000) for entity, points in found.items()}

    def daily_maxima(self, metric: str, entity: str) -> dict[int, tuple[float, float]]:
        """Highest sample and highest 5-minute average by day (days since 1970, UTC), up to the last sealed block."""
        series = self._ids.get((metric, entity))
        query = "SELECT day, highest, highest_average FROM days WHERE series = ? ORDER BY day"
        with _errors(self.path):
            return {day: (highest, average) for day, highest, average in self._connection.execute(query, (series,))}

    def save_checkpoints(self, content: Mapping[str, bytes], now: float | None = None) -> None:
        """Replace all checkpoints, in one transaction. Raises StoreError."""
        with _errors(self.path):
            last = self._head.times_ms[-1] / 1000.0 if len(self._head) else 0.0
            checkpoints.save(self._connection, last if now is None else now, content)

    def load_checkpoints(self) -> dict[str, bytes]:
        """The checkpoints last saved, by name."""
        with _errors(self.path):
            return checkpoints.load(self._connection)

    def keep_minutes(self, window_days: float) -> None:
        """Keep 1-minute points for a policy's window: max(configured, window + 1) days."""
        self._minute_days = max(self._settings.minute_days, int(np.ceil(window_days)) + 1)

    def maintain(self, now: float, steps: int = 100) -> None:
        """Do a little of what is due: compress, merge, forget. Called between ticks.

        Args:
            now: The time. [seconds since 1970]
            steps: How many series to work on at most; one takes about 0.1 ms.

        Raises:
            StoreError: It could not be written; tried again at the next call.
        """
        with _errors(self.path):
            if self._jobs is None:
                self._jobs = self._due(round(now * 1000))
            try:
                for _ in range(steps):
                    if next(self._jobs, _FINISHED) is _FINISHED:
                        self._jobs = None
                        return
            except sqlite3.Error as error:
                self._jobs = None
                too_many = len(self._head) - _MOST_BLOCKS_IN_MEMORY * self._settings.block_ticks
                if too_many > 0:  # the disk has been full for so long that memory must not be next
                    self._head.drop(too_many)
                if not (_is_full(error) and self._make_room(self._settings.max_bytes // 2)):
                    raise

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file and flush it. Takes as long as the disk does: call it in a thread."""
        with _errors(self.path), contextlib.closing(sqlite3.connect(self.path, timeout=0.1)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def size(self) -> StoreSize:
        """How large the store is now."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        on_disk = sum(file.stat().st_size for file in files if file.exists())
        with _errors(self.path):
            return StoreSize(on_disk, retention.used_bytes(self._connection), len(self._ids), len(self._head))

    def close(self) -> None:
        """Flush and close; the log is emptied into the file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._connection.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self) -> None:
        with _errors(self.path):
            for series, metric, entity in self._connection.execute("SELECT id, metric, entity FROM series"):
                self._know(series, metric, entity)
            layouts: dict[int, Integers] = {}
            for number, packed in self._connection.execute("SELECT id, series FROM layouts"):
                layouts[number] = np.frombuffer(packed, "<u4").astype(np.int64)
                self._layouts[tuple(layouts[number].tolist())] = number
            for time_ms, layout, packed in self._connection.execute(
                "SELECT time_ms, layout, amounts FROM head ORDER BY time_ms"
            ):
                ids = layouts[layout].tolist()
                self._head.append(
                    time_ms, ids, np.frombuffer(packed, "<i8") / np.array([self._scales[one] for one in ids])
                )

    def _know(self, series: int, metric: str, entity: str) -> None:
        self._ids[metric, entity] = series
        self._entities[metric][entity] = series
        self._scales[series] = codec.steps_per_unit(metric)

    def _series_ids(self, samples: Sequence[Sample]) -> list[int]:
        try:
            return [self._ids[sample.metric, sample.entity] for sample in samples]
        except KeyError:
            pass
        fresh = dict.fromkeys(
            (sample.metric, sample.entity) for sample in samples if (sample.metric, sample.entity) not in self._ids
        )
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for key in fresh:
                cursor = self._connection.execute("INSERT INTO series (metric, entity) VALUES (?, ?)", key)
                fresh[key] = cursor.lastrowid
        for (metric, entity), series in fresh.items():
            self._know(int(series or 0), metric, entity)
        return [self._ids[sample.metric, sample.entity] for sample in samples]

    def _layout(self, ids: tuple[int, ...]) -> int:
        layout = self._layouts.get(ids)
        if layout is None:
            packed = np.array(ids, "<u4").tobytes()
            self._write("INSERT OR IGNORE INTO layouts (series) VALUES (?)", (packed,))
            layout = self._connection.execute("SELECT id FROM layouts WHERE series = ?", (packed,)).fetchone()[0]
            self._layouts[ids] = int(layout)
        return int(layout)

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            if not (_is_full(error) and self._make_room(self._settings.max_bytes // 2)):
                raise
            self._connection.execute(statement, values)

    def _window(self, series: list[int], start: float, end: float) -> dict[int, Series]:
        start_ms, end_ms = round(start * 1000), round(end * 1000)
        parts: defaultdict[int, list[Series]] = defaultdict(list)
        if not len(self._head) or start_ms < self._head.times_ms[0] - 1:
            with _errors(self.path):
                for one, part in blocks.read_raw(
                    self._connection, {one: self._scales[one] for one in series}, start_ms, end_ms
                ):
                    parts[one].append(part)
        for one in series:
            recent = self._head.window(one, start_ms, end_ms)
            if len(recent):
                parts[one].append(recent)
        return {one: joined(found) for one, found in parts.items()}

    def _seal_all(self) -> None:
        self._jobs = None
        for _ in compaction.seal(self._connection, self._head, len(self._head), self._scales):
            pass
        self._layouts.clear()

    def _due(self, now_ms: int) -> Iterator[None]:
        # A machine can start with a wrong clock that is set a little later. By such a clock everything may seem too old
        # (or far ahead), so nothing is forgotten before it has run on for a while.
        if abs(now_ms - self._seen_ms) > _RETENTION_EVERY_MS:
            self._retained_ms = now_ms
        self._seen_ms = now_ms
        rows = compaction.rows_to_seal(self._head, self._settings.block_ticks)
        if rows:
            yield from compaction.seal(self._connection, self._head, rows, self._scales)
            self._layouts.clear()
            self._make_room(self._settings.max_bytes * 3 // 4)
        yield from compaction.merge(self._connection, self._scales)
        if abs(now_ms - self._retained_ms) >= _RETENTION_EVERY_MS:
            yield
            self._retained_ms = now_ms
            self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        retention.forget_old(self._connection, now_ms, self._settings, self._minute_days)
        dead = retention.orphans(self._connection, set(self._head.columns()))
        self._connection.executemany("DELETE FROM series WHERE id = ?", [(one,) for one in dead])
        for key in [key for key, series in self._ids.items() if series in set(dead)]:
            self._scales.pop(self._ids.pop(key))
            self._entities[key[0]].pop(key[1])
        retention.shrink(self._connection)

    def _make_room(self, limit_bytes: int) -> int:
        gone = retention.make_room(self._connection, limit_bytes)
        if gone:
            log.warning(
                "store %s is full: the oldest %d blocks were dropped; a larger --store-max-mib keeps more",
                self.path,
                gone,
            )
        return gone


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Turn the database's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        if schema.is_damage(error):
            raise StoreCorrupt(f"{path} is damaged: {error}") from error
        raise StoreError(f"cannot write {path}: {error}") from error
    except CodecError as error:
        raise StoreCorrupt(f"{path}: {error}") from error


def _locked(path: Path) -> IO[str]:
    """The lock that says whose the file is, held until closed (or the process ends)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f"{path.name}.lock").open("a", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot write the data directory {path.parent}: {error.strerror}; give another with --data-dir"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StoreError(f"{path} is in use by another agent: stop it, or give another --data-dir") from error
    return lock

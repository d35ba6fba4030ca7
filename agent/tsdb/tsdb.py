"""The database: append a tick, read a window, stay within its size. One SQLite file, one writer.

Recent ticks are rows of the table ``head``, written through as they come and mirrored in memory, where windows are
answered from. Ten minutes of them at a time become a compressed block and 1-minute points. While the file cannot be
written the ticks stay in memory, within a bound, and are written when it can be again.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Self, TypeVar

import numpy as np

from agent.samples import Sample
from agent.tsdb import checkpoints, codec, opening, retention
from agent.tsdb import recent as ticks
from agent.tsdb.codec import CodecError
from agent.tsdb.file import DatabaseFile
from agent.tsdb.maintenance import Maintenance
from agent.tsdb.reader import Reader
from agent.tsdb.recent import Recent
from agent.tsdb.schema import StoreCorrupt, StoreError, StoreUnavailable
from agent.tsdb.settings import StoreSettings

log = logging.getLogger(__name__)

_MAINTENANCE_SECONDS: Final = 0.002
_BEHIND_BLOCKS: Final = 2.5
_BEHIND_FACTOR: Final = 4
_CATCH_UP_SECONDS: Final = 1.0
_RETRY_MS: Final = 5000
_NEXT_TICK_SECONDS: Final = 2.0
_TICKS_PER_WRITE: Final = 64
_MEMORY_BYTES: Final = 24 << 20
_Answer = TypeVar("_Answer")
_steps_per_unit = lru_cache(maxsize=256)(codec.steps_per_unit)


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Size of the store, and its losses since the start."""

    file_bytes: int  # the file and its write-ahead log on disk
    used_bytes: int  # the part of the file with data
    series: int
    head_ticks: int  # ticks not yet compressed
    unwritten_ticks: int = 0  # ticks that are only in memory, because the disk could not be written
    set_aside: int = 0  # files that could not be used and were set aside
    damaged_chunks: int = 0  # chunks that could not be read: each is a gap of one series
    dropped_blocks: int = 0  # blocks that were dropped early to free space


class Tsdb(Reader):
    """The open store. Used from one thread; only `checkpoint` may run in another one."""

    def __init__(self, database_file: DatabaseFile, settings: StoreSettings) -> None:
        """See `open` and `in_memory`.

        Raises:
            StoreError: It cannot be opened.
        """
        super().__init__(Recent())
        self.path = database_file.path
        self.problem = ""  # why the file cannot be written now; empty while all is well
        self._settings = settings
        self._file = database_file
        self._unwritten = self.recent.head.next_number  # the first tick that is only in memory
        self._retry_ms: int | None = None
        self._appended_at = -_NEXT_TICK_SECONDS
        self._read_problem = ""
        self._damaged = 0
        self._maintenance = Maintenance(settings, settings.minute_days)
        self._jobs: Iterator[None] | None = None
        self._load(database_file.open(check=True))

    @classmethod
    def open(cls, path: Path | str, settings: StoreSettings | None = None) -> Self:
        """Open the database, or begin a new one; what cannot be used is set aside under a new name.

        Raises:
            StoreNewer: A newer version wrote it.
            StoreUnavailable: The disk cannot be written now.
            StoreError: Another agent uses the file, or the folder may not be written. One line, with the way out.
        """
        settings = settings or StoreSettings()
        database_file = DatabaseFile(Path(path), settings)
        try:
            return cls(database_file, settings)
        except BaseException:
            database_file.close()
            raise

    @classmethod
    def in_memory(cls, settings: StoreSettings | None = None) -> Self:
        """A store without a file, for as long as the real one cannot be opened; bounded to some 30 MiB."""
        settings = settings or StoreSettings()
        return cls.open(opening.MEMORY, replace(settings, max_bytes=min(settings.max_bytes, _MEMORY_BYTES)))

    @property
    def connection(self) -> sqlite3.Connection | None:
        """The open file; None while there is none."""
        return self._file.connection

    def append(self, now: float, samples: Sequence[Sample]) -> None:
        """Keep one tick. It survives ``kill -9`` when this returns; rarely only after the next one, within 2 s.

        A clock that went back begins a new segment; nothing is lost (see `segments`).

        Args:
            now: The tick's time. [seconds since 1970]
            samples: Its samples, at most one per metric, entity and container.

        Raises:
            ValueError: A value is not a finite number; nothing of the tick is kept.
            StoreUnavailable: It could not be written yet. The tick is in memory and in windows; each tick retries.
        """
        time_ms = round(now * 1000)
        if samples:
            scales = np.array([_steps_per_unit(sample.metric) for sample in samples])
            amounts = codec.to_steps(np.array([sample.value for sample in samples], dtype=float), scales)
            labels = [(sample.metric, sample.entity, sample.container) for sample in samples]
            self.recent.append(time_ms, self.recent.catalog.numbers(labels), amounts.astype(float))
            self._bound_memory()
        if not self._may_wait():
            self._write(time_ms)

    def save_checkpoints(self, content: Mapping[str, bytes], now: float | None = None) -> None:
        """Replace all checkpoints, in one transaction.

        Raises:
            StoreUnavailable: They could not be written.
        """
        last = self.recent.head.last
        saved = (0.0 if last is None else last[1] / 1000.0) if now is None else now
        self._do(lambda file: checkpoints.save(file, saved, content))

    def load_checkpoints(self) -> dict[str, bytes]:
        """The checkpoints last saved, by name; nothing while there is no file to read."""
        return dict(self._read(lambda file: checkpoints.load(file).items()))

    def set_minute_retention(self, window_days: float) -> None:
        """Keep 1-minute points for a policy's window: max(configured, window + 1) days."""
        self._maintenance.minute_days = max(self._settings.minute_days, int(np.ceil(window_days)) + 1)

    def maintain(self, now: float, seconds: float = _MAINTENANCE_SECONDS) -> None:
        """Do a part of the pending work: compress, merge, expire. Called between ticks, at `now` [seconds since 1970].

        It may take so many seconds, more or less; longer when it does not keep up.

        Raises:
            StoreUnavailable: It could not be written; tried again later.
        """
        head, now_ms = self.recent.head, round(now * 1000)
        if self.problem or self._unwritten < head.next_number or self._file.is_renewing_log:
            return
        if self._jobs is None and not self._maintenance.is_due(self.recent, now_ms):
            return
        if len(head) > self._settings.memory_ticks:
            seconds = _CATCH_UP_SECONDS
        elif len(head) > _BEHIND_BLOCKS * self._settings.block_ticks:
            seconds *= _BEHIND_FACTOR
        deadline = time.perf_counter() + seconds
        self._file.bound_log()
        self._do(lambda file: self._work(file, now_ms, deadline))

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file and flush it. Takes as long as the disk does: call it in a thread.

        Raises:
            StoreUnavailable: It could not be written.
        """
        self._file.checkpoint()

    def size(self) -> StoreSize:
        """Return the present size of the store."""
        file = self.connection
        query = "SELECT count(*) FROM series"
        return StoreSize(
            file_bytes=self._file.bytes_on_disk(),
            used_bytes=0 if file is None else retention.used_bytes(file),
            series=len(self.recent.catalog) if file is None else int(file.execute(query).fetchone()[0]),
            head_ticks=len(self.recent.head),
            unwritten_ticks=self.recent.head.next_number - self._unwritten,
            set_aside=self._file.set_aside,
            damaged_chunks=self._damaged,
            dropped_blocks=self._maintenance.dropped,
        )

    def close(self) -> None:
        """Write the rest, flush and close; the log is emptied into the file."""
        while self._unwritten < self.recent.head.next_number and not self.problem:
            try:
                self._write(None)
            except StoreError as error:
                log.warning("%s", error)
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _may_wait(self) -> bool:
        """Return whether this tick alone is written with the next one, because a disk flush is in progress."""
        now, before = time.monotonic(), self._appended_at
        self._appended_at = now
        soon = now - before < _NEXT_TICK_SECONDS
        return soon and self._file.is_renewing_log and self.recent.head.next_number - self._unwritten <= 1

    def _write(self, time_ms: int | None) -> None:
        """Write ticks through that are only in memory; the oldest first, so that an outage is caught up with."""
        if self._file.is_lost:
            self._file.abandon()
            self._unwritten, self._retry_ms = self.recent.head.first_number, None
        waited = time_ms is not None and (self._retry_ms is None or abs(time_ms - self._retry_ms) >= _RETRY_MS)
        if self.connection is None and not waited:
            raise StoreUnavailable(self.problem)
        try:
            if self.connection is None:
                self._load(self._file.open())
            self._file.bound_log()
            if self.problem:
                self._write_through(1)  # enough to see whether it works again
            self._write_through(_TICKS_PER_WRITE)
        except StoreError as error:
            self._write_failed(error, time_ms)
            raise StoreUnavailable(self.problem) from error
        self.problem = ""
        if self._read_problem:
            raise StoreUnavailable(self._read_problem)

    def _write_through(self, most: int) -> None:
        self._unwritten = self._do(lambda file: ticks.write(file, self.recent, self._unwritten, most))

    def _work(self, file: sqlite3.Connection, now_ms: int, deadline: float) -> None:
        """Steps of the upkeep in one transaction, until the deadline."""
        if self._jobs is None:
            self._jobs = self._maintenance.work(file, self.recent, now_ms)
        file.execute("BEGIN")
        for _ in self._jobs:
            if time.perf_counter() >= deadline:
                break
        else:
            self._jobs = None
        file.execute("COMMIT")
        self._file_extents.clear()

    def _do(self, action: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Write to the file; after a repair of a damaged or full file, write once more.

        Raises:
            StoreUnavailable: It cannot be written now.
            StoreError: It may not be used.
        """
        with self._file.writing():
            for again in (True, False):
                if (file := self.connection) is None:
                    break
                try:
                    return action(file)
                except (sqlite3.Error, CodecError) as error:
                    self._jobs = None
                    opening.roll_back(file)
                    if not (again and self._repaired(error)):
                        with opening.errors(self.path):
                            raise
        raise StoreUnavailable(self.problem or f"{self.path} is not open")

    def _repaired(self, error: Exception) -> bool:
        """Free space in a full file, or replace a damaged one; return whether it did either."""
        try:
            with opening.errors(self.path):
                raise error
        except StoreCorrupt as reason:
            self._start_over(reason)
            return True
        except StoreUnavailable:
            return opening.is_full(error) and self._freed_space()

    def _freed_space(self) -> bool:
        if (file := self.connection) is None or not retention.is_at_bound(file):
            return False
        log.warning("store %s is full: the oldest samples are dropped; a larger --store-max-mib keeps more", self.path)
        self._file_extents.clear()
        return self._maintenance.free_space_at_once(file)

    def _load(self, found: Recent, *, everything: bool = False) -> None:
        """Continue with data from a file, plus the ticks that it lacks: all of them for an empty one."""
        first = found.head.next_number
        found.append_from(self.recent, self.recent.head.first_number if everything else self._unwritten)
        self.recent, self._unwritten = found, first
        self._maintenance = Maintenance(self._settings, self._maintenance.minute_days, self._maintenance.dropped)
        self._jobs = None
        self._file_extents.clear()

    def _write_failed(self, error: StoreError, time_ms: int | None) -> None:
        """The file cannot be written: from now on in memory."""
        self._jobs = None
        self._retry_ms = time_ms
        self.problem = f"{error}; new samples are held in memory, and written when it works again"

    def _bound_memory(self) -> None:
        """Drop the oldest ticks when the disk is away for too long; those in the file are flushed from there."""
        head, most = self.recent.head, self._settings.memory_ticks
        beyond = len(head) - (most if self.problem else 2 * most)
        if beyond > 0:
            self._jobs = None  # it counts on the oldest ticks
            head.drop(max(beyond, self._settings.block_ticks // 4))
            self._unwritten = max(self._unwritten, head.first_number)
            self.recent.catalog.keep(head.series())

    def _was_read(self, error: sqlite3.Error | None) -> None:
        self._read_problem = ""
        if error is not None:
            try:
                with opening.errors(self.path):
                    raise error
            except StoreCorrupt as reason:
                self._start_over(reason)
            except StoreUnavailable:
                self._read_problem = f"cannot read {self.path}: {error}; results come from the last samples alone"

    def _start_over(self, reason: StoreCorrupt) -> None:
        """Set the file aside and go on in a new one with what memory holds."""
        try:
            self._load(self._file.open(damaged=reason), everything=True)
        except StoreError as error:
            self._unwritten = self.recent.head.first_number
            self._write_failed(error, None)

    def _cannot_decode(self, block: int, series: int, error: CodecError) -> None:
        if (block, series) not in self._maintenance.damaged:
            log.error("%s: %s: the samples of one series are lost for the time of block %d", self.path, error, block)
            self._damaged += 1
            self._maintenance.damaged[block, series] = str(error)

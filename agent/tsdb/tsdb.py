"""The database: append a tick, answer a window, keep itself small. One SQLite file, one writer.

Recent ticks are rows of the table ``head``, written through as they come and mirrored in memory, where windows are
answered from. Ten minutes of them at a time become a compressed block and 1-minute points. While the file cannot be
written the ticks stay in memory, within a bound, and are written when it can be again.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Self, TypeVar

import numpy as np

from agent.numerics.aggregate import WindowStatistics
from agent.samples import Sample
from agent.tsdb import checkpoints, codec, opening, persistence, retention
from agent.tsdb.catalog import labels
from agent.tsdb.codec import CodecError
from agent.tsdb.compaction import Steps
from agent.tsdb.file import DatabaseFile, MemoryDatabase
from agent.tsdb.maintenance import Maintenance
from agent.tsdb.persistence import Recent
from agent.tsdb.queries import Queries
from agent.tsdb.rollup import Points
from agent.tsdb.schema import StoreCorrupt, StoreError, StoreUnavailable
from agent.tsdb.series import Series
from agent.tsdb.settings import StoreSettings
from agent.tsdb.size import StoreSize

log = logging.getLogger(__name__)

_MAINTENANCE_SECONDS: Final = 0.002
_BEHIND_BLOCKS: Final = 2.5
_BEHIND_FACTOR: Final = 4
_CATCH_UP_SECONDS: Final = 1.0
_RETRY_MS: Final = 5000
_NEXT_TICK_SECONDS: Final = 2.0
_TICKS_PER_WRITE: Final = 64
_Answer = TypeVar("_Answer")
_steps_per_unit = lru_cache(maxsize=256)(codec.steps_per_unit)


class Tsdb:
    """The open store. Used from one thread; only `checkpoint` may run in another one."""

    def __init__(self, database_file: DatabaseFile, settings: StoreSettings) -> None:
        """See `open` and `in_memory`.

        Args:
            database_file: Where it is kept.
            settings: Retention and bounds.

        Raises:
            StoreError: It cannot be opened.
        """
        self.path = database_file.path
        self.problem = ""
        """Why the file cannot be written now; empty while all is well."""
        self._settings = settings
        self._database_file = database_file
        self._recent = Recent.nothing()
        self._unwritten = self._recent.head.next_number  # the first tick that is only in memory
        self._retry_ms: int | None = None
        self._appended_at = -_NEXT_TICK_SECONDS
        self._read_problem = ""
        self._damaged = 0
        self._maintenance = Maintenance(settings)
        self._jobs: Steps | None = None
        self._queries = self._new_queries()
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
        return cls(MemoryDatabase(settings), settings)

    def append(self, now: float, samples: Sequence[Sample]) -> None:
        """Keep one tick. It survives ``kill -9`` when this returns; rarely only after the next one, within 2 s.

        A clock that went back begins a new run; nothing is lost (see `runs`).

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
            numbers = self._recent.catalog.numbers([labels(sample) for sample in samples])
            self._recent.append(time_ms, numbers, amounts / scales)
            self._bound_memory()
        if not self._may_wait():
            self._write(time_ms)

    def window(self, metric: str, entity: str, start: float, end: float, container: str = "") -> Series:
        """Raw samples with start < time <= end. [seconds since 1970] Empty when there are none."""
        return self._queries.window(metric, entity, start, end, container)

    def windows(self, metric: str, start: float, end: float) -> dict[str, Series]:
        """The same for every entity that has samples of this metric in the window."""
        return self._queries.windows(metric, start, end)

    def statistics(
        self, metric: str, entity: str, start: float, end: float, container: str = ""
    ) -> WindowStatistics | None:
        """Average, deviation, percentiles, highest, last, count and span of a window; None when it has no samples."""
        return self._queries.statistics(metric, entity, start, end, container)

    def minutes(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> dict[str, Points]:
        """1-minute points (average, highest, count) by entity, of minutes that begin at start <= time < end.

        They reach back `minute_days`; the minutes of the last ticks are computed on the spot.
        """
        return self._queries.minutes(metric, start, end, entities)

    def averages(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> dict[str, Series]:
        """Averages of five minutes by entity, of these or of all, at the times they begin; from 1-minute points."""
        return self._queries.averages(metric, start, end, entities)

    def save_checkpoints(self, content: Mapping[str, bytes], now: float | None = None) -> None:
        """Replace all checkpoints, in one transaction.

        Raises:
            StoreUnavailable: They could not be written.
        """
        last = self._recent.head.last
        saved = (0.0 if last is None else last[1] / 1000.0) if now is None else now
        self._do(lambda file: checkpoints.save(file, saved, content))

    def load_checkpoints(self) -> dict[str, bytes]:
        """The checkpoints last saved, by name; nothing while there is no file to read."""
        file = self._database_file.file
        if file is None:
            return {}
        try:
            return checkpoints.load(file)
        except sqlite3.Error as error:
            self._was_read(error)
            return {}

    def set_minute_retention(self, window_days: float) -> None:
        """Keep 1-minute points for a policy's window: max(configured, window + 1) days."""
        self._maintenance.minute_days = max(self._settings.minute_days, int(np.ceil(window_days)) + 1)

    def maintain(self, now: float, seconds: float = _MAINTENANCE_SECONDS) -> None:
        """Do a little of what is due: compress, merge, forget. Called between ticks.

        Args:
            now: The time. [seconds since 1970]
            seconds: How long it may take, more or less; longer when it does not keep up.

        Raises:
            StoreUnavailable: It could not be written; tried again later.
        """
        if self.problem or self._unwritten < self._recent.head.next_number:
            return
        now_ms = round(now * 1000)
        if self._database_file.is_renewing_log:
            return
        if self._jobs is None and not self._maintenance.is_due(self._recent, now_ms):
            return
        if len(self._recent.head) > self._settings.memory_ticks:
            seconds = _CATCH_UP_SECONDS
        elif len(self._recent.head) > _BEHIND_BLOCKS * self._settings.block_ticks:
            seconds *= _BEHIND_FACTOR
        deadline = time.perf_counter() + seconds
        self._database_file.bound_log()
        self._do(lambda file: self._work(file, now_ms, deadline))

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file and flush it. Takes as long as the disk does: call it in a thread.

        Raises:
            StoreUnavailable: It could not be written.
        """
        self._database_file.checkpoint()

    def size(self) -> StoreSize:
        """How large the store is now."""
        file = self._database_file.file
        return StoreSize(
            file_bytes=self._database_file.bytes_on_disk(),
            used_bytes=0 if file is None else retention.used_bytes(file),
            series=len(self._recent.catalog) if file is None else retention.series(file),
            head_ticks=len(self._recent.head),
            unwritten_ticks=self._recent.head.count_from(self._unwritten),
            set_aside=self._database_file.set_aside,
            damaged_chunks=self._damaged,
            dropped_blocks=self._maintenance.dropped,
        )

    def close(self) -> None:
        """Write what is left, flush and close; the log is emptied into the file."""
        while self._unwritten < self._recent.head.next_number and not self.problem:
            try:
                self._write(None)
            except StoreError as error:
                log.warning("%s", error)
        self._database_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _may_wait(self) -> bool:
        """Whether this tick, and no other, is written with the next one, because a flush of the disk is under way."""
        now, before = time.monotonic(), self._appended_at
        self._appended_at = now
        soon = now - before < _NEXT_TICK_SECONDS
        return soon and self._database_file.is_renewing_log and self._recent.head.next_number - self._unwritten <= 1

    def _write(self, time_ms: int | None) -> None:
        """Write ticks through that are only in memory; the oldest first, so that an outage is caught up with."""
        if self._database_file.is_lost:
            self._database_file.abandon()
            self._unwritten, self._retry_ms = self._recent.head.first_number, None
        if self._database_file.file is None and not self._retry_due(time_ms):
            raise StoreUnavailable(self.problem)
        try:
            if self._database_file.file is None:
                self._load(self._database_file.open(check=False))
            self._database_file.bound_log()
            if self.problem:
                self._write_through(1)  # enough to see whether it works again
            self._write_through(_TICKS_PER_WRITE)
        except StoreError as error:
            self._write_failed(error, time_ms)
            raise StoreUnavailable(self.problem) from error
        if self.problem:
            log.info("store %s can be written again", self.path)
        self.problem = ""
        if self._read_problem:
            raise StoreUnavailable(self._read_problem)

    def _write_through(self, most: int) -> None:
        self._unwritten = self._do(lambda file: persistence.write(file, self._recent, self._unwritten, most))

    def _work(self, file: sqlite3.Connection, now_ms: int, deadline: float) -> None:
        """Steps of the upkeep in one transaction, until the deadline."""
        if self._jobs is None:
            self._jobs = self._maintenance.work(file, self._recent, now_ms)
        file.execute("BEGIN")
        for then in self._jobs:
            if then is not None or time.perf_counter() >= deadline:
                break
        else:
            self._jobs = then = None
        file.execute("COMMIT")
        if then is not None:
            then()
        self._queries.blocks_changed()

    def _do(self, action: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Write to the file; when that shows that it is damaged, or has no room, to what it is then, once more.

        Raises:
            StoreUnavailable: It cannot be written now.
            StoreError: It may not be used.
        """
        with self._database_file.writing():
            for again in (True, False):
                file = self._database_file.file
                if file is None:
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
        """Make room in a full file, or begin a new one in place of a damaged one; whether it was either."""
        try:
            with opening.errors(self.path):
                raise error
        except StoreCorrupt as reason:
            self._start_over(reason)
            return True
        except StoreUnavailable:
            return isinstance(error, sqlite3.Error) and opening.is_full(error) and self._freed_space()

    def _freed_space(self) -> bool:
        file = self._database_file.file
        if file is None or not self._database_file.is_at_bound():
            return False
        log.warning("store %s is full: the oldest samples are dropped; a larger --store-max-mib keeps more", self.path)
        before = self._maintenance.dropped
        try:
            self._maintenance.free_space_at_once(file)
        except sqlite3.Error:
            opening.roll_back(file)
            return False
        self._queries.blocks_changed()
        return self._maintenance.dropped > before

    def _load(self, recent: Recent, *, everything: bool = False) -> None:
        """Go on with what a file has, and the ticks that it lacks.

        Args:
            recent: What was read from it.
            everything: It lacks all, because it begins anew.
        """
        old, first = self._recent, recent.head.next_number
        recent.append_from(old, old.head.first_number if everything else self._unwritten)
        self._recent, self._unwritten = recent, first
        fresh = Maintenance(self._settings)
        fresh.minute_days, fresh.dropped = self._maintenance.minute_days, self._maintenance.dropped
        self._maintenance, self._jobs = fresh, None
        self._queries = self._new_queries()

    def _new_queries(self) -> Queries:
        recent, database_file = self._recent, self._database_file
        return Queries(recent.catalog, recent.head, database_file.file, self._was_read, self._cannot_decode)

    def _write_failed(self, error: StoreError, time_ms: int | None) -> None:
        """The file cannot be written: from now on in memory."""
        self._jobs = None
        self._retry_ms = time_ms
        self.problem = f"{error}; new samples are held in memory, and written when it works again"

    def _retry_due(self, time_ms: int | None) -> bool:
        return time_ms is not None and (self._retry_ms is None or abs(time_ms - self._retry_ms) >= _RETRY_MS)

    def _bound_memory(self) -> None:
        """Drop the oldest ticks when the disk is away for too long; those in the file are flushed from there."""
        head, most = self._recent.head, self._settings.memory_ticks
        beyond = len(head) - (most if self.problem else 2 * most)
        if beyond > 0:
            self._jobs = None  # it counts on the oldest ticks
            head.drop(max(beyond, self._settings.block_ticks // 4))
            self._unwritten = max(self._unwritten, head.first_number)
            self._recent.catalog.keep(head.series())

    def _was_read(self, error: sqlite3.Error | None) -> bool:
        """The file was read, or why it could not be; then answers come from memory. Whether it may be read again."""
        self._read_problem = ""
        if error is not None:
            try:
                with opening.errors(self.path):
                    raise error
            except StoreCorrupt as reason:
                self._start_over(reason)
                return False
            except StoreUnavailable:
                self._read_problem = f"cannot read {self.path}: {error}; answers come from the last samples alone"
        return True

    def _start_over(self, reason: StoreCorrupt) -> None:
        """Set the file aside and go on in a new one with what memory holds."""
        try:
            self._load(self._database_file.replace(reason), everything=True)
        except StoreError as error:
            self._unwritten = self._recent.head.first_number
            self._write_failed(error, None)

    def _cannot_decode(self, block: int, series: int, error: CodecError) -> None:
        if (block, series) not in self._maintenance.damaged:
            log.error("%s: %s: the samples of one series are lost for the time of block %d", self.path, error, block)
            self._damaged += 1
            self._maintenance.damaged[block, series] = str(error)

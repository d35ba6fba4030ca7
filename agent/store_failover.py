"""The store of samples: the database, or memory while the database cannot be opened.

An agent starts and continues without its disk: its histories and predictions then rest on memory, which is bounded. It
retries the database at intervals, off the tick. Once it opens, the recent samples are copied into it, a few minutes
per tick, and it replaces the store in memory.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Final

from agent.samples import Sample
from agent.tsdb.schema import StoreError, StoreNewer
from agent.tsdb.tsdb import Tsdb

RETRY_SECONDS: Final = 10.0  # default time between two attempts to open the database. [s]
_COPIED_PER_STEP_SECONDS: Final = 120.0

Opener = Callable[[], Tsdb]  # opens a store. Raises StoreError.


class StoreFailover:
    """Opens stores, and knows why the one in use is in memory."""

    def __init__(
        self,
        open_file: Opener,
        open_memory: Opener = Tsdb.in_memory,
        remembered: Callable[[], Mapping[str, bytes]] = dict,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Opens nothing yet.

        `remembered` are the checkpoints of a database that can be read though not written; empty when it cannot.
        """
        self._open_file = open_file
        self._open_memory = open_memory
        self._remembered = remembered
        self._retry_seconds = retry_seconds
        self.problem = ""  # why the store in use is in memory; empty when it is the database
        self.restored = False
        """True if the store in memory began with the samples of the database, which was still readable."""
        self.clock: Callable[[], float] = time.monotonic  # what waits are measured with. [s]
        self.background: Callable[[Opener], Future[Tsdb]] = in_background  # runs a try without holding up the ticks
        self._tried_at = 0.0
        self._opening: Future[Tsdb] | None = None
        self._next: Tsdb | None = None
        self._copied_until = 0.0

    def open(self) -> Tsdb:
        """The database, else a store in memory.

        Raises StoreNewer: the database was written by a newer version, which must not be ignored.
        """
        self._tried_at = self.clock()
        try:
            store = self._open_file()
        except StoreNewer:
            raise
        except StoreError as error:
            self.problem = str(error)
            memory, checkpoints = self._open_memory(), self._remembered()
            memory.save_checkpoints(checkpoints)
            self.restored = bool(checkpoints)
            return memory
        self.problem = ""
        return store

    def step(self, now: float, store: Tsdb, metrics: Iterable[str], begun: float) -> Tsdb | None:
        """Work on returning to the database. Called every tick; does nothing while that is in use.

        Returns the database, when it has everything and can take over.
        """
        if not self.problem:
            return None
        if self._next is None:
            self._next, self._copied_until = self._tried(), begun
        if self._next is None:
            return None
        end = min(self._copied_until + _COPIED_PER_STEP_SECONDS, now)
        for when, samples in ticks(store, metrics, self._copied_until, end):
            self._copied_until = when  # first: what cannot be written now stays in the database's own memory
            self._next.append(when, samples)
        self._copied_until = max(end, self._copied_until)
        if self._copied_until < now:
            return None
        opened, self._next, self.problem = self._next, None, ""
        return opened

    def close(self) -> None:
        """Close a database that was opened and not used."""
        if self._next is not None:
            self._next.close()
            self._next = None

    def _tried(self) -> Tsdb | None:
        """The result of a try, if one has ended well; begins the next one when it is time."""
        if self._opening is None:
            if self.clock() - self._tried_at >= self._retry_seconds:
                self._opening = self.background(self._open_file)
            return None
        if not self._opening.done():
            return None
        opening, self._opening, self._tried_at = self._opening, None, self.clock()
        try:
            return opening.result()
        except StoreError as error:
            self.problem = str(error)
            return None


def ticks(source: Tsdb, metrics: Iterable[str], start: float, end: float) -> Iterator[tuple[float, list[Sample]]]:
    """The ticks with start < time <= end, oldest first; none when the clock was set back to before start."""
    result: dict[float, list[Sample]] = {}
    for metric in metrics:
        for entity, series in source.windows(metric, start, end).items():
            for when, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
                result.setdefault(when, []).append(Sample(metric, entity, when, value))
    yield from sorted(result.items())


def in_background(work: Opener) -> Future[Tsdb]:
    """Run it in a thread that ends with the program, however long a dead disk holds it up."""
    result: Future[Tsdb] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except StoreError as error:
            result.set_exception(error)
        except Exception as error:  # noqa: BLE001 - the outer runner of this thread: the caller of result() gets it
            result.set_exception(StoreError(f"cannot open the database: {type(error).__name__}: {error}"))

    threading.Thread(target=run, name="open-database", daemon=True).start()
    return result

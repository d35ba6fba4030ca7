"""The work queue of nodes: each name once, however often it is added, and never with two workers at a time."""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from typing import Final

_MOST_STALE: Final = 1000  # how many replaced deadlines the heap may hold beside two per node


class NodeQueue:
    """Names of nodes that changed, and names that become due later.

    Args:
        coalesce_seconds: a name is handed out this long after it was added, which coalesces changes. [s]
        clock: a clock that never jumps. [s]
    """

    def __init__(self, coalesce_seconds: float, clock: Callable[[], float]) -> None:
        self._coalesce_seconds = coalesce_seconds
        self._clock = clock
        self._pending: dict[str, float] = {}  # name -> when it may be handed out; in order of arrival
        self._busy: set[str] = set()
        self._dirty: set[str] = set()
        self._later: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._pending) + len(self._dirty)

    def add(self, name: str) -> None:
        """Queue a node."""
        if name in self._busy:
            self._dirty.add(name)
        elif name not in self._pending:
            self._pending[name] = self._clock() + self._coalesce_seconds
            self._changed.set()

    def add_all(self, names: Iterable[str]) -> None:
        for name in names:
            self.add(name)

    def add_at(self, name: str, when: float | None) -> None:
        """Queue a node at a time of the clock, in place of an earlier deadline; `None` cancels it."""
        if when is None:
            self._later.pop(name, None)
        elif self._later.get(name) != when:
            self._later[name] = when
            heapq.heappush(self._heap, (when, name))
            if len(self._heap) > 2 * len(self._later) + _MOST_STALE:
                # Each reconciliation sets a new deadline, perhaps in a week: replaced ones must not pile up until then.
                self._heap = [(due, each) for each, due in self._later.items()]
                heapq.heapify(self._heap)

    def planned(self, name: str) -> float | None:
        """The deadline of a node; `None` without one. [s]"""
        return self._later.get(name)

    def release_due(self) -> None:
        """Queue the nodes with an expired deadline."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            when, name = heapq.heappop(self._heap)
            if self._later.get(name) == when:
                del self._later[name]
                self.add(name)

    def holds(self, name: str) -> bool:
        return name in self._pending or name in self._busy

    def close(self) -> None:
        self._closed = True

    async def idle(self) -> None:
        await self._idle.wait()

    async def take(self) -> str:
        """Wait for the next node; `done` must follow."""
        async with self._turn:  # one waits for the next name, the others for the lock
            await asyncio.sleep(0)  # one name per pass of the event loop, so that a backlog does not block it
            while True:
                if self._closed or not self._pending:
                    self._changed.clear()
                    await self._changed.wait()
                    continue
                name, ready = next(iter(self._pending.items()))
                wait = ready - self._clock()
                if wait > 0:
                    await asyncio.sleep(wait)
                    continue
                del self._pending[name]
                self._busy.add(name)
                self._idle.clear()
                return name

    def done(self, name: str) -> None:
        """Mark a node as reconciled; one that changed meanwhile is queued again."""
        self._busy.discard(name)
        if not self._busy:
            self._idle.set()
        if name in self._dirty:
            self._dirty.discard(name)
            self.add(name)

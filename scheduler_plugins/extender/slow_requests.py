"""Requests that took longer than kube-scheduler waits: with `ignorable: true` it bound those pods unchecked."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter

_SHOWN_SECONDS: Final = 300.0  # how long after the last slow request /healthz fails [s]
_TICK_SECONDS: Final = 0.1


class SlowRequests:
    """Counts them.

    A request waits in its socket while the event loop is busy with something else. So one that is read at the end of a
    busy time counts from its beginning, since when it may have waited.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.perf_counter) -> None:
        self.timeout_seconds = 1.0  # kube-scheduler's httpTimeout [s]
        self._clock = clock
        self._count, self._longest, self._last = 0, 0.0, float("-inf")
        self._idle_at, self._busy = clock(), (0.0, 0.0)
        self._total = Counter(
            "headroom_scheduler_slow_requests_total",
            "Requests that took longer than --http-timeout, after which kube-scheduler goes on without an answer.",
            ["verb"],
            registry=registry,
        )
        for verb in ("filter", "prioritize", "preempt"):
            self._total.labels(verb)

    async def run(self) -> None:
        """Note when the event loop is busy, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.tick()

    def tick(self) -> None:
        """The event loop is idle again."""
        now = self._clock()
        if now - self._idle_at > 2 * _TICK_SECONDS:
            self._busy = self._idle_at, now
        self._idle_at = now

    def observe(self, verb: str, received: float) -> None:
        """Note a request that is answered now.

        Args:
            verb: filter, prioritize or preempt.
            received: when its first bytes were read. [s, by the clock]
        """
        now, (begun, ended) = self._clock(), self._busy
        if received > self._idle_at + 2 * _TICK_SECONDS:
            begun, ended = self._idle_at, received
        # A connection that came meanwhile is accepted first and read a moment later.
        seconds = now - (begun if begun < received <= ended + _TICK_SECONDS else received)
        if seconds <= self.timeout_seconds:
            return
        if now - self._last > _SHOWN_SECONDS:
            self._count, self._longest = 0, 0.0
        self._count, self._longest, self._last = self._count + 1, max(self._longest, seconds), now
        self._total.labels(verb).inc()

    def problem(self) -> str:
        """Return the problem for /healthz; empty after five minutes without a slow request."""
        ago = self._clock() - self._last
        if ago > _SHOWN_SECONDS:
            return ""
        return (
            f"answers that came after more than {self.timeout_seconds:g} s: {self._count}, the longest after "
            f"{self._longest:.1f} s, the last {ago:.0f} s ago; kube-scheduler went on without them, and with "
            "ignorable: true no quota held for those pods; give the extender CPU, see docs/runbooks.md"
        )

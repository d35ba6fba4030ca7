"""Backoff of evictions: each failed attempt makes the next one wait longer.

The attempts of a single pod are in its hold, so they survive a restart or a change of leader. This file is about
workloads, whose next pod has another uid: if a pod ends, or is deleted, within a minute after its reservation, the
workload waits, too. That is not stored.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from headroom.runtime.backoff import Backoff

EARLY_SECONDS: Final = 60.0  # a pod that ends within this time after its reservation had little use for it [s]


@dataclass(slots=True)
class _Strikes:
    count: int
    until: float


@dataclass(slots=True)
class WorkloadBackoff:
    """Workloads with pods that ended early."""

    backoff: Backoff  # how long they wait
    _made: dict[str, tuple[str, float]] = field(default_factory=dict)
    _strikes: dict[str, _Strikes] = field(default_factory=dict)

    def freed_resources(self, uid: str, workload: str, now: float) -> None:
        """Record an eviction for a pod of a workload. [now: a clock that never jumps, s]"""
        self._made[uid] = workload, now

    def reconcile(self, there: Container[str], now: float) -> None:
        """Note which pods have ended, given the uids of all that are pending or running. [now: as above]"""
        for uid, (workload, when) in list(self._made.items()):
            if uid not in there:
                del self._made[uid]
                if now - when < EARLY_SECONDS:
                    count = self._strikes[workload].count + 1 if workload in self._strikes else 1
                    self._strikes[workload] = _Strikes(count, now + self.backoff.after(count))
            elif now - when >= EARLY_SECONDS:
                del self._made[uid]
        peace = self.backoff.longest_seconds
        for workload in [name for name, each in self._strikes.items() if now >= each.until + peace]:
            del self._strikes[workload]

    def waits(self, workload: str, now: float) -> float:
        """Return the time without evictions for a workload; 0: none. [s; now: a clock that never jumps]"""
        strike = self._strikes.get(workload)
        return max(strike.until - now, 0.0) if strike is not None else 0.0

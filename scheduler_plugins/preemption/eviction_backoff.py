"""Nobody is evicted again and again in vain: each attempt that came to nothing makes the next one wait longer.

What a single pod tried is in its hold, so a restart or another leader knows it. What is remembered here is about
workloads, whose next pod has another uid: one whose pod ended, or was deleted, within a minute after room had been made
for it waits, too. That is not stored.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from headroom.runtime.backoff import Backoff

EARLY_SECONDS: Final = 60.0  # a pod that ends within this time after room was made for it did not need it much [s]


@dataclass(slots=True)
class _Strikes:
    count: int
    until: float


@dataclass(slots=True)
class WorkloadBackoff:
    """Workloads whose pods ended early."""

    backoff: Backoff  # how long they wait
    _made: dict[str, tuple[str, float]] = field(default_factory=dict)
    _strikes: dict[str, _Strikes] = field(default_factory=dict)

    def freed_resources(self, uid: str, workload: str, now: float) -> None:
        """Somebody was evicted for a pod of a workload. [now: a clock that never jumps, s]"""
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
        """Return how long nobody is evicted for a workload yet; 0: not at all. [s; now: a clock that never jumps]"""
        known = self._strikes.get(workload)
        return max(known.until - now, 0.0) if known is not None else 0.0

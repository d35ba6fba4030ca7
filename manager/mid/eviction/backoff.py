"""Backoff per workload, against loops of being evicted, started again, evicted again.

A loop needs a replacement. A pod that is younger than the last eviction of its workload may be one, and is not
evicted until a backoff has ended: 10 minutes after the first eviction, twice as long after each that hit a
replacement, at most 6 hours. Pods that were there before can go at most once each, so they cannot make a circle, and a
node full of one workload can be relieved.

Backoffs are not stored. After a restart, or as the new leader, the manager takes every pod that was created in the 10
minutes before for a replacement, and does not evict it for as long: a manager that restarts again and again makes no
loop either, it only starts the doubling anew.
"""

from dataclasses import dataclass, field
from typing import Final

FIRST_SECONDS: Final = 600.0
"""Backoff after a workload's first eviction. [s]"""
LONGEST_SECONDS: Final = 6 * 3600.0
"""Longest backoff; a workload without evictions for as long after one starts at the first again. [s]"""
CLOCK_SKEW_SECONDS: Final = 60.0
"""A pod this much older than the eviction may still be the replacement: clocks differ. [s]"""


@dataclass(slots=True)
class _Backoff:
    began: float
    """When the first eviction of this backoff was, on the clock of creation times. [unix s]"""
    wait: float
    """Length of the backoff. [s]"""
    until: float
    """When that ends, on the steady clock. [s]"""


@dataclass(slots=True)
class EvictionBackoff:
    """The backoffs of workloads that were evicted lately."""

    _backoffs: dict[str, _Backoff] = field(default_factory=dict)
    _began: tuple[float, float] | None = None

    def begin(self, now: float, wall: float) -> None:
        """Start deciding; earlier evictions of others are unknown. No effect if already started.

        Args:
            now: a clock that never jumps. [s]
            wall: the clock of creation times. [unix s]
        """
        if self._began is None:
            self._began = now, wall

    def end(self) -> None:
        """Stop deciding: another replica does."""
        self._began = None

    def backoff_until(self, workload: str, created: float, now: float) -> float | None:
        """Until when a pod is not evicted; `None` when it may be. [s]

        Args:
            workload: what the pod belongs to.
            created: when it was made. [unix s]
            now: a clock that never jumps. [s]
        """
        known = self._backoffs.get(workload)
        waits = [known.until] if known is not None and _replaces(known, created) else []
        if self._began is not None and self._began[1] - FIRST_SECONDS <= created < self._began[1]:
            waits.append(self._began[0] + FIRST_SECONDS)
        return max((until for until in waits if until > now), default=None)

    def evicted(self, workload: str, created: float, now: float, wall: float) -> None:
        """Record an eviction.

        Args:
            workload: what the pod belonged to.
            created: when it was made. [unix s]
            now: a clock that never jumps. [s]
            wall: the clock of creation times. [unix s]
        """
        for name in [name for name, each in self._backoffs.items() if now >= each.until + LONGEST_SECONDS]:
            del self._backoffs[name]
        known = self._backoffs.get(workload)
        if known is None:
            self._backoffs[workload] = _Backoff(wall, FIRST_SECONDS, now + FIRST_SECONDS)
        elif _replaces(known, created):
            wait = min(known.wait * 2, LONGEST_SECONDS)
            self._backoffs[workload] = _Backoff(wall, wait, now + wait)
        else:
            known.until = now + known.wait

    def __len__(self) -> int:
        return len(self._backoffs)


def _replaces(known: _Backoff, created: float) -> bool:
    return created >= known.began - CLOCK_SKEW_SECONDS

"""No workload goes round in circles: evicted, started again, evicted again.

What makes a circle is the replacement. A pod that is younger than the last eviction of its workload may be one, and is
left alone until a back-off has ended: 10 minutes after the first eviction, twice as long after each that hit a
replacement, at most 6 hours. Pods that were there before can go at most once each, so they cannot make a circle, and a
node full of one workload can be relieved.

Back-offs are not stored. Whoever begins to decide, after a restart or as the new leader, takes every pod that was made
in the 10 minutes before for a replacement, and leaves it alone for as long: a manager that restarts again and again
makes no circle either, it only begins to double anew.
"""

from dataclasses import dataclass, field
from typing import Final

FIRST_SECONDS: Final = 600.0
"""How long replacements are left alone after a workload's first eviction. [s]"""
LONGEST_SECONDS: Final = 6 * 3600.0
"""Longest such time; a workload that had peace for as long after one starts at the beginning again. [s]"""
CLOCK_SKEW_SECONDS: Final = 60.0
"""A pod this much older than the eviction may still be the replacement: clocks differ. [s]"""


@dataclass(slots=True)
class _Round:
    began: float
    """When the first eviction of this round was, as pods are stamped. [unix s]"""
    wait: float
    """How long replacements are left alone. [s]"""
    until: float
    """When that ends, on the steady clock. [s]"""


@dataclass(slots=True)
class EvictionBackoff:
    """The workloads that were evicted lately."""

    _rounds: dict[str, _Round] = field(default_factory=dict)
    _began: tuple[float, float] | None = None

    def begin(self, now: float, wall: float) -> None:
        """Decide from now on; what others evicted before is not known. Nothing happens where that was said already.

        Args:
            now: a clock that never jumps. [s]
            wall: the clock by which pods are stamped. [unix s]
        """
        if self._began is None:
            self._began = now, wall

    def end(self) -> None:
        """Others decide from now on."""
        self._began = None

    def backoff_until(self, workload: str, created: float, now: float) -> float | None:
        """Until when a pod is left alone; `None` when it may go. [s]

        Args:
            workload: what the pod belongs to.
            created: when it was made. [unix s]
            now: a clock that never jumps. [s]
        """
        known = self._rounds.get(workload)
        waits = [known.until] if known is not None and _replaces(known, created) else []
        if self._began is not None and self._began[1] - FIRST_SECONDS <= created < self._began[1]:
            waits.append(self._began[0] + FIRST_SECONDS)
        return max((until for until in waits if until > now), default=None)

    def evicted(self, workload: str, created: float, now: float, wall: float) -> None:
        """Remember an eviction.

        Args:
            workload: what the pod belonged to.
            created: when it was made. [unix s]
            now: a clock that never jumps. [s]
            wall: the clock by which pods are stamped. [unix s]
        """
        for name in [name for name, each in self._rounds.items() if now >= each.until + LONGEST_SECONDS]:
            del self._rounds[name]
        known = self._rounds.get(workload)
        if known is None:
            self._rounds[workload] = _Round(wall, FIRST_SECONDS, now + FIRST_SECONDS)
        elif _replaces(known, created):
            wait = min(known.wait * 2, LONGEST_SECONDS)
            self._rounds[workload] = _Round(wall, wait, now + wait)
        else:
            known.until = now + known.wait

    def __len__(self) -> int:
        return len(self._rounds)


def _replaces(known: _Round, created: float) -> bool:
    return created >= known.began - CLOCK_SKEW_SECONDS

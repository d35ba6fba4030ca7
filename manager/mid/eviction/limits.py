"""The number of Mid pods that may be evicted: the settings of a node, rates, and a backoff per workload.

The backoff stops loops of being evicted, started again, evicted again. A loop needs a replacement. A pod that is
younger than the last eviction of its workload may be one, and is not evicted until the backoff has ended: 10 minutes
after the first eviction, twice as long after each that hit a replacement, at most 6 hours. Pods that were there before
can go at most once each, so they cannot make a circle, and a node full of one workload can be relieved.

Backoffs are not stored. After a restart, or as the new leader, the manager takes every pod that was created in the 10
minutes before for a replacement, and does not evict it for as long: a manager that restarts again and again makes no
loop either, it only restarts the doubling.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Self

from crds.colocation import DEFAULTS, ColocationStrategy
from headroom.runtime.backoff import Backoff

MINUTE_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 600.0  # backoff after a workload's first eviction [s]
LONGEST_SECONDS: Final = 6 * 3600.0
"""Longest backoff; a workload without evictions for as long after one starts at the first again. [s]"""
CLOCK_SKEW_SECONDS: Final = 60.0
"""A pod this much older than the eviction may still be the replacement: clocks differ. [s]"""


@dataclass(frozen=True, slots=True)
class EvictionSettings:
    """`midEviction` in force on a node, nothing left open."""

    mode: str  # off, dry-run or on
    after_seconds: int  # how long a shortage must last [s]
    per_node: int  # evictions on one node; 0 means none [1/min]
    per_cluster: int  # evictions in the cluster; 0 means none [1/min]
    window_seconds: int  # of how much time a report's usage is the mean [s]

    @classmethod
    def of(cls, strategy: ColocationStrategy) -> Self:
        """Complete a strategy with the built-in defaults."""

        def get(name: str) -> Any:  # noqa: ANN401 - fields of several types
            limit = getattr(strategy.mid_eviction, name, None)
            return getattr(DEFAULTS.mid_eviction, name) if limit is None else limit

        window = strategy.metric_aggregate_duration_seconds or DEFAULTS.metric_aggregate_duration_seconds or 0
        limits = get("max_per_node_per_minute"), get("max_per_minute")
        return cls(get("mode"), get("after_seconds"), *limits, window_seconds=window)


@dataclass(slots=True)
class SlidingMinute:
    """The actions of the last minute: one that slides, so that no two halves of it add up to more."""

    _taken: list[float] = field(default_factory=list)

    def free_at(self, limit: int, now: float) -> float | None:
        """Return when the next one may happen: now, later, or never (`None`) when the limit is 0.

        Args:
            limit: how many any 60 seconds may hold. [1/min]
            now: a clock that never jumps. [s]
        """
        self._taken = [when for when in self._taken if when + MINUTE_SECONDS > now]
        if limit <= 0:
            return None
        return now if len(self._taken) < limit else self._taken[-limit] + MINUTE_SECONDS

    def take(self, now: float) -> None:
        self._taken.append(now)

    def give_back(self, taken_at: float) -> None:
        if taken_at in self._taken:
            self._taken.remove(taken_at)


@dataclass(slots=True)
class _WorkloadBackoff:
    """When the first eviction was, on the clock of creation times, and when the backoff ends, on the steady clock."""

    began: float
    until: float
    waits: Backoff

    def replaces(self, created: float) -> bool:
        return created >= self.began - CLOCK_SKEW_SECONDS


@dataclass(slots=True)
class EvictionBackoff:
    """The backoffs of workloads that were evicted lately."""

    _backoffs: dict[str, _WorkloadBackoff] = field(default_factory=dict)
    _began: tuple[float, float] | None = None

    def begin(self, now: float, wall: float) -> None:
        """Start deciding; earlier evictions of others are unknown. No effect if already started."""
        self._began = self._began or (now, wall)

    def end(self) -> None:
        """Stop deciding: another replica does."""
        self._began = None

    def backoff_until(self, workload: str, created: float, now: float) -> float | None:
        """Until when a pod of a workload, created at that time, is not evicted; `None` when it may be. [s]"""
        backoff = self._backoffs.get(workload)
        waits = [backoff.until] if backoff is not None and backoff.replaces(created) else []
        if self._began is not None and self._began[1] - FIRST_SECONDS <= created < self._began[1]:
            waits.append(self._began[0] + FIRST_SECONDS)
        return max((until for until in waits if until > now), default=None)

    def evicted(self, workload: str, created: float, now: float, wall: float) -> None:
        """Record the eviction of a pod of a workload that was created at that time; clocks as of `begin`."""
        self._backoffs = {name: each for name, each in self._backoffs.items() if now < each.until + LONGEST_SECONDS}
        backoff = self._backoffs.get(workload)
        if backoff is not None and not backoff.replaces(created):
            backoff.until = now + backoff.waits.after(backoff.waits.failures)
            return
        waits = backoff.waits if backoff is not None else Backoff(FIRST_SECONDS, LONGEST_SECONDS)
        self._backoffs[workload] = _WorkloadBackoff(wall, now + waits.failed(), waits)

    def __len__(self) -> int:
        return len(self._backoffs)

"""How many evictions a minute may hold: a minute that slides, so that no two halves of it add up to more."""

from dataclasses import dataclass, field
from typing import Final

MINUTE_SECONDS: Final = 60.0


@dataclass(slots=True)
class SlidingMinute:
    """The evictions of the last minute, on a clock that never jumps."""

    _taken: list[float] = field(default_factory=list)

    def free_at(self, limit: int, now: float) -> float | None:
        """When the next one may happen: now, later, or never (`None`) when the limit is 0.

        Args:
            limit: how many any 60 seconds may hold. [1/min]
            now: the clock. [s]
        """
        self._taken = [when for when in self._taken if when + MINUTE_SECONDS > now]
        if limit <= 0:
            return None
        return now if len(self._taken) < limit else self._taken[-limit] + MINUTE_SECONDS

    def take(self, now: float) -> None:
        """Count one, before it is requested, so that no other worker takes the same place."""
        self._taken.append(now)

    def give_back(self, taken_at: float) -> None:
        """Take back one that did not happen."""
        if taken_at in self._taken:
            self._taken.remove(taken_at)

"""Counters to rates. What cannot be a rate is a gap with a reason, never a number."""

from dataclasses import dataclass
from enum import StrEnum


class Gap(StrEnum):
    """Why there is no rate."""

    FIRST = "first-reading"
    RECREATED = "recreated"
    RESET = "counter-reset"
    TOO_SOON = "too-soon"
    PAUSED = "paused"
    IMPLAUSIBLE = "implausible"


@dataclass(frozen=True, slots=True)
class _Reading:
    value: float
    at: float
    identity: int


class Rates:
    """Remembers the last reading of each counter, and answers with its growth per second."""

    def __init__(self, longest_seconds: float = 30.0, shortest_seconds: float = 0.02) -> None:
        """Nothing is remembered yet.

        Args:
            longest_seconds: Two readings further apart say nothing about this moment (the machine slept).
            shortest_seconds: Two readings closer together say little but noise.
        """
        self._longest = longest_seconds
        self._shortest = shortest_seconds
        self._last: dict[object, _Reading] = {}

    def rate(
        self, key: object, value: float, at: float, *, identity: int = 0, highest: float = float("inf")
    ) -> float | Gap:
        """Growth per second since the last reading.

        Args:
            key: Which counter.
            value: Its reading.
            at: When it was read, on a clock that only runs forward. [s]
            identity: What it was read from; another one begins anew, whatever the value.
            highest: A rate above this cannot be. [value per second]

        Returns:
            The rate, or why there is none.
        """
        last = self._last.get(key)
        if last is not None and 0 <= at - last.at < self._shortest:
            return Gap.TOO_SOON
        self._last[key] = _Reading(value, at, identity)
        if last is None:
            return Gap.FIRST
        elapsed = at - last.at
        if last.identity != identity:
            return Gap.RECREATED
        if value < last.value:
            return Gap.RESET
        if not 0 < elapsed <= self._longest:
            return Gap.PAUSED
        rate = (value - last.value) / elapsed
        return rate if rate <= highest else Gap.IMPLAUSIBLE

    def forget(self, key: object) -> None:
        """Begin anew with the next reading."""
        self._last.pop(key, None)

    def keep_only(self, keys: set[object]) -> None:
        """Forget all other counters."""
        for key in self._last.keys() - keys:
            del self._last[key]

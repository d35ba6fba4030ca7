"""Counters to rates. What cannot be a rate is a gap with a reason, never a number."""

import time
from dataclasses import dataclass
from enum import StrEnum

_CLOSE_SECONDS = 0.001
_TRIES = 5
SUSPENDED_SECONDS = 0.5
"""A machine that slept for less was not suspended: two clocks are never read at quite the same moment. [s]"""


def slept_seconds() -> float:
    """Return how long the machine was suspended since it booted: CLOCK_BOOTTIME - CLOCK_MONOTONIC. [s]"""
    best, least = 0.0, float("inf")
    for _ in range(_TRIES):
        before = time.monotonic()
        boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        after = time.monotonic()
        if after - before < least:
            best, least = boot - (before + after) / 2, after - before
        if least < _CLOSE_SECONDS:  # else this thread was held up between the clocks
            break
    return best


class Gap(StrEnum):
    """The reason for a missing number."""

    FIRST = "first-reading"
    RECREATED = "recreated"
    RESET = "counter-reset"
    TOO_SOON = "too-soon"
    CLOCK = "clock"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    IMPLAUSIBLE = "implausible"
    VANISHED = "vanished"
    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    NO_MEMORY_CONTROLLER = "no-memory-controller"


@dataclass(frozen=True, slots=True)
class _Reading:
    value: float
    at: float
    identity: int
    slept: float


class Rates:
    """Stores the last reading of each counter, and returns its growth per second."""

    def __init__(self, longest_seconds: float = 30.0, shortest_seconds: float = 0.02) -> None:
        """Nothing is remembered yet.

        Readings further apart than `longest_seconds` do not describe this moment, closer than `shortest_seconds`
        little but noise.
        """
        self._longest = longest_seconds
        self._shortest = shortest_seconds
        self._last: dict[object, _Reading] = {}

    def rate(
        self,
        key: object,
        value: float,
        at: float,
        *,
        identity: int = 0,
        slept: float = 0.0,
        highest: float = float("inf"),
    ) -> float | Gap:
        """Growth per second since the last reading.

        `at` is of a clock that never falls, NaN when unknown. [s] Another `identity` restarts the counter,
        whatever the value. `slept` is how long the machine was suspended so far. [s] A rate above `highest` cannot be.
        Returns the rate, or why there is none.
        """
        last = self._last.get(key)
        if last is not None and 0 <= at - last.at < self._shortest and last.identity == identity:
            return Gap.TOO_SOON
        self._last[key] = now = _Reading(value, at, identity, slept)
        if last is None:
            return Gap.FIRST
        gap = self._gap(last, now)
        if gap is not None:
            return gap
        rate = (value - last.value) / (at - last.at)
        return rate if rate <= highest else Gap.IMPLAUSIBLE

    def _gap(self, last: _Reading, now: _Reading) -> Gap | None:
        elapsed = now.at - last.at
        if last.identity != now.identity:
            return Gap.RECREATED
        if now.value < last.value:
            return Gap.RESET
        if abs(now.slept - last.slept) > SUSPENDED_SECONDS:
            return Gap.SUSPENDED
        if not elapsed > 0:
            return Gap.CLOCK
        return Gap.PAUSED if elapsed > self._longest else None

    def forget(self, key: object) -> None:
        self._last.pop(key, None)

    def keep_only(self, keys: set[object]) -> None:
        for key in self._last.keys() - keys:
            del self._last[key]

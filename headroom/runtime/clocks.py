"""The clocks of the services; tests pass others."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """Two clocks."""

    wall: Callable[[], float] = time.time  # times in objects [unix s]
    monotonic: Callable[[], float] = time.monotonic  # rates and waits. Never jumps. [s]


def since_boot() -> float:
    """Return the seconds since this machine started, including suspended time: this clock cannot be set."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Elapsed:
    """A clock for rights that expire: of several clocks, the one that went furthest since the last look.

    So it never runs slow: a clock may stop while a virtual machine is frozen, and another may be set back.
    """

    def __init__(self, clocks: Sequence[Callable[[], float]] = (time.monotonic, time.time, since_boot)) -> None:
        self._clocks = clocks
        self._last = [clock() for clock in clocks]
        self._sum = 0.0

    def __call__(self) -> float:
        """Seconds since it was made; never falls. [s]"""
        now = [clock() for clock in self._clocks]
        self._sum += max(0.0, *(new - old for new, old in zip(now, self._last, strict=True)))
        self._last = now
        return self._sum


class SlewedClock:
    """The wall clock without its jumps, for timeouts that must not expire together when the machine's clock is set.

    It follows the wall clock. After a jump of that, it runs half as fast or twice as fast until both agree
    again: it never falls, and a duration lasts at least half as long as it should.

    A jump beyond `reach`, for example after a machine slept for a weekend, is followed at once: other machines would
    treat the times of this one as expired.

    Args:
        wall: returns the time. [unix s]
        monotonic: never jumps. [s]
        reach: how far apart the two may be. [s]
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        reach: float = math.inf,
    ) -> None:
        self._wall, self._monotonic, self._reach = wall, monotonic, reach
        self._shown, self._last = wall(), monotonic()

    def __call__(self) -> float:
        """The present time. [unix s]"""
        now = self._monotonic()
        passed, self._last = max(now - self._last, 0.0), now
        behind = self._wall() - (self._shown + passed)
        self._shown += passed + (min(max(behind, -passed / 2), passed) if abs(behind) <= self._reach else behind)
        return self._shown

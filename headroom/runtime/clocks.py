"""The clocks that a part goes by; tests give it others."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """Two clocks."""

    wall: Callable[[], float] = time.time  # times that objects bear [unix s]
    monotonic: Callable[[], float] = time.monotonic  # rates and waits. Never jumps. [s]


def since_boot() -> float:
    """Seconds since this machine started, the time that it slept included: nobody sets this clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Elapsed:
    """A clock for rights that expire: of several clocks, the one that went furthest since the last look.

    So it never runs slow: one clock stands still while a virtual machine is frozen, another one is set back.
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


class Calm:
    """The wall clock without its jumps, for what must not end all at once when somebody sets the machine's clock.

    It goes along with the wall clock. When that one jumps, it runs half as fast or twice as fast until both agree
    again: it does not fall, and what is to last for some time lasts at least half of that.

    Further apart than `reach`, after a machine slept for a weekend say, it is set as well: other machines would take
    what bears its time for long past.

    Args:
        wall: tells the time. [unix s]
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

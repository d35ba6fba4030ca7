"""A clock for rights that expire: it never runs slow, whatever happens to the machine."""

import time
from collections.abc import Callable, Sequence


class Elapsed:
    """Seconds that have passed for sure or perhaps: of several clocks, the one that went furthest since the last look.

    One clock stands still while a virtual machine is frozen, another one is set back.
    """

    def __init__(self, clocks: Sequence[Callable[[], float]]) -> None:
        self._clocks = clocks
        self._last = [clock() for clock in clocks]
        self._sum = 0.0

    def __call__(self) -> float:
        """Seconds since it was made; never falls. [s]"""
        now = [clock() for clock in self._clocks]
        self._sum += max(0.0, *(new - old for new, old in zip(now, self._last, strict=True)))
        self._last = now
        return self._sum


def perhaps_elapsed() -> Elapsed:
    """The clock by which a leader judges its own Lease, on the safe side."""
    return Elapsed([time.monotonic, time.time, _since_boot])


def _since_boot() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

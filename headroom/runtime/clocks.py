"""The clocks that a part goes by; tests give it others."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """Two clocks."""

    wall: Callable[[], float] = time.time
    """Times that objects bear. [unix s]"""
    monotonic: Callable[[], float] = time.monotonic
    """Rates and waits. Never jumps. [s]"""


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

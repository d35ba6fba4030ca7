"""The ticker: a tick every CollectInterval by the monotonic clock, each with one wall clock time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from agent.host.rates import slept_seconds
from agent.metrics import Metrics

log = logging.getLogger(__name__)

SUSPENDED: Final = "suspended"  # the machine slept
FORWARD: Final = "forward"  # the wall clock was set forward
BACK: Final = "back"  # the wall clock was set back
_JUMP_SECONDS: Final = 1.0

Clock = Callable[[], float]  # returns a time. [s]


@dataclass(slots=True)
class Clocks:
    """The clocks of a machine, and whether they run alike."""

    wall: Clock = time.time  # time of the day; people and NTP set it. [seconds since 1970]
    running: Clock = time.monotonic  # never falls, and stops while the machine is suspended. [s]
    slept: Clock = slept_seconds  # how long the machine has slept. [s]
    _slept: float | None = None
    _offset: float | None = None

    def jump(self) -> tuple[str, float] | None:
        """Return the changes of the clocks since the last call that are a second or more. [s]

        Slow adjustments add up until they are a second.
        """
        slept = self.slept()
        offset = self.wall() - self.running() - slept
        before, self._slept = self._slept, slept
        if before is not None and slept - before >= _JUMP_SECONDS:
            self._offset = offset
            return SUSPENDED, slept - before
        step = 0.0 if self._offset is None else offset - self._offset
        if self._offset is None or abs(step) >= _JUMP_SECONDS:
            self._offset = offset
        if abs(step) < _JUMP_SECONDS:
            return None
        return (FORWARD if step > 0 else BACK), abs(step)


async def run_ticker(
    interval: float,
    tick: Callable[[float], None],
    metrics: Metrics,
    clocks: Clocks | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Tick until cancelled, each tick with its time. [seconds since 1970]

    A late tick is skipped and counted. The wall clock may be set in either direction,
    and the machine may be suspended: that is logged and counted, and the ticker continues.
    """
    clocks = clocks or Clocks()
    due = clocks.running()
    while True:
        result = clocks.jump()
        if result is not None:
            _log_jump(*result)
            metrics.clock_jumps.labels(result[0]).inc()
        tick(clocks.wall())
        due += interval
        behind = clocks.running() - due
        if behind > interval:
            skipped = int(behind / interval)
            metrics.ticks_late.inc(skipped)
            due += skipped * interval
        await sleep(max(due - clocks.running(), 0.0))


def _log_jump(kind: str, seconds: float) -> None:
    if kind == SUSPENDED:
        log.info("the machine was suspended for %.0f s: nothing was measured in that time", seconds)
    else:
        log.warning("the wall clock was set %s by %.0f s; ticks go on by the monotonic clock", kind, seconds)

"""Garbage in cycles, looked for a little at a time: a look at all of a large heap stops the process for long.

Python's own rule looks at everything again whenever a quarter has come to it, as it does while everything is listed
anew: 0.1 s each time with 20,000 pods. Nearly all that lives long is freed without any look. So what has survived three
looks is set aside, and all of it is looked at only once half as much again is kept.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_LOOKS: Final = (700, 10, 2)  # thresholds of the three generations: a look at the oldest sees some 23,000 objects
_OLDEST: Final = 2
_GROWTH: Final = 1.5
_LEAST_GROWTH: Final = 300_000  # pieces of memory, some 25 MB, that are no reason to look at everything
_SECONDS: Final = 30.0

_needed: list[int] = [0]  # how many pieces of memory were kept when all of them were needed, as far as anybody knew


def take_stock() -> None:
    """All that is kept now is needed: only what comes to it may be garbage."""
    _needed[0] = sys.getallocatedblocks()


async def keep_tending() -> None:
    """Set aside what stays, and look at everything whenever much has come to it, until cancelled."""
    with setting_aside():
        while True:
            await asyncio.sleep(_SECONDS)
            if sys.getallocatedblocks() > max(_needed[0] * _GROWTH, _needed[0] + _LEAST_GROWTH):
                _look_at_all()


@contextmanager
def setting_aside() -> Iterator[None]:
    """Inside, nothing is looked at again that survived a look at the oldest."""
    former = gc.get_threshold()
    gc.set_threshold(*_LOOKS)
    gc.callbacks.append(_set_aside)
    gc.freeze()
    gc.collect()  # Python waits until a quarter of what it saw last has come to it: from now on, of nothing
    try:
        yield
    finally:
        gc.callbacks.remove(_set_aside)
        gc.set_threshold(*former)
        gc.unfreeze()


def _set_aside(phase: str, seen: dict[str, Any]) -> None:
    if phase == "stop" and seen["generation"] == _OLDEST:
        gc.freeze()


def _look_at_all() -> None:
    """Free all garbage that there is."""
    gc.unfreeze()
    gc.collect()
    gc.collect()  # of what is not set aside, as at the beginning
    take_stock()

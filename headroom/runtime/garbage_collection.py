"""Incremental collection of cyclic garbage: a full collection of a large heap stops the process for long.

Python starts a full collection whenever the heap has grown by a quarter, as it does during a list: 0.1 s each time with
20,000 pods. Reference counts free nearly all long-lived objects. So objects that survive three collections are frozen,
and a full collection runs only after the heap has grown by half.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_LOOKS: Final = (
    700,
    10,
    2,
)  # thresholds of the three generations: a collection of the oldest visits some 23,000 objects
_OLDEST: Final = 2
_GROWTH: Final = 1.5
_LEAST_GROWTH: Final = 300_000  # blocks, some 25 MB: less growth starts no full collection
_SECONDS: Final = 30.0

_needed: list[int] = [0]  # allocated blocks after the last full collection


def reset_baseline() -> None:
    """Take the present heap as the baseline: only its growth may be garbage."""
    _needed[0] = sys.getallocatedblocks()


async def run_collector() -> None:
    """Freeze survivors, and collect the whole heap after it has grown, until cancelled."""
    with setting_aside():
        while True:
            await asyncio.sleep(_SECONDS)
            if sys.getallocatedblocks() > max(_needed[0] * _GROWTH, _needed[0] + _LEAST_GROWTH):
                _collect_all()


@contextmanager
def setting_aside() -> Iterator[None]:
    """Freeze the objects that survive a collection of the oldest generation."""
    former = gc.get_threshold()
    gc.set_threshold(*_LOOKS)
    gc.callbacks.append(_set_aside)
    gc.freeze()
    gc.collect()  # resets the size from which Python measures growth by a quarter
    try:
        yield
    finally:
        gc.callbacks.remove(_set_aside)
        gc.set_threshold(*former)
        gc.unfreeze()


def _set_aside(phase: str, seen: dict[str, Any]) -> None:
    if phase == "stop" and seen["generation"] == _OLDEST:
        gc.freeze()


def _collect_all() -> None:
    """Collect the whole heap."""
    gc.unfreeze()
    gc.collect()
    gc.collect()  # of objects that are not frozen, as at the start
    reset_baseline()

"""Much work on one event loop, a little at a time."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

_Item = TypeVar("_Item")

SLICE: Final = 25  # so many objects are taken at a time, fewer where they take long; in between others have their turn
_SLICE_SECONDS: Final = 0.005


async def in_slices(items: Iterable[_Item], take: Callable[[_Item], Any], taken: list[Any]) -> None:
    """Add the result of each item, slice by slice."""
    count, started = 0, time.perf_counter()
    for item in items:
        taken.append(take(item))
        count += 1
        if count >= SLICE or time.perf_counter() - started >= _SLICE_SECONDS:
            await asyncio.sleep(0)
            count, started = 0, time.perf_counter()

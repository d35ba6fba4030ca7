import asyncio
import time
from collections.abc import Callable

import pytest


def eventually(holds: Callable[[], object], what: str | Callable[[], str], seconds: float = 120.0) -> None:
    """Wait for a condition; the time is only how long a slow machine may take."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.1)


async def until(holds: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    """The same on an event loop."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(0.02)

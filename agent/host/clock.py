"""How long this machine slept: two clocks of the kernel, one of which stands still meanwhile."""

import time

_CLOSE_SECONDS = 0.001
_TRIES = 5


def slept_seconds() -> float:
    """How long the machine was suspended since it booted: CLOCK_BOOTTIME - CLOCK_MONOTONIC. [s]"""
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

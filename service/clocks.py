"""The clocks that a part goes by; tests give it others."""

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

"""Properties whose code hangs on an input: each input may take so much of the processor's time, and no more.

What counts is the processor's time of this process: a busy machine fails nothing.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import pytest
from hypothesis import is_hypothesis_test

INPUT_SECONDS: Final = 60.0
"""How much of the processor's time one input may take. [s]"""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Fail what takes longer, in a way that no `except Exception` of the code under test swallows.

    Args:
        seconds: of the processor's time. [s]
    """

    def hangs(*_of_signal: object) -> None:
        pytest.fail(f"one input takes more than {seconds:g} s of the processor's time")

    former = signal.signal(signal.SIGVTALRM, hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, former)


def limit_inputs(test: Callable[..., Any]) -> None:
    """Limit each input of a test; of one that is no property, nothing."""
    if not is_hypothesis_test(test):
        return
    property_ = test.hypothesis  # type: ignore[attr-defined]
    inner = property_.inner_test
    if hasattr(inner, "limited_to"):
        return

    @wraps(inner)
    def limit(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - whatever the property takes
        with limited(INPUT_SECONDS):
            return inner(*args, **given)

    limit.limited_to = INPUT_SECONDS  # type: ignore[attr-defined]
    property_.inner_test = limit


def time_left() -> float:
    """What is left of the input that is tried now; 0 outside of any. [s of the processor's time]"""
    return signal.getitimer(signal.ITIMER_VIRTUAL)[0]

"""In `make soak` a property is tried in rounds, each with new inputs, until it had all of them or its time is over.

The time of all is shared out as they begin: what one leaves over is for those that come after it.
"""

import os
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import is_hypothesis_test

SOAK: Final = os.environ.get("HEADROOM_SOAK", "") not in ("", "0")
"""True if this is `make soak`: many inputs, new ones in every run. What failed once is tried first the next time."""
ROUNDS: Final = 100
"""As many rounds make up all inputs."""
UNTIL: Final = float(os.environ.get("HEADROOM_SOAK_UNTIL", "inf"))
"""When the time of all properties together is over. [seconds since 1970]"""
SHARED_UNTIL: Final = float(os.environ.get("HEADROOM_SOAK_SHARED_UNTIL", "inf"))
"""The end of what is shared out: a round that has begun takes longer than its share. [seconds since 1970]"""
BEGUN: Final = os.environ.get("HEADROOM_SOAK_BEGUN", "")
"""A file that holds one byte for each property that has begun, in whichever process; none: there is no end."""
TRIED: Final = "rounds tried"
"""What a report calls the number of rounds."""


def of_a_round(inputs: int) -> int:
    """Inputs in each of the rounds."""
    return -(-inputs // ROUNDS)


def _share(properties: int) -> float:
    """The time for the property that begins now. [s]

    Args:
        properties: How many there are in all.
    """
    if not BEGUN:
        return float("inf")
    before = Path(BEGUN).stat().st_size
    with Path(BEGUN).open("ab") as file:
        file.write(b".")
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return max(SHARED_UNTIL - time.time(), 0.0) * beside / max(properties - before, beside)


def repeat(item: pytest.Function) -> None:
    """Run all rounds of a property but the last, which pytest runs itself; nothing without `make soak`.

    One that begins after the time is over is skipped.
    """
    if not SOAK or not is_hypothesis_test(item.obj):
        return
    if time.time() > UNTIL:
        item.user_properties.append((TRIED, 0))
        pytest.skip("the time for all properties is over")
    end = time.time() + _share(len(item.session.items))
    fixtures = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    done = 1
    while done < ROUNDS and time.time() < end:
        item.obj(**fixtures)
        done += 1
    item.user_properties.append((TRIED, done))

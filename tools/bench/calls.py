"""What calls of a function cost, and objects to call it with."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

WARM_UP: Final = 5  # how many calls do not count, before those that do

Json = dict[str, Any]


def fresh(thing: Json) -> Json:
    """As it comes from the API server: nothing in it is shared."""
    parsed: Json = json.loads(json.dumps(thing))
    return parsed


@dataclass(frozen=True, slots=True)
class Times:
    """What a call takes of the processor."""

    median_us: float  # half of the calls take less [us]
    p99_us: float  # one in a hundred takes more [us]
    calls: int  # how many counted

    def __str__(self) -> str:
        """For people."""
        return f"median {self.median_us:,.0f} us, p99 {self.p99_us:,.0f} us of processor (n = {self.calls})"


def times(call: Callable[[], object], calls: int, prepare: Callable[[], object] | None = None) -> Times:
    """What a call takes of the processor; what prepares it does not count."""
    taken = []
    for _ in range(WARM_UP + calls):
        if prepare is not None:
            prepare()
        began = time.thread_time()
        call()
        taken.append(time.thread_time() - began)
    median, p99 = np.percentile(np.asarray(taken[WARM_UP:]) * 1e6, (50, 99))
    return Times(float(median), float(p99), calls)

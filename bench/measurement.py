"""One line of a benchmark's table, and what times are taken with."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from prometheus_client import Counter


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured, and what it is to be compared with."""

    what: str
    """The thing that was measured, with its size."""
    measured: str
    """The figure with its unit."""
    budget: str
    """The budget that the design sets, or "none"."""
    reference: str
    """The same of a peer, or "none"."""


@dataclass(slots=True)
class Timings:
    """How long something took, again and again: by the clock, and on the processor.

    The second is what it costs; the first also has what else the machine did meanwhile.
    """

    clock: list[float] = field(default_factory=list)
    """By the clock. [s]"""
    processor: list[float] = field(default_factory=list)
    """CPU time of this thread. [s]"""

    @contextmanager
    def one(self) -> Iterator[None]:
        """Time what is done inside."""
        began, began_processor = time.perf_counter(), time.thread_time()
        yield
        self.processor.append(time.thread_time() - began_processor)
        self.clock.append(time.perf_counter() - began)

    def __str__(self) -> str:
        """For people."""
        median, p99 = np.percentile(np.asarray(self.processor) * 1000, (50, 99))
        return f"{spread(self.clock)}; of processor {median:.3g} ms, p99 {p99:.3g} ms"


def spread(seconds: Sequence[float], *, unit: str = "ms") -> str:
    """Median, 99th percentile and number of runs of a timing, for people."""
    factor = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    median, p99 = np.percentile(np.asarray(seconds) * factor, (50, 99))
    return f"median {median:.3g} {unit}, p99 {p99:.3g} {unit} (n = {len(seconds)})"


def total(counter: Counter) -> float:
    """Sum over all labels of a counter."""
    return float(sum(one.value for family in counter.collect() for one in family.samples))

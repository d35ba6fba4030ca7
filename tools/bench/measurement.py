"""What a benchmark yields: lines of the table, tables and pictures of its own; and what times are taken with."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from prometheus_client import Counter

NONE: Final = "none"  # a budget or reference that there is not
_BOUND: Final = re.compile(r"(?P<sign><=|>=) *(?P<number>[\d,]*\.?\d+)")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: what was measured, and what it is to be compared with."""

    what: str  # the thing that was measured, with its size
    measured: str  # the figure with its unit
    budget: str = NONE  # the budget that the design sets, or "none"
    reference: str = NONE  # the same of a peer, or "none"
    value: float | None = None
    """The figure that the budget bounds, in the budget's unit; None where there is no budget or no figure."""

    @property
    def within(self) -> bool | None:
        """Whether the budget is kept; None where that cannot be said."""
        bound = self.bound
        if bound is None or self.value is None:
            return None
        at_most, limit = bound
        return self.value <= limit if at_most else self.value >= limit

    @property
    def bound(self) -> tuple[bool, float] | None:
        """What the budget says: whether it is an upper bound, and which; None where it has none."""
        found = _BOUND.search(self.budget)
        return found and (found["sign"] == "<=", float(found["number"].replace(",", "")))


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with columns of its own, for the page."""

    title: str  # what it shows, in a sentence
    cells: Sequence[Sequence[str]]  # rows of cells; the first is the head


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing."""

    name: str  # of its file, without the suffix
    title: str  # what it shows, in a sentence
    svg: str  # the drawing itself


Item = Measurement | Grid | Picture  # what benchmarks yield


@dataclass(slots=True)
class Timings:
    """How long something took, again and again: by the clock, and on the processor.

    The second is what it costs; the first also has what else the machine did meanwhile.
    """

    clock: list[float] = field(default_factory=list)  # by the clock [s]
    processor: list[float] = field(default_factory=list)  # CPU time of this thread [s]

    @contextmanager
    def one(self) -> Iterator[None]:
        """Time what is done inside."""
        began, began_processor = time.perf_counter(), time.thread_time()
        yield
        self.processor.append(time.thread_time() - began_processor)
        self.clock.append(time.perf_counter() - began)

    def milliseconds(self, percent: float) -> float:
        """A percentile of the times on the processor. [ms]"""
        return float(np.percentile(np.asarray(self.processor) * 1000, percent))

    def __str__(self) -> str:
        """For people."""
        median, p99 = self.milliseconds(50), self.milliseconds(99)
        return f"{spread(self.clock)}; of processor {median:.3g} ms, p99 {p99:.3g} ms"


def spread(seconds: Sequence[float], *, unit: str = "ms") -> str:
    """Median, 99th percentile and number of runs of a timing, for people."""
    factor = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    median, p99 = np.percentile(np.asarray(seconds) * factor, (50, 99))
    return f"median {median:.3g} {unit}, p99 {p99:.3g} {unit} (n = {len(seconds)})"


def total(counter: Counter) -> float:
    """Sum over all labels of a counter."""
    return float(sum(one.value for family in counter.collect() for one in family.samples))

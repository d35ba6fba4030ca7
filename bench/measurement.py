"""One line of a benchmark's table."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def spread(seconds: Sequence[float], *, unit: str = "ms") -> str:
    """Median, 99th percentile and number of runs of a timing, for people."""
    factor = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    median, p99 = np.percentile(np.asarray(seconds) * factor, (50, 99))
    return f"median {median:.3g} {unit}, p99 {p99:.3g} {unit} (n = {len(seconds)})"


def total(counter: Counter) -> float:
    """Sum over all labels of a counter."""
    return float(sum(one.value for family in counter.collect() for one in family.samples))

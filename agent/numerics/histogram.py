"""Decaying histograms of many entities as one matrix.

A sample at time t enters with the weight ``w * 2^((t - reference) / half_life)``: later samples weigh more, nothing is
ever recomputed. The reference moves, and the row is rescaled, when a factor would exceed 2^100. References are
multiples of the half-life counted from the year 1, so that histograms of different machines line up.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray, RowTables

YEAR_ONE: Final = -62135596800.0
"""Seconds between 1970 and the year 1: the reference of a histogram that has seen nothing."""
_MAX_HALF_LIVES: Final = 100.0


@dataclass(frozen=True)
class Buckets:
    """Buckets of a histogram. Bucket 0 begins at 0; the last one has no end."""

    starts: FloatArray = field(repr=False)  # where each bucket begins, shape (B,), rising
    lowest_values: FloatArray = field(repr=False)  # the smallest value of each bucket but the first, shape (B - 1,)
    epsilon: float  # weight below which a bucket counts as empty

    def find(self, values: FloatArray) -> IntArray:
        """Bucket of each value; below the first it is the first, above the last the last."""
        return np.searchsorted(self.lowest_values, values, side="right")


def exponential(max_value: float, first_bucket_size: float, ratio: float, epsilon: float = 0.0001) -> Buckets:
    """Buckets that widen by a ratio: bucket n begins at first * (ratio^n - 1) / (ratio - 1).

    With first 0.025 and ratio 1.05 (CPU): 0, 0.025, 0.05125, 0.0788 … A value is in bucket
    int(log(value * (ratio - 1) / first + 1) / log(ratio)). The smallest value of each is found once, so that every
    machine and every array length finds the same bucket for a value.

    Raises:
        ValueError: an option is not above zero, or the ratio not above 1.
    """
    options = {"max_value": max_value, "first_bucket_size": first_bucket_size, "ratio": ratio - 1, "epsilon": epsilon}
    for name, option in options.items():
        if not 0.0 < option < math.inf:
            raise ValueError(f"histogram option {name} is out of range")

    def place(value: float) -> float:
        return math.log(value * (ratio - 1) / first_bucket_size + 1) / math.log(ratio)

    def lowest(number: int) -> float:
        """Its start, give or take the rounding of the logarithm."""
        value = max(float(starts[number]), first_bucket_size)
        while int(place(value)) < number:
            value = math.nextafter(value, math.inf)
        while value > first_bucket_size and int(place(math.nextafter(value, 0.0))) >= number:
            value = math.nextafter(value, 0.0)
        return value

    powers = np.array([_power(ratio, number) for number in range(math.ceil(place(max_value)) + 1)])
    starts: FloatArray = first_bucket_size * (powers - 1) / (ratio - 1)
    return Buckets(starts, np.array([lowest(number) for number in range(1, len(starts))]), epsilon)


def _power(base: float, exponent: int) -> float:
    """The base to a whole power by repeated squaring: the rounding of Go's math.Pow, with which we share histograms."""
    answer = 1.0
    while exponent:
        if exponent & 1:
            answer *= base
        base *= base
        exponent >>= 1
    return answer


CPU_BUCKETS: Final = exponential(max_value=1024.0, first_bucket_size=0.025, ratio=1.05)
"""For CPU, in cores: 158 buckets."""
MEMORY_BUCKETS: Final = exponential(max_value=float(2**41), first_bucket_size=5.0 * 2**20, ratio=1.05)
"""For memory, in bytes: 205 buckets."""


class HistogramBank(RowTables):
    """Histograms of many entities over the same buckets, shape (R, B)."""

    FILLS: ClassVar = {"weights": 0.0, "totals": 0.0, "references": YEAR_ONE}

    def __init__(self, buckets: Buckets, half_life_seconds: float, rows: int = 0) -> None:
        self.buckets = buckets
        self.half_life_seconds = half_life_seconds
        self.weights: FloatArray = np.zeros((rows, len(buckets.starts)))
        self.totals: FloatArray = np.zeros(rows)
        self.references: FloatArray = np.full(rows, YEAR_ONE)

    def add(self, rows: IntArray, values: FloatArray, times: FloatArray, weights: FloatArray | float = 1.0) -> None:
        """Add one sample to each of the rows.

        Args:
            rows: shape (N,), each row at most once.
            values: shape (N,), finite.
            times: shape (N,). Late samples are fine, they count less. [seconds]
            weights: shape (N,), not negative.
        """
        late = times > self.references[rows] + self.half_life_seconds * _MAX_HALF_LIVES
        if late.any():
            self._align(rows[late], times[late])
        scaled = np.exp2((times - self.references[rows]) / self.half_life_seconds) * weights
        self.weights[rows, self.buckets.find(values)] += scaled
        self.totals[rows] += scaled

    def percentiles(self, rows: IntArray, percentile: float) -> FloatArray:
        """Value that the given share (0..1) of the weight does not exceed; 0 for an empty row. shape (N,).

        Walks up from the lowest bucket until the share is reached and answers with that bucket's end (the last
        bucket's start): 0 to 5 % too high.
        """
        weights = self.weights[rows]
        low, high = self.spans(weights)
        empty = low > high
        weights = weights[:, : high.max(initial=0) + 1]  # of what lies above nothing counts
        numbers = np.arange(weights.shape[1])
        counting = (numbers >= low[:, None]) & (numbers <= high[:, None])
        sums = np.cumsum(np.where(counting, weights, 0.0), axis=1)
        wanted = percentile * self.totals[rows]
        reached = sums >= wanted[:, None]
        if not (wanted > 0.0).all():
            reached &= numbers >= low[:, None]
        found = np.minimum(np.where(reached.any(axis=1), reached.argmax(axis=1), high), high)
        starts = self.buckets.starts
        return np.where(empty, 0.0, starts[np.minimum(found + 1, len(starts) - 1)])

    def spans(self, weights: FloatArray) -> tuple[IntArray, IntArray]:
        """First and last bucket that count, of rows of weights; (last bucket, 0) for an empty one."""
        heavy = weights >= self.buckets.epsilon
        last = weights.shape[1] - 1
        some = heavy.any(axis=1)
        low = np.where(some, heavy.argmax(axis=1), last)
        high = np.where(some, last - heavy[:, ::-1].argmax(axis=1), 0)
        return low, high

    def _align(self, rows: IntArray, times: FloatArray) -> None:
        """Move the references of the rows to the multiples of the half-life nearest to the times.

        Weights outside of the buckets that count stay as they are: too light to matter, and peers leave them, too.
        """
        references = np.floor((times - YEAR_ONE) / self.half_life_seconds + 0.5) * self.half_life_seconds + YEAR_ONE
        exponents = np.floor((self.references[rows] - references) / self.half_life_seconds + 0.5)
        factors = np.ldexp(1.0, np.clip(exponents, -4096, 4096).astype(np.int32))
        weights = self.weights[rows]
        low, high = self.spans(weights)
        numbers = np.arange(weights.shape[1])
        counting = (numbers >= low[:, None]) & (numbers <= high[:, None])
        self.weights[rows] = weights * np.where(counting, factors[:, None], 1.0)
        self.totals[rows] *= factors
        self.references[rows] = references

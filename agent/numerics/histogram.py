"""Decaying histograms of many entities as one matrix.

A sample at time t enters with the weight ``w * 2^((t - reference) / half_life)``: later samples weigh more, nothing is
ever recomputed. The reference moves, and the row is rescaled, when a factor would exceed 2^100. References are
multiples of the half-life counted from the year 1, so that histograms of different machines line up.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray, RowTables

YEAR_ONE: Final = -62135596800.0
"""Seconds between 1970 and the year 1: the reference of a histogram that has seen nothing."""
_MAX_HALF_LIVES: Final = 100.0
_HEAVIEST: Final = 10000  # the weight of the heaviest bucket of a checkpoint


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
    int(log(value * (ratio - 1) / first + 1) / log(ratio)).

    Raises:
        ValueError: an option is not above zero, or the ratio not above 1.
    """
    _require(max_value=max_value, first_bucket_size=first_bucket_size, ratio=ratio - 1, epsilon=epsilon)

    def place(value: float) -> float:
        return math.log(value * (ratio - 1) / first_bucket_size + 1) / math.log(ratio)

    powers = np.array([_power(ratio, number) for number in range(math.ceil(place(max_value)) + 1)])
    return _buckets(first_bucket_size * (powers - 1) / (ratio - 1), first_bucket_size, place, epsilon)


def linear(max_value: float, bucket_size: float, epsilon: float) -> Buckets:
    """Buckets of equal width, ceil(max / size) + 1 of them: a value is in bucket int(value / size).

    Raises:
        ValueError: an option is not above zero.
    """
    _require(max_value=max_value, bucket_size=bucket_size, epsilon=epsilon)
    starts = np.arange(math.ceil(max_value / bucket_size) + 1, dtype=float) * bucket_size
    return _buckets(starts, bucket_size, lambda value: value / bucket_size, epsilon)


def _require(**options: float) -> None:
    for name, option in options.items():
        if not 0.0 < option < math.inf:
            raise ValueError(f"histogram option {name} is out of range")


def _buckets(starts: FloatArray, width: float, place: Callable[[float], float], epsilon: float) -> Buckets:
    """Buckets of which the smallest values are found once: every machine finds the same bucket for a value."""

    def lowest(number: int) -> float:
        """Its start, give or take the rounding of `place`."""
        value = max(float(starts[number]), width)
        while int(place(value)) < number:
            value = math.nextafter(value, math.inf)
        while value > width and int(place(math.nextafter(value, 0.0))) >= number:
            value = math.nextafter(value, 0.0)
        return value

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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A histogram as Koordinator stores it: whole weights, the heaviest of them 10000."""

    total_weight: float  # sum of the real weights
    bucket_weights: Mapping[int, int]  # scaled, without zeros
    reference: float = YEAR_ONE  # the time at which a weight of 1 means 1 [seconds since 1970]


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

        Raises:
            ValueError: a weight is negative.
        """
        scaled = self._scaled(rows, times, weights)
        self.weights[rows, self.buckets.find(values)] += scaled
        self.totals[rows] += scaled

    def subtract(self, rows: IntArray, values: FloatArray, times: FloatArray, weights: float = 1.0) -> None:
        """Subtract a sample from each of the rows; weights below epsilon become zero. Arguments as in `add`."""
        scaled, result = self._scaled(rows, times, weights), self.buckets.find(values)
        left, total = self.weights[rows, result] - scaled, self.totals[rows] - scaled
        self.weights[rows, result] = np.where(left < self.buckets.epsilon, 0.0, left)
        self.totals[rows] = np.where(total < self.buckets.epsilon, 0.0, total)

    def percentiles(self, rows: IntArray, percentile: float) -> FloatArray:
        """Value that the given share (0..1) of the weight does not exceed; 0 for an empty row. shape (N,).

        Walks up from the lowest bucket until the share is reached and returns that bucket's end (the last
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
        result = np.minimum(np.where(reached.any(axis=1), reached.argmax(axis=1), high), high)
        starts = self.buckets.starts
        return np.where(empty, 0.0, starts[np.minimum(result + 1, len(starts) - 1)])

    def merge(self, other: "HistogramBank") -> None:
        """Add what counts of the same rows of another bank.

        Raises:
            ValueError: its buckets or its half-life differ.
        """
        same = (
            np.array_equal(other.buckets.starts, self.buckets.starts) and other.buckets.epsilon == self.buckets.epsilon
        )
        if not same or other.half_life_seconds != self.half_life_seconds:
            raise ValueError("histograms with different buckets or half-lives cannot be merged")
        theirs = copy.deepcopy(other)
        self._align_with(theirs)
        theirs.weights[~theirs.counting(np.arange(len(theirs.totals)))] = 0.0
        self._absorb(theirs)

    def export(self, row: int) -> Checkpoint:
        """Return a row as in Koordinator's checkpoints: without buckets lighter than 1/20000 of the heaviest."""
        (low,), (high,) = self.spans(self.weights[[row]])
        weights = self.weights[row, low : high + 1]
        scaled = np.floor(weights * (_HEAVIEST / weights.max(initial=self.buckets.epsilon)) + 0.5).astype(int)
        buckets = {int(low + index): int(scaled[index]) for index in np.flatnonzero(scaled)}
        return Checkpoint(float(self.totals[row]), buckets, float(self.references[row]))

    def load(self, row: int, checkpoint: Checkpoint) -> None:
        """Add to a row what a checkpoint holds; an empty row takes its reference, whatever multiple that is.

        Raises:
            ValueError: its total is negative, or one of its buckets does not exist here.
        """
        if not checkpoint.total_weight >= 0.0:
            raise ValueError(f"totalWeight must not be negative, got {checkpoint.total_weight}")
        for index, weight in checkpoint.bucket_weights.items():
            if not 0 <= index < self.weights.shape[1] or weight < 0:
                raise ValueError(f"bucketWeights: there is no bucket {index}, or its weight {weight} is negative")
        if self.totals[row] == 0.0:
            self.references[row] = checkpoint.reference
        if not (whole := sum(checkpoint.bucket_weights.values())):
            return
        loaded = HistogramBank(self.buckets, self.half_life_seconds, rows=len(self.totals))
        loaded.references[:] = self.references
        for index, weight in checkpoint.bucket_weights.items():
            loaded.weights[row, index] = weight * (checkpoint.total_weight / whole)
        loaded.totals[row], loaded.references[row] = checkpoint.total_weight, checkpoint.reference
        self._align_with(loaded)
        self._absorb(loaded)

    def _align_with(self, other: "HistogramBank") -> None:
        """Bring each row of both to the newer of their references."""
        newest = np.maximum(self.references, other.references)
        for bank in (self, other):
            older = np.flatnonzero(bank.references < newest)
            bank.align(older, newest[older])

    def _absorb(self, other: "HistogramBank") -> None:
        """Add the rows of another; a reference that was loaded need not be a multiple of the half-life."""
        factors = np.exp2((other.references - self.references) / self.half_life_seconds)
        self.weights += other.weights * factors[:, None]
        self.totals += other.totals * factors

    def spans(self, weights: FloatArray) -> tuple[IntArray, IntArray]:
        """First and last bucket that count, of rows of weights; (last bucket, 0) for an empty one."""
        heavy = weights >= self.buckets.epsilon
        last = weights.shape[1] - 1
        some = heavy.any(axis=1)
        low = np.where(some, heavy.argmax(axis=1), last)
        high = np.where(some, last - heavy[:, ::-1].argmax(axis=1), 0)
        return low, high

    def align(self, rows: IntArray, times: FloatArray) -> None:
        """Move the references of the rows to the multiples of the half-life nearest to the times.

        Weights outside of the buckets that count stay as they are: too light to matter, and peers leave them, too.
        """
        if math.isinf(self.half_life_seconds):
            return
        references = np.floor((times - YEAR_ONE) / self.half_life_seconds + 0.5) * self.half_life_seconds + YEAR_ONE
        exponents = np.floor((self.references[rows] - references) / self.half_life_seconds + 0.5)
        factors = np.ldexp(1.0, np.clip(exponents, -4096, 4096).astype(np.int32))
        self.weights[rows] *= np.where(self.counting(rows), factors[:, None], 1.0)
        self.totals[rows] *= factors
        self.references[rows] = references

    def counting(self, rows: IntArray) -> BoolArray:
        """Return which buckets lie between the first and the last that count, of each of the rows."""
        low, high = self.spans(self.weights[rows])
        numbers = np.arange(self.weights.shape[1])
        inside: BoolArray = (numbers >= low[:, None]) & (numbers <= high[:, None])
        return inside

    def _scaled(self, rows: IntArray, times: FloatArray, weights: FloatArray | float) -> FloatArray:
        """Return the weights of samples at the references of their rows, which move where these are long ago."""
        if not np.min(weights, initial=0.0) >= 0.0:
            raise ValueError("a sample's weight must not be negative")
        late = times > self.references[rows] + self.half_life_seconds * _MAX_HALF_LIVES
        if late.any():
            self.align(rows[late], times[late])
        scaled: FloatArray = np.exp2((times - self.references[rows]) / self.half_life_seconds) * weights
        return scaled

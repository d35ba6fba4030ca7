"""Decaying histograms: of many entities as one matrix, and of one entity as a thin view on a row of it.

A sample at time t enters with the weight ``w * 2^((t - reference) / half_life)``: later samples weigh more, nothing is
ever recomputed. The reference moves, and the row is rescaled, when a factor would exceed 2^100. References are
multiples of the half-life counted from the year 1, so that histograms of different machines line up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray, grown
from agent.numerics.buckets import Buckets

YEAR_ONE: Final = -62135596800.0
"""Seconds between 1970 and the year 1: the reference of a histogram that has seen nothing."""
_MAX_HALF_LIVES: Final = 100.0
_HEAVIEST: Final = 10000


class HistogramError(ValueError):
    """Histograms that do not fit together, or an import that is not one; the message says why."""


@dataclass(frozen=True, slots=True)
class ScaledHistogram:
    """The interchange form: whole weights, the heaviest 10000. It drops what is lighter than 1/20000 of that."""

    total_weight: float
    """Sum of the real weights."""
    bucket_weights: Mapping[int, int] = field(default_factory=dict)
    """Bucket -> scaled weight; zeros are left out."""
    reference: float | None = None
    """Time at which a weight of 1 means 1; None for one that does not decay or saw nothing. [seconds since 1970]"""


class HistogramBank:
    """Histograms of many entities over the same buckets, shape (R, B)."""

    def __init__(self, buckets: Buckets, half_life_seconds: float | None = None, rows: int = 0) -> None:
        self.buckets = buckets
        self.half_life_seconds = half_life_seconds
        self.weights: FloatArray = np.zeros((rows, len(buckets.starts)))
        self.totals: FloatArray = np.zeros(rows)
        self.references: FloatArray = np.full(rows, YEAR_ONE)

    def grow(self, rows: int) -> None:
        """Make room for that many rows."""
        self.weights = grown(self.weights, rows, 0.0)
        self.totals = grown(self.totals, rows, 0.0)
        self.references = grown(self.references, rows, YEAR_ONE)

    def clear(self, rows: IntArray) -> None:
        """Forget everything in these rows."""
        self.weights[rows], self.totals[rows], self.references[rows] = 0.0, 0.0, YEAR_ONE

    def copy(self, source: int, target: int) -> None:
        """Let one row continue another's history."""
        for table in (self.weights, self.totals, self.references):
            table[target] = table[source]

    def add(self, rows: IntArray, values: FloatArray, times: FloatArray, weights: FloatArray | float = 1.0) -> None:
        """Add one sample to each of the rows.

        Args:
            rows: shape (N,), each row at most once.
            values: shape (N,), finite.
            times: shape (N,). Late samples are fine, they count less. [seconds]
            weights: shape (N,), not negative.
        """
        scaled = self._factors(rows, times) * weights
        self.weights[rows, self.buckets.find(values)] += scaled
        self.totals[rows] += scaled

    def subtract(
        self, rows: IntArray, values: FloatArray, times: FloatArray, weights: FloatArray | float = 1.0
    ) -> None:
        """Take one sample from each of the rows; what is left below epsilon becomes zero. Arguments as in `add`."""
        scaled = self._factors(rows, times) * weights
        found = self.buckets.find(values)
        self.weights[rows, found] = self._positive(self.weights[rows, found] - scaled)
        self.totals[rows] = self._positive(self.totals[rows] - scaled)

    def align(self, rows: IntArray, times: FloatArray) -> None:
        """Move the references of the rows to the multiples of the half-life nearest to the times.

        Weights outside of the buckets that count stay as they are: too light to matter, and peers leave them, too.
        """
        if self.half_life_seconds is None:
            return
        references = np.floor((times - YEAR_ONE) / self.half_life_seconds + 0.5) * self.half_life_seconds + YEAR_ONE
        exponents = np.floor((self.references[rows] - references) / self.half_life_seconds + 0.5)
        factors = np.ldexp(1.0, np.clip(exponents, -4096, 4096).astype(np.int32))
        self.weights[rows] *= np.where(self.counting(self.weights[rows]), factors[:, None], 1.0)
        self.totals[rows] *= factors
        self.references[rows] = references

    def percentiles(self, rows: IntArray, percentile: float, *, interpolate: bool = False) -> FloatArray:
        """Value that the given share of the weight does not exceed; 0 for an empty row.

        Walks up from the lowest bucket until the share is reached and answers with that bucket's end (the last
        bucket's start): 0 to 5 % too high. With `interpolate` it answers with the place inside of the bucket.

        Args:
            rows: shape (N,).
            percentile: the share, 0..1.
            interpolate: assume that the weight of a bucket is spread evenly.
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
        answer = starts[np.minimum(found + 1, len(starts) - 1)]
        if interpolate:
            each = np.arange(len(found))
            own, before = weights[each, found], sums[each, found] - weights[each, found]
            share = np.clip((wanted - before) / np.where(own > 0.0, own, 1.0), 0.0, 1.0)
            answer = starts[found] + (answer - starts[found]) * share
        return np.where(empty, 0.0, answer)

    def spans(self, weights: FloatArray) -> tuple[IntArray, IntArray]:
        """First and last bucket that count, of rows of weights; (last bucket, 0) for an empty one."""
        heavy = weights >= self.buckets.epsilon
        last = weights.shape[1] - 1
        some = heavy.any(axis=1)
        low = np.where(some, heavy.argmax(axis=1), last)
        high = np.where(some, last - heavy[:, ::-1].argmax(axis=1), 0)
        return low, high

    def counting(self, weights: FloatArray) -> BoolArray:
        """Which weights lie between the first and the last bucket that count, of rows of weights."""
        low, high = self.spans(weights)
        numbers = np.arange(weights.shape[1])
        inside: BoolArray = (numbers >= low[:, None]) & (numbers <= high[:, None])
        return inside

    def _factors(self, rows: IntArray, times: FloatArray) -> FloatArray:
        if self.half_life_seconds is None:
            return np.ones(len(rows))
        late = times > self.references[rows] + self.half_life_seconds * _MAX_HALF_LIVES
        if late.any():
            self.align(rows[late], times[late])
        factors: FloatArray = np.exp2((times - self.references[rows]) / self.half_life_seconds)
        return factors

    def _positive(self, values: FloatArray) -> FloatArray:
        positive: FloatArray = np.where(values < self.buckets.epsilon, 0.0, values)
        return positive


class Histogram:
    """One entity's histogram: a view on one row of a bank (its own bank, when none is given)."""

    def __init__(self, bank: HistogramBank, row: int = 0) -> None:
        self.bank = bank
        self.row = row

    @classmethod
    def new(cls, buckets: Buckets, half_life_seconds: float | None = None) -> Self:
        """An empty histogram on its own; it decays when it has a half-life."""
        return cls(HistogramBank(buckets, half_life_seconds, rows=1))

    def add(self, value: float, weight: float = 1.0, time: float | None = None) -> None:
        """Add a sample.

        Args:
            value: the sample.
            weight: its weight.
            time: when it was taken; None is the year 1. [seconds since 1970]

        Raises:
            HistogramError: the weight is negative.
        """
        self.bank.add(*self._arguments(value, weight, time))

    def subtract(self, value: float, weight: float = 1.0, time: float | None = None) -> None:
        """Take a sample away; a bucket never goes below zero. Arguments and errors as in `add`."""
        self.bank.subtract(*self._arguments(value, weight, time))

    def merge(self, other: "Histogram") -> None:
        """Add everything that counts of the other histogram.

        Raises:
            HistogramError: its buckets or its half-life differ.
        """
        if other.bank.buckets != self.bank.buckets or other.bank.half_life_seconds != self.bank.half_life_seconds:
            raise HistogramError("histograms with different buckets or half-lives cannot be merged")
        theirs = Histogram.new(other.bank.buckets, other.bank.half_life_seconds)
        theirs.bank.weights[0] = other.bank.weights[other.row]
        theirs.bank.totals[0] = other.bank.totals[other.row]
        theirs.bank.references[0] = other.bank.references[other.row]
        self._align_with(theirs)
        counting = self.bank.counting(theirs.bank.weights)[0]
        self._absorb(theirs, np.where(counting, theirs.bank.weights[0], 0.0))

    def percentile(self, percentile: float, *, interpolate: bool = False) -> float:
        """Value that the given share of the weight does not exceed; see `HistogramBank.percentiles`."""
        return float(self.bank.percentiles(self._rows, percentile, interpolate=interpolate)[0])

    @property
    def is_empty(self) -> bool:
        """Whether no bucket holds a weight that counts."""
        return bool((self._weights < self.bank.buckets.epsilon).all())

    @property
    def total_weight(self) -> float:
        """Sum of all weights."""
        return float(self.bank.totals[self.row])

    @property
    def bucket_weights(self) -> dict[int, float]:
        """Every weight that is not zero, by bucket."""
        return {int(index): float(self._weights[index]) for index in np.flatnonzero(self._weights)}

    @property
    def bucket_span(self) -> tuple[int, int]:
        """First and last bucket that count; (last, 0) when empty."""
        low, high = self.bank.spans(self._weights[None, :])
        return int(low[0]), int(high[0])

    @property
    def reference(self) -> float | None:
        """Time at which a weight of 1 means 1 [seconds since 1970]; None when it does not decay or saw nothing."""
        reference = float(self.bank.references[self.row])
        return None if self.bank.half_life_seconds is None or reference == YEAR_ONE else reference

    def export(self) -> ScaledHistogram:
        """The interchange form: lossy, the agent's own checkpoints are not."""
        low, high = self.bucket_span
        weights = self._weights[low : high + 1]
        heaviest = weights.max() if weights.size else 0.0
        if heaviest <= 0.0:
            return ScaledHistogram(self.total_weight, {}, self.reference)
        scaled = np.floor(weights * (_HEAVIEST / heaviest) + 0.5).astype(np.int64)
        kept = {low + int(index): int(scaled[index]) for index in np.flatnonzero(scaled)}
        return ScaledHistogram(self.total_weight, kept, self.reference)

    def load(self, scaled: ScaledHistogram | None) -> None:
        """Add what an interchange form holds. Into nothing it brings its own reference, whatever multiple that is.

        Raises:
            HistogramError: there is none, its total is negative, or one of its buckets does not exist here.
        """
        if scaled is None:
            raise HistogramError("there is no histogram to load")
        if not scaled.total_weight >= 0.0:
            raise HistogramError(f"totalWeight must not be negative, got {scaled.total_weight}")
        count = len(self.bank.buckets.starts)
        for index, weight in scaled.bucket_weights.items():
            if not 0 <= index < count or weight < 0:
                raise HistogramError(f"bucketWeights: bucket {index} (weight {weight}) is not one of 0 to {count - 1}")
        reference = YEAR_ONE if scaled.reference is None else scaled.reference
        if self.total_weight == 0.0:
            self.bank.references[self.row] = reference
        whole = sum(scaled.bucket_weights.values())
        if whole == 0:
            return
        loaded = Histogram.new(self.bank.buckets, self.bank.half_life_seconds)
        for index, weight in scaled.bucket_weights.items():
            loaded.bank.weights[0, index] = weight * (scaled.total_weight / whole)
        loaded.bank.totals[0] = scaled.total_weight
        loaded.bank.references[0] = reference
        self._align_with(loaded)
        self._absorb(loaded, loaded.bank.weights[0])

    @property
    def _rows(self) -> IntArray:
        return np.array([self.row], dtype=np.intp)

    @property
    def _weights(self) -> FloatArray:
        weights: FloatArray = self.bank.weights[self.row]
        return weights

    def _arguments(
        self, value: float, weight: float, time: float | None
    ) -> tuple[IntArray, FloatArray, FloatArray, float]:
        if not weight >= 0.0:
            raise HistogramError(f"a sample's weight must not be negative, got {weight}")
        return self._rows, np.array([value], dtype=np.float64), np.array([YEAR_ONE if time is None else time]), weight

    def _align_with(self, theirs: "Histogram") -> None:
        """Bring this histogram and one on its own to the newer of their references."""
        mine, other = self.bank.references[self.row], theirs.bank.references[0]
        if mine < other:
            self.bank.align(self._rows, np.array([other]))
        elif other < mine:
            theirs.bank.align(np.array([0], dtype=np.intp), np.array([mine]))

    def _absorb(self, theirs: "Histogram", weights: FloatArray) -> None:
        """Add these weights, and the total, of a histogram on its own that has our reference, or nearly so."""
        factor = 1.0
        if self.bank.half_life_seconds is not None:  # an imported reference need not be a multiple of the half-life
            apart = float(theirs.bank.references[0] - self.bank.references[self.row])
            factor = 2.0 ** (apart / self.bank.half_life_seconds)
        self.bank.weights[self.row] += weights * factor
        self.bank.totals[self.row] += theirs.total_weight * factor

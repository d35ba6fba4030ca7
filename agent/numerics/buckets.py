"""Where the buckets of a histogram begin and end, and which bucket a value falls into."""

import math
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray


class Buckets(Protocol):
    """Options of a histogram. Bucket 0 begins at 0; the last one has no end."""

    @property
    def epsilon(self) -> float:
        """Weight below which a bucket counts as empty."""

    @property
    def starts(self) -> FloatArray:
        """Where each bucket begins, shape (B,), rising."""

    def find(self, values: FloatArray) -> IntArray:
        """Bucket of each value; below the first it is the first, above the last the last."""


def _require(name: str, value: float, *, above: float = 0.0) -> None:
    if not value > above or math.isinf(value):
        raise ValueError(f"histogram option {name} must be a finite number above {above:g}, got {value}")


@dataclass(frozen=True)
class LinearBuckets:
    """Buckets of equal width: bucket n begins at n * size; ceil(max / size) + 1 of them.

    Raises:
        ValueError: an option is not above zero.
    """

    max_value: float
    """Values above fall into the last bucket."""
    bucket_size: float
    """Width of a bucket."""
    epsilon: float
    """Weight below which a bucket counts as empty."""
    starts: FloatArray = field(init=False, repr=False, compare=False)
    """Where each bucket begins."""

    def __post_init__(self) -> None:
        for name in ("max_value", "bucket_size", "epsilon"):
            _require(name, getattr(self, name))
        count = math.ceil(self.max_value / self.bucket_size) + 1
        object.__setattr__(self, "starts", np.arange(count, dtype=np.float64) * self.bucket_size)

    def find(self, values: FloatArray) -> IntArray:
        """Bucket of each value: int(value / size), kept within the buckets."""
        return np.clip(np.trunc(values / self.bucket_size), 0, len(self.starts) - 1).astype(np.intp)


@dataclass(frozen=True)
class ExponentialBuckets:
    """Buckets that widen by a ratio: bucket n begins at first * (ratio^n - 1) / (ratio - 1).

    With first 0.025 and ratio 1.05 (CPU): 0, 0.025, 0.05125, 0.0788 …

    Raises:
        ValueError: an option is out of range.
    """

    max_value: float
    """Values above fall into the last buckets."""
    first_bucket_size: float
    """Width of bucket 0."""
    ratio: float
    """How much wider each bucket is than the one before."""
    epsilon: float
    """Weight below which a bucket counts as empty."""
    starts: FloatArray = field(init=False, repr=False, compare=False)
    """Where each bucket begins."""
    _lowest_values: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("max_value", "first_bucket_size", "epsilon"):
            _require(name, getattr(self, name))
        _require("ratio", self.ratio, above=1.0)
        powers = np.array([_power(self.ratio, n) for n in range(math.ceil(self._place(self.max_value)) + 1)])
        object.__setattr__(self, "starts", self.first_bucket_size * (powers - 1) / (self.ratio - 1))
        lowest = [self._lowest(number) for number in range(1, len(self.starts))]
        object.__setattr__(self, "_lowest_values", np.array(lowest))

    def find(self, values: FloatArray) -> IntArray:
        """Bucket of each value: int(log(value * (ratio - 1) / first + 1) / log(ratio)), kept within the buckets."""
        return np.searchsorted(self._lowest_values, values, side="right")

    def _place(self, value: float) -> float:
        return math.log(value * (self.ratio - 1) / self.first_bucket_size + 1) / math.log(self.ratio)

    def _lowest(self, number: int) -> float:
        """The smallest value of a bucket: its start, give or take the rounding of the logarithm.

        Found once per bucket, so that every machine and every array length finds the same bucket for a value.
        """
        value = max(float(self.starts[number]), self.first_bucket_size)
        while int(self._place(value)) < number:
            value = math.nextafter(value, math.inf)
        while value > self.first_bucket_size and int(self._place(math.nextafter(value, 0.0))) >= number:
            value = math.nextafter(value, 0.0)
        return value


def _power(base: float, exponent: int) -> float:
    """The base to a whole power by repeated squaring: the rounding of Go's math.Pow, with which we share histograms."""
    answer = 1.0
    while exponent:
        if exponent & 1:
            answer *= base
        base *= base
        exponent >>= 1
    return answer


CPU_BUCKETS: Final = ExponentialBuckets(max_value=1024.0, first_bucket_size=0.025, ratio=1.05, epsilon=0.0001)
"""For CPU, in cores: 158 buckets."""
MEMORY_BUCKETS: Final = ExponentialBuckets(
    max_value=float(2**41), first_bucket_size=5.0 * 2**20, ratio=1.05, epsilon=0.0001
)
"""For memory, in bytes: 205 buckets."""

"""Results of queries: samples, or summaries of periods; times and values side by side."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

MINUTE_MS: Final = 60_000
FIVE_MINUTES_MS: Final = 300_000
NO_TIMES: Floats = np.empty(0)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one series, oldest first. A gap in the measurements is a gap in ``times``."""

    times: Floats  # shape (N,), strictly rising [seconds since 1970]
    values: Floats  # shape (N,) [the metric's unit]

    def __len__(self) -> int:
        return len(self.times)


EMPTY: Final = Series(NO_TIMES, NO_TIMES)


@dataclass(frozen=True, slots=True)
class Points:
    """Summaries of equally long periods of one series, oldest first; a period without samples is absent."""

    starts_ms: Integers  # when each period begins, shape (N,) [milliseconds]
    average: Floats  # mean of its samples, shape (N,)
    highest: Floats  # largest of its samples, shape (N,)
    count: Integers  # number of its samples, shape (N,)

    def __len__(self) -> int:
        return len(self.starts_ms)

    @classmethod
    def of(cls, times_ms: Integers, values: Floats, period_ms: int = MINUTE_MS) -> "Points":
        """Summaries of samples per period. The times must not fall."""
        return cls(times_ms, values, values, np.ones(len(times_ms), np.int64)).merged(period_ms)

    def merged(self, period_ms: int) -> "Points":
        """The points of longer periods: averages weighted by count. Several points of one period become one."""
        if not len(self):
            return self
        starts = self.starts_ms // period_ms * period_ms
        first = np.flatnonzero(np.append([True], starts[1:] != starts[:-1]))
        count = np.add.reduceat(self.count, first)
        total = np.add.reduceat(self.average * self.count, first)
        return Points(starts[first], total / count, np.maximum.reduceat(self.highest, first), count)

    def averages(self, period_ms: int) -> Series:
        coarse = self.merged(period_ms)
        return Series(coarse.starts_ms / 1000.0, coarse.average)

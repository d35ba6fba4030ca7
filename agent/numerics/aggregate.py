"""Statistics of the samples in a window.

A percentile is a sample that was really seen, never a number between two: ``sorted[max(int(n * p) - 1, 0)]`` with n
and p in single precision. It errs downwards: of two samples every percentile below p100 is the smaller one.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray

COLD_START_SHARE: Final = 0.5  # a window whose samples span less than this share of it is not reported
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}  # the percentiles that are reported, by name


class NoSamplesError(ValueError):
    """A statistic of no samples; only `count` is defined then."""


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """Statistics of a window."""

    average: float  # mean of the samples
    stdev: float  # standard deviation of the samples about their mean (divided by n)
    p50: float  # median
    p90: float  # 90th percentile
    p95: float  # 95th percentile
    p99: float  # 99th percentile
    max: float  # largest sample
    last: float  # latest sample
    count: int  # number of samples
    span_seconds: float  # time between the first and the last sample [s]


@lru_cache(maxsize=8192)
def percentile_index(count: int, percentile: float) -> int:
    """Place of a percentile among that many sorted samples: int(n * p) - 1 in single precision, at least 0."""
    return max(min(int(np.float32(count) * np.float32(percentile)), count) - 1, 0)


def percentile_rows(table: FloatArray, percentile: float) -> FloatArray:
    """The same percentile of every row at once; NaN where a row has no sample.

    Args:
        table: shape (R, T), NaN where a sample is missing.
        percentile: 0..1.
    """
    if table.shape[1] == 0:
        return np.full(table.shape[0], np.nan)
    counts = np.count_nonzero(~np.isnan(table), axis=1)
    places = np.array([percentile_index(count, percentile) for count in range(table.shape[1] + 1)], dtype=np.intp)
    answer: FloatArray = np.sort(table, axis=1)[np.arange(table.shape[0]), places[counts]]
    return answer


def statistics(times: FloatArray, values: FloatArray) -> WindowStatistics:
    """All statistics of one window.

    Args:
        times: shape (N,), rising. [s]
        values: shape (N,).

    Raises:
        NoSamplesError: N is 0.
    """
    if values.size == 0:
        raise NoSamplesError("statistics of no samples")
    ordered = np.sort(values)
    places = {name: percentile_index(ordered.size, share) for name, share in PERCENTILES.items()}
    return WindowStatistics(
        average=float(np.mean(values)),
        stdev=float(np.std(values)),
        max=float(ordered[-1]),
        last=float(values[-1]),
        count=int(values.size),
        span_seconds=float(times[-1] - times[0]),
        **{name: float(ordered[place]) for name, place in places.items()},
    )


def is_cold(span_seconds: float, window_seconds: float) -> bool:
    """Return whether the samples span too little of the window: below half of it; exactly half is enough."""
    return span_seconds < COLD_START_SHARE * window_seconds


def whole(value: float, scale: int = 1) -> int:
    """A measured value as a whole number of smaller units, cut off: 1.9996 cores -> 1999 milli-cores (scale 1000).

    Never negative; NaN counts as 0.
    """
    scaled = value * scale  # may be infinite where the value is not
    return int(scaled) if math.isfinite(scaled) and scaled > 0.0 else 0


def table(parts: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Series side by side over the ticks that any of them has.

    Args:
        parts: times and values of each series, R of them; the values of one tick carry the very same time.

    Returns:
        The ticks, shape (T,), rising, and the values, shape (R, T), NaN where a series lacks the tick.
    """
    if not parts:
        return np.empty(0), np.empty((0, 0))
    first = parts[0][0]
    if all(times is first for times, _ in parts):
        return first, np.concatenate([values for _, values in parts]).reshape(len(parts), -1)
    times = np.concatenate([times for times, _ in parts])
    if times.size == first.size * len(parts) and (times.reshape(len(parts), -1) == first).all():
        return first, np.concatenate([values for _, values in parts]).reshape(len(parts), -1)
    ticks = np.sort(times)
    ticks = ticks[np.append([True], ticks[1:] != ticks[:-1])[: ticks.size]]  # np.unique is slower
    values = np.full((len(parts), len(ticks)), np.nan)
    rows: IntArray = np.repeat(np.arange(len(parts)), [len(times) for times, _ in parts])
    values[rows, np.searchsorted(ticks, times)] = np.concatenate([values for _, values in parts])
    return ticks, values


def total(values: FloatArray, known_before: BoolArray, still_there: BoolArray) -> FloatArray:
    """Sum of the series at each tick, skipping ticks at which a series has a hole.

    A series is expected from its first sample (or from the start, when it was known before) to its last (or to the
    end, when its owner is still there). Before and after, it adds nothing. Where an expected sample is missing, the
    sum of that tick is unknown.

    Args:
        values: shape (R, T), NaN where a sample is missing.
        known_before: which series had samples before the first tick, shape (R,).
        still_there: which series go on after the last tick, shape (R,).

    Returns:
        shape (T,), NaN where the sum is unknown or nothing was there.
    """
    there = ~np.isnan(values)
    if there.all():
        sums: FloatArray = values.sum(axis=0)
        return sums
    begun = np.logical_or.accumulate(there, axis=1) | known_before[:, None]
    goes_on = np.logical_or.accumulate(there[:, ::-1], axis=1)[:, ::-1] | still_there[:, None]
    holes = (begun & goes_on & ~there).any(axis=0)
    return np.where(there.any(axis=0) & ~holes, np.where(there, values, 0.0).sum(axis=0), np.nan)

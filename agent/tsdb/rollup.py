"""Many points to few: 1-minute points from samples, longer averages from minutes. Pure numpy."""

from dataclasses import dataclass

import numpy as np

from agent.tsdb.series import Floats, Integers, Mask, Series

MINUTE_MS = 60_000
FIVE_MINUTES_MS = 300_000


@dataclass(frozen=True, slots=True)
class Points:
    """Summaries of equally long periods of one series, oldest first; a period without samples is absent."""

    starts_ms: Integers
    """When each period begins, shape (N,) [milliseconds]."""
    average: Floats
    """Mean of its samples, shape (N,)."""
    highest: Floats
    """Largest of its samples, shape (N,)."""
    count: Integers
    """Number of its samples, shape (N,)."""

    def __len__(self) -> int:
        return len(self.starts_ms)

    def part(self, low: int, high: int) -> "Points":
        """The points from one place to before another."""
        cut = slice(low, high)
        return Points(self.starts_ms[cut], self.average[cut], self.highest[cut], self.count[cut])

    def where(self, mask: Mask) -> "Points":
        """The points that are marked, shape (N,)."""
        return Points(self.starts_ms[mask], self.average[mask], self.highest[mask], self.count[mask])


def points(times_ms: Integers, values: Floats, period_ms: int) -> Points:
    """Summaries of the samples per period. The times must not fall."""
    return merged(Points(times_ms, values, values, np.ones(len(times_ms), np.int64)), period_ms)


def merged(fine: Points, period_ms: int) -> Points:
    """The points of longer periods: averages weighted by count. Several points of one period become one."""
    if not len(fine):
        return fine
    starts = fine.starts_ms // period_ms * period_ms
    first = np.flatnonzero(np.append([True], starts[1:] != starts[:-1]))
    count = np.add.reduceat(fine.count, first)
    total = np.add.reduceat(fine.average * fine.count, first)
    return Points(starts[first], total / count, np.maximum.reduceat(fine.highest, first), count)


def averages(fine: Points, period_ms: int) -> Series:
    """The averages of longer periods, at the times their periods begin."""
    coarse = merged(fine, period_ms)
    return Series(coarse.starts_ms / 1000.0, coarse.average)


def concatenated(parts: list[Points]) -> Points:
    """Parts as one, in order of time."""
    if len(parts) == 1:
        return parts[0]
    starts = np.concatenate([part.starts_ms for part in parts])
    order = np.argsort(starts, kind="stable")
    return Points(
        starts[order],
        np.concatenate([part.average for part in parts])[order],
        np.concatenate([part.highest for part in parts])[order],
        np.concatenate([part.count for part in parts])[order],
    )

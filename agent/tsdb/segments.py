"""Which samples count when the clock went back: the latest recording of a stretch of time is the one that is seen.

Recording is cut into runs: stretches in which the clock neither went back nor paused for ten minutes. A sample is
hidden as soon as a later run covers its time, like the old recording on a tape that is used again. So a window never
holds two recordings of one moment, a clock that was wrong for a while costs nothing but the time that is recorded
anew, and a machine that wakes up in 1970 hides nothing of what was recorded in the right year: the jump forward to
the right time begins a run, which covers only itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from agent.tsdb.series import EMPTY, Integers, Mask, Series

PAUSE_MS = 600_000
"""A longer silence (or leap of the clock) ends a run. [milliseconds]"""

Extents: TypeAlias = dict[int, tuple[int, int]]
"""First and last time of each run, both included [milliseconds]."""


@dataclass(frozen=True, slots=True)
class SegmentSamples:
    """Samples of one series out of one run."""

    segment: int
    """The run; a later one has a higher number."""
    series: Series
    """The samples."""


def next_segment(last: tuple[int, int] | None, time_ms: int, newest: int) -> int:
    """The run of a tick.

    Args:
        last: Run and time of the tick before; None when there is none.
        time_ms: The tick's time. [milliseconds]
        newest: The highest run so far.
    """
    if last is None or not last[1] < time_ms <= last[1] + PAUSE_MS:
        return newest + 1
    return last[0]


def widened(extents: Extents, more: Extents) -> Extents:
    """Both together: of a run in both the earlier first and the later last time."""
    result = dict(extents)
    for segment, (first, last) in more.items():
        known = result.get(segment, (first, last))
        result[segment] = (min(known[0], first), max(known[1], last))
    return result


def shown(segment: int, times_ms: Integers, extents: Extents) -> Mask | None:
    """Which of a run's times no later run covers; None for all of them.

    Args:
        segment: The run.
        times_ms: Rising, at least one. [milliseconds]
        extents: Of all runs.
    """
    mask: Mask | None = None
    for later, (first, last) in extents.items():
        if later > segment and first <= times_ms[-1] and last >= times_ms[0]:
            covered = (times_ms >= first) & (times_ms <= last)
            mask = ~covered if mask is None else mask & ~covered
    return mask


def joined(parts: Sequence[SegmentSamples], extents: Extents) -> Series:
    """Parts of one series as one, in order of time, each moment in its latest recording."""
    if not parts:
        return EMPTY
    if len({part.segment for part in parts}) > 1 or _covered(parts[0].segment, extents):
        parts = [part for part in (_seen(part, extents) for part in parts) if len(part.series)]
        parts.sort(key=lambda part: part.series.times[0])
    if len(parts) == 1:
        return parts[0].series
    if not parts:
        return EMPTY
    times = np.concatenate([part.series.times for part in parts])
    values = np.concatenate([part.series.values for part in parts])
    if not bool(np.all(times[1:] > times[:-1])):  # one run inside a gap of another
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return Series(times, values)


def _seen(part: SegmentSamples, extents: Extents) -> SegmentSamples:
    mask = shown(part.segment, np.rint(part.series.times * 1000).astype(np.int64), extents)
    return (
        part
        if mask is None
        else SegmentSamples(part.segment, Series(part.series.times[mask], part.series.values[mask]))
    )


def _covered(segment: int, extents: Extents) -> bool:
    return any(later > segment for later in extents)

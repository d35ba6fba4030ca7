"""Overlapping recordings after the clock went back: the latest recording of a time is in force.

Recording is cut into segments: stretches in which the clock neither went back nor paused for ten minutes. A sample is
hidden as soon as a later segment covers its time. So a window
never has two recordings of one moment, a wrong clock costs only the time that is
recorded again, and a machine that starts in 1970 hides nothing of the right year: the jump
forward to the right time begins a segment, which covers only itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from agent.tsdb.series import Floats, Integers

PAUSE_MS = 600_000  # a longer silence (or leap of the clock) ends a segment [milliseconds]

Extents: TypeAlias = dict[int, tuple[int, int]]
"""First and last time of each segment, both included [milliseconds]; a later one has a higher number."""


class Part(NamedTuple):
    """The samples of a series in one segment."""

    segment: int
    times_ms: Integers  # shape (N,), rising [milliseconds]
    columns: Floats  # the samples, shape (1, N), or average, highest and count of minutes, shape (3, N)


def next_segment(last: tuple[int, int] | None, time_ms: int, newest: int) -> int:
    """The segment of a tick, after one of this segment and time, if any; `newest` is the highest so far."""
    if last is None or not last[1] < time_ms <= last[1] + PAUSE_MS:
        return newest + 1
    return last[0]


def widened(extents: Extents, more: Extents) -> Extents:
    """Both together: of a segment in both the earlier first and the later last time."""
    result = dict(extents)
    for segment, (first, last) in more.items():
        span = result.get(segment, (first, last))
        result[segment] = (min(span[0], first), max(span[1], last))
    return result


def latest(parts: Mapping[str, Sequence[Part]], extents: Extents) -> Iterator[tuple[str, Integers, Floats]]:
    """Name, times and columns of each series, in order of time, each moment in its latest recording."""
    newest = max(extents, default=0)
    for name, own in parts.items():
        if len(own) > 1 or own[0].segment < newest:
            yield name, *joined([_seen(part, extents) if part.segment < newest else part for part in own])
        else:
            yield name, own[0].times_ms, own[0].columns


def joined(parts: Sequence[Part]) -> tuple[Integers, Floats]:
    """Times and columns of all parts, in order of time."""
    times = np.concatenate([part.times_ms for part in parts])
    columns = np.concatenate([part.columns for part in parts], axis=1)
    if not bool(np.all(times[1:] > times[:-1])):  # one segment inside a gap of another
        order = np.argsort(times, kind="stable")
        times, columns = times[order], columns[:, order]
    return times, columns


def _seen(part: Part, extents: Extents) -> Part:
    times, seen = part.times_ms, np.ones(len(part.times_ms), bool)
    for later, (first, last) in extents.items():
        if later > part.segment and first <= times[-1] and last >= times[0]:
            seen &= (times < first) | (times > last)
    return Part(part.segment, times[seen], part.columns[:, seen])

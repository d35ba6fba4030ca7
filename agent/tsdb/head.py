"""The recent ticks in memory, in the order in which they were recorded. What windows are answered from.

They lie in pages of up to 256 ticks or ten minutes, one row per series, so that a window is a slice, forgetting copies
nothing, and pods that come and go do not widen all of it. A page belongs to one run: a stretch of recording in which
the clock neither went back nor paused (see `segments`).
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agent.tsdb.segments import Extents, SegmentSamples
from agent.tsdb.series import Floats, Integers, Series

_PAGE_TICKS = 256
_PAGE_MS = 600_000
_FIRST_TICKS = 4


@dataclass(frozen=True, slots=True)
class Tick:
    """One row of the head."""

    number: int
    """Ticks are numbered as they are recorded."""
    segment: int
    """The run that it belongs to."""
    time_ms: int
    """When. [milliseconds]"""
    layout: int
    """Which series it has."""
    series: Integers
    """Their numbers, rising, shape (S,)."""
    values: Floats
    """Their values, shape (S,)."""


class _Page:
    """Some ticks of one run: a table with one row per series, NaN where a tick lacks it."""

    __slots__ = ("columns", "first", "low", "rows", "segment", "table", "ticks")

    def __init__(self, first: int, segment: int, series: int) -> None:
        self.first = first
        self.segment = segment
        self.low = self.rows = 0
        self.ticks = np.empty((2, _FIRST_TICKS), np.int64)  # times and layouts
        self.table = np.full((series + series // 8 + 1, _FIRST_TICKS), np.nan)
        self.columns: dict[int, int] = {}

    @property
    def times_ms(self) -> Integers:
        return self.ticks[0, self.low : self.rows]

    def takes(self, number: int, segment: int, time_ms: int) -> bool:
        """Whether a tick belongs into this page."""
        is_next = segment == self.segment and number == self.first + self.rows
        return is_next and self.rows < _PAGE_TICKS and time_ms - int(self.ticks[0, 0]) < _PAGE_MS

    def cut(self, start_ms: int, end_ms: int) -> tuple[int, int]:
        low, high = np.searchsorted(self.times_ms, (start_ms, end_ms), side="right").tolist()
        return low + self.low, high + self.low

    def rows_of(self, series: Sequence[int], low: int, high: int) -> Floats:
        """Values of the series between two ticks, NaN where there is none; shape (S, high - low)."""
        columns = [self.columns.get(one, -1) for one in series]
        rows: Floats = self.table[columns, low:high]
        if -1 in columns:
            rows[np.array(columns) < 0] = np.nan
        return rows

    def places(self, series: Iterable[int]) -> list[int]:
        columns = self.columns
        try:
            return [columns[one] for one in series]
        except KeyError:
            found = [columns.setdefault(one, len(columns)) for one in series]
        if len(columns) > len(self.table):
            self._resize(len(columns) + len(columns) // 4, self.table.shape[1])
        return found

    def add(self, tick: Tick) -> None:
        if self.rows == self.ticks.shape[1]:
            self.ticks = np.concatenate([self.ticks, np.empty_like(self.ticks)], axis=1)
            self._resize(len(self.table), self.ticks.shape[1])
        self.ticks[:, self.rows] = tick.time_ms, tick.layout
        places = self.places(tick.series.tolist())  # first: it may make the table anew
        self.table[places, self.rows] = tick.values
        self.rows += 1

    def _resize(self, height: int, width: int) -> None:
        table = np.full((height, width), np.nan)
        table[: len(self.table), : self.rows] = self.table[:, : self.rows]
        self.table = table


class Head:
    """Pages of ticks, oldest first."""

    def __init__(self, number: int = 1) -> None:
        """Empty.

        Args:
            number: The number that the first tick will have.
        """
        self._pages: deque[_Page] = deque()
        self.next_number = number
        """The number of the next tick; may be raised, never lowered."""

    def __len__(self) -> int:
        return sum(page.rows - page.low for page in self._pages)

    @property
    def first_number(self) -> int:
        """The number of the oldest tick that is still there; `next_number` when there is none."""
        return self._pages[0].first + self._pages[0].low if self._pages else self.next_number

    @property
    def last(self) -> tuple[int, int] | None:
        """Run and time [milliseconds] of the newest tick."""
        return (self._pages[-1].segment, int(self._pages[-1].times_ms[-1])) if self._pages else None

    @property
    def oldest_ms(self) -> int:
        """Time of the oldest tick by recording; it must have one. [milliseconds]"""
        return int(self._pages[0].times_ms[0])

    @property
    def is_one_segment(self) -> bool:
        """Whether all ticks belong to one run."""
        return not self._pages or self._pages[0].segment == self._pages[-1].segment

    def append(self, segment: int, time_ms: int, layout: int, series: Sequence[int], values: Floats) -> None:
        """Add one tick; within a run times rise strictly.

        Args:
            segment: The run that it belongs to, the newest or a new one.
            time_ms: When. [milliseconds]
            layout: Which series it has, as the caller counts them.
            series: Their numbers, shape (S,).
            values: Their values, shape (S,).
        """
        page = self._pages[-1] if self._pages else None
        if page is None or not page.takes(self.next_number, segment, time_ms):
            page = _Page(self.next_number, segment, len(series))
            self._pages.append(page)
        page.add(Tick(self.next_number, segment, time_ms, layout, np.asarray(series, np.int64), values))
        self.next_number += 1

    def parts(self, series: Sequence[int], start_ms: int, end_ms: int) -> Iterator[tuple[int, SegmentSamples]]:
        """Samples of the series with start < time <= end, run by run as they were recorded.

        Args:
            series: Which ones.
            start_ms: Excluded. [milliseconds]
            end_ms: Included. [milliseconds]
        """
        for segment, pages in itertools.groupby(self._pages, key=lambda page: page.segment):
            cuts = [(page, *page.cut(start_ms, end_ms)) for page in pages]
            cuts = [cut for cut in cuts if cut[1] < cut[2]]
            if not cuts:
                continue
            times = np.concatenate([page.ticks[0, low:high] for page, low, high in cuts]) / 1000.0
            table = np.concatenate([page.rows_of(series, low, high) for page, low, high in cuts], axis=1)
            there = ~np.isnan(table)
            for one, values, mask, count in zip(series, table, there, there.sum(axis=1).tolist(), strict=True):
                if count == len(times):
                    yield one, SegmentSamples(segment, Series(times, values))
                elif count:
                    yield one, SegmentSamples(segment, Series(times[mask], values[mask]))

    def extents(self) -> Extents:
        """First and last time of each run [milliseconds]."""
        found: Extents = {}
        for page in self._pages:
            first, last = int(page.times_ms[0]), int(page.times_ms[-1])
            found[page.segment] = (min(found.get(page.segment, (first, 0))[0], first), last)
        return found

    def series(self) -> set[int]:
        """Numbers of the series that any of the ticks has."""
        return {one for page in self._pages for one in page.columns}

    def layouts_from(self) -> int | None:
        """The smallest layout that a tick has; None when there is no tick."""
        return min((int(page.ticks[1, page.low : page.rows].min()) for page in self._pages), default=None)

    def oldest_times(self, most: int) -> tuple[int, Integers]:
        """The run of the oldest tick, and the times of its ticks [milliseconds], at most that many."""
        segment, found, have = self._pages[0].segment, [], 0
        for page in self._pages:
            if page.segment != segment or have >= most:
                break
            found.append(page.times_ms[: most - have])
            have += len(found[-1])
        return segment, np.concatenate(found)

    def number_of(self, rows: int) -> int:
        """The number of the last one of so many oldest ticks."""
        for page in self._pages:
            if rows <= page.rows - page.low:
                return page.first + page.low + rows - 1
            rows -= page.rows - page.low
        return self.next_number - 1

    def oldest(self, rows: int, series: int) -> Floats:
        """The values of a series in the oldest ticks, NaN where there is none; shape (rows,)."""
        found = []
        for page in self._pages:
            if not rows:
                break
            count, column = min(rows, page.rows - page.low), page.columns.get(series)
            found.append(np.full(count, np.nan) if column is None else page.table[column, page.low : page.low + count])
            rows -= count
        return np.concatenate(found)

    def ticks(self, number: int, most: int) -> Iterator[Tick]:
        """Ticks from that number on, as they were recorded; at most so many.

        Args:
            number: Number of the first.
            most: How many.
        """
        for page in self._pages:
            for row in range(max(number - page.first, page.low), page.rows):
                if most <= 0:
                    return
                values = page.table[: len(page.columns), row]
                there = ~np.isnan(values)
                series = np.fromiter(page.columns, np.int64, len(page.columns))[there]
                order = np.argsort(series)
                time_ms, layout = page.ticks[:, row].tolist()
                yield Tick(page.first + row, page.segment, time_ms, layout, series[order], values[there][order])
                most -= 1

    def count_from(self, number: int) -> int:
        """How many ticks have that number or a higher one."""
        return sum(max(page.first + page.rows - max(number, page.first + page.low), 0) for page in self._pages)

    def drop(self, rows: int) -> None:
        """Forget the oldest ticks."""
        while rows > 0 and self._pages:
            page = self._pages[0]
            count = min(rows, page.rows - page.low)
            page.low += count
            rows -= count
            if page.low == page.rows:
                self._pages.popleft()

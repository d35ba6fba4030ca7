"""The recent ticks in memory, in the order in which they were recorded. What windows are answered from.

They lie in pages of up to 256 ticks or ten minutes, one row per series, so that a window is a slice, forgetting copies
nothing, and pods that come and go do not widen all of it. A page belongs to one segment. Amounts are in whole steps
(see `codec`), as in the file.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agent.tsdb.segments import Extents, Part
from agent.tsdb.series import Floats, Integers

_PAGE_TICKS = 256
_PAGE_MS = 600_000
_FIRST_TICKS = 4


class Tick(NamedTuple):
    """A tick, in the form of the file."""

    number: int  # ticks are numbered as they are recorded
    segment: int
    time_ms: int
    series: Integers  # numbers of its series, rising, shape (S,)
    amounts: Integers  # shape (S,) [steps]


class _Page:
    """Some ticks of one segment: a table with one row per series, NaN where a tick lacks it."""

    __slots__ = ("columns", "first", "low", "rows", "segment", "table", "times")

    def __init__(self, first: int, segment: int, series: int) -> None:
        self.first = first
        self.segment = segment
        self.low = self.rows = 0  # ticks before `low` are dropped
        self.times = np.empty(_FIRST_TICKS, np.int64)
        self.table = np.full((series + series // 8 + 1, _FIRST_TICKS), np.nan)
        self.columns: dict[int, int] = {}

    def __len__(self) -> int:
        return self.rows - self.low

    @property
    def times_ms(self) -> Integers:
        return self.times[self.low : self.rows]

    def takes(self, number: int, segment: int, time_ms: int) -> bool:
        is_next = segment == self.segment and number == self.first + self.rows
        return is_next and self.rows < _PAGE_TICKS and time_ms - int(self.times[0]) < _PAGE_MS

    def cut(self, start_ms: int, end_ms: int) -> tuple[int, int]:
        low, high = np.searchsorted(self.times_ms, (start_ms, end_ms), side="right").tolist()
        return low + self.low, high + self.low

    def rows_of(self, series: Sequence[int], low: int, high: int) -> Floats:
        """Amounts of the series between two ticks, NaN where there is none; shape (S, high - low)."""
        columns = [self.columns.get(number, -1) for number in series]
        rows: Floats = self.table[columns, low:high]
        if -1 in columns:
            rows[np.array(columns) < 0] = np.nan
        return rows

    def add(self, time_ms: int, series: Sequence[int], amounts: Floats) -> None:
        columns, width = self.columns, len(self.times)
        try:
            places = [columns[number] for number in series]
        except KeyError:
            places = [columns.setdefault(number, len(columns)) for number in series]
        if self.rows == width:
            width *= 2
            self.times = np.concatenate([self.times, self.times])
        if width > self.table.shape[1] or len(columns) > len(self.table):
            height = len(self.table) if len(columns) <= len(self.table) else len(columns) + len(columns) // 4
            table = np.full((height, width), np.nan)
            table[: len(self.table), : self.rows] = self.table[:, : self.rows]
            self.table = table
        self.times[self.rows] = time_ms
        self.table[places, self.rows] = amounts
        self.rows += 1


class Head:
    """Pages of ticks, oldest first."""

    def __init__(self, number: int = 1) -> None:
        """Empty; the first tick will have this number."""
        self._pages: deque[_Page] = deque()
        self.next_number = number  # the number of the next tick; may be raised, never lowered

    def __len__(self) -> int:
        return sum(map(len, self._pages))

    @property
    def first_number(self) -> int:
        """The number of the oldest tick that is still there; `next_number` when there is none."""
        return self._pages[0].first + self._pages[0].low if self._pages else self.next_number

    @property
    def last(self) -> tuple[int, int] | None:
        """Segment and time [milliseconds] of the newest tick."""
        return (self._pages[-1].segment, int(self._pages[-1].times_ms[-1])) if self._pages else None

    @property
    def oldest_ms(self) -> int:
        """Time of the oldest tick by recording; it must have one. [milliseconds]"""
        return int(self._pages[0].times_ms[0])

    @property
    def is_one_segment(self) -> bool:
        return not self._pages or self._pages[0].segment == self._pages[-1].segment

    def append(self, segment: int, time_ms: int, series: Sequence[int], amounts: Floats) -> None:
        """Add one tick; within a segment, which is the newest or a new one, times [milliseconds] rise strictly.

        Numbers of its series and their amounts [steps] have the shape (S,).
        """
        if not self._pages or not self._pages[-1].takes(self.next_number, segment, time_ms):
            self._pages.append(_Page(self.next_number, segment, len(series)))
        self._pages[-1].add(time_ms, series, amounts)
        self.next_number += 1

    def parts(self, series: Sequence[int], start_ms: int, end_ms: int, scale: float) -> Iterator[tuple[int, Part]]:
        """Samples of the series with start < time <= end [milliseconds], so many steps to a unit, by segment."""
        for segment, pages in itertools.groupby(self._pages, key=lambda page: page.segment):
            cuts = [(page, *page.cut(start_ms, end_ms)) for page in pages]
            cuts = [cut for cut in cuts if cut[1] < cut[2]]
            if not cuts:
                continue
            times = np.concatenate([page.times[low:high] for page, low, high in cuts])
            table = np.concatenate([page.rows_of(series, low, high) for page, low, high in cuts], axis=1)
            table /= scale
            there = ~np.isnan(table)
            columns, counts = table[:, None], there.sum(axis=1).tolist()
            for one, values, mask, count in zip(series, columns, there, counts, strict=True):
                if count == len(times):
                    yield one, Part(segment, times, values)
                elif count:
                    yield one, Part(segment, times[mask], values[:, mask])

    def extents(self) -> Extents:
        """First and last time of each segment [milliseconds]."""
        result: Extents = {}
        for page in self._pages:
            first, last = int(page.times_ms[0]), int(page.times_ms[-1])
            result[page.segment] = (result.get(page.segment, (first, 0))[0], last)
        return result

    def series(self) -> set[int]:
        return {column for page in self._pages for column in page.columns}

    def oldest(self, most: int) -> tuple[int, Integers, int]:
        """The segment of the oldest tick, times of its ticks [milliseconds], at most that many; number of the last."""
        segment, result, number = self._pages[0].segment, [], 0
        for page in self._pages:
            if page.segment != segment or most <= 0:
                break
            result.append(page.times_ms[:most])
            number = page.first + page.low + len(result[-1]) - 1
            most -= len(page)
        return segment, np.concatenate(result), number

    def oldest_of(self, series: int, rows: int) -> Floats:
        """The amounts of a series in so many oldest ticks, NaN where there is none; shape (rows,). [steps]"""
        result = np.full(rows, np.nan)
        at = 0
        for page in self._pages:
            if at >= rows:
                break
            if (column := page.columns.get(series)) is not None:
                part = page.table[column, page.low : min(page.rows, page.low + rows - at)]
                result[at : at + len(part)] = part
            at += len(page)
        return result

    def ticks(self, number: int, most: int = 1 << 62) -> Iterator[Tick]:
        """Ticks from that number on, as they were recorded; at most so many."""
        for page in self._pages:
            for row in range(max(number - page.first, page.low), page.rows):
                if most <= 0:
                    return
                amounts = page.table[: len(page.columns), row]
                there = ~np.isnan(amounts)
                series = np.fromiter(page.columns, np.int64, len(page.columns))[there]
                order = np.argsort(series)
                amounts = amounts[there][order].astype(np.int64)
                yield Tick(page.first + row, page.segment, int(page.times[row]), series[order], amounts)
                most -= 1

    def drop(self, rows: int) -> None:
        """Forget the oldest ticks."""
        while rows > 0 and self._pages:
            page = self._pages[0]
            count = min(rows, len(page))
            page.low += count
            rows -= count
            if not len(page):
                self._pages.popleft()

"""The recent ticks in memory: one row per tick, one column per series. What windows are answered from."""

from collections.abc import Sequence

import numpy as np

from agent.store.series import EMPTY, Floats, Integers, Series

_ROWS, _COLUMNS = 256, 64


class Head:
    """A growing table of ticks. Times rise strictly; a series that a tick lacks is NaN there."""

    def __init__(self) -> None:
        self._times = np.empty(_ROWS, np.int64)
        self._table = np.full((_ROWS, _COLUMNS), np.nan)
        self._columns: dict[int, int] = {}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def times_ms(self) -> Integers:
        """Times of the ticks, shape (N,) [milliseconds]."""
        return self._times[: self._rows]

    def append(self, time_ms: int, series: Sequence[int], values: Floats) -> None:
        """Add one tick, later than all before.

        Args:
            time_ms: When. [milliseconds]
            series: Ids of the series that it has, shape (S,).
            values: Their values, shape (S,).
        """
        if self._rows == len(self._times):
            self._grow(rows=True)
        columns = [self._column(one) for one in series]
        self._times[self._rows] = time_ms
        self._table[self._rows, columns] = values
        self._rows += 1

    def window(self, series: int, start_ms: int, end_ms: int) -> Series:
        """Samples of one series with start < time <= end."""
        column = self._columns.get(series)
        if column is None:
            return EMPTY
        low, high = np.searchsorted(self.times_ms, (start_ms, end_ms), side="right")
        values = self._table[low:high, column]
        there = ~np.isnan(values)
        return Series(self._times[low:high][there] / 1000.0, values[there])

    def columns(self) -> dict[int, int]:
        """Column by series id."""
        return dict(self._columns)

    def first(self, rows: int, column: int) -> Floats:
        """The oldest values of a column, NaN where there is none; shape (rows,)."""
        return self._table[:rows, column].copy()

    def drop(self, rows: int) -> None:
        """Forget the oldest ticks, and the series that have none left."""
        keep = self._rows - rows
        times, table = self._times[rows : self._rows].copy(), self._table[rows : self._rows].copy()
        alive = {one: column for one, column in self._columns.items() if not np.all(np.isnan(table[:, column]))}
        self._times = np.empty(max(keep, _ROWS), np.int64)
        self._table = np.full((len(self._times), max(len(alive) + len(alive) // 8, _COLUMNS)), np.nan)
        self._times[:keep] = times
        self._table[:keep, : len(alive)] = table[:, list(alive.values())]
        self._columns = {one: number for number, one in enumerate(alive)}
        self._rows = keep

    def _column(self, series: int) -> int:
        column = self._columns.get(series)
        if column is None:
            column = self._columns[series] = len(self._columns)
            if column == self._table.shape[1]:
                self._grow(rows=False)
        return column

    def _grow(self, *, rows: bool) -> None:
        height, width = self._table.shape
        table = np.full((height * 2, width) if rows else (height, width * 2), np.nan)
        table[: self._rows, :width] = self._table[: self._rows]
        self._table = table
        if rows:
            self._times = np.concatenate([self._times, np.empty(height, np.int64)])

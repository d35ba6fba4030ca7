"""The highest samples of each day: averages of five minutes hide usage of a few seconds."""

from typing import ClassVar, Final

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray, RowTables, SingleArray

DAYS: Final = 32  # a policy's window has at most 30 days
_DAY_SECONDS: Final = 86400.0
_UNKNOWN: Final = -(2**60)


class DailyMaxima(RowTables):
    """A ring of days for many entities, shape (R, DAYS); NaN where nothing was measured."""

    FILLS: ClassVar = {"highest": np.nan}

    def __init__(self) -> None:
        self.highest: SingleArray = np.full((0, DAYS), np.nan, dtype=np.float32)
        self.days: IntArray = np.full(DAYS, _UNKNOWN, dtype=np.intp)  # the day of each column, since 1970

    def add(self, rows: IntArray, values: FloatArray, now: float) -> None:
        """Add the highest samples of some rows, each of which is named at most once.

        Args:
            rows: shape (N,).
            values: shape (N,), finite.
            now: when. [seconds since 1970]
        """
        day = int(now // _DAY_SECONDS)
        column = day % DAYS
        if self.days[column] != day:
            self.highest[:, column] = np.nan
            self.days[column] = day
        self.highest[rows, column] = np.fmax(self.highest[rows, column], values)

    def recent(self, rows: IntArray, now: float, window_seconds: float) -> FloatArray:
        """Return each row's highest sample in the days that the window touches; NaN for none. shape (N,)."""
        first = (now - window_seconds) // _DAY_SECONDS
        # Days dated ahead are of a clock that was set back since: they are as recent as those before.
        columns = np.flatnonzero(np.abs(self.days - now // _DAY_SECONDS) <= now // _DAY_SECONDS - first)
        result: FloatArray = np.fmax.reduce(self.highest[np.ix_(rows, columns)], axis=1, initial=np.nan)
        return result.astype(np.float64)

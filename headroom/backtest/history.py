"""What an agent knows at each step of one pod: its own averages since it came, and those that it inherited."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from headroom.backtest.rolling_window import trailing_max, trailing_percentiles

_NOTHING: Final = -np.inf


@dataclass(slots=True)
class PodHistory:
    """One pod; results without a time of their own cover the steps of its lifetime, shape (N,)."""

    values: FloatArray
    """Its averages from the step `origin` to the end of its lifetime, NaN where there is none. [cores or bytes]"""
    origin: int
    """Step of the first of them: before the lifetime begins where it inherited."""
    start: int
    """First step of its lifetime."""
    _whole: FloatArray | None = field(default=None, repr=False)

    @property
    def end(self) -> int:
        """The step after its last one."""
        return self.origin + len(self.values)

    def observed(self) -> FloatArray:
        """How many averages it ever had. [steps]"""
        return np.cumsum(~np.isnan(self.values), dtype=np.float64)[self._lifetime]

    def covered(self, steps: int) -> FloatArray:
        """How many averages it has in the window. [steps]"""
        known = np.append(0.0, np.cumsum(~np.isnan(self.values)))
        ends = np.arange(self.start - self.origin, len(self.values)) + 1
        covered: FloatArray = known[ends] - known[np.maximum(ends - steps, 0)]
        return covered

    def highest_ever(self) -> FloatArray:
        """Its highest average ever. [cores or bytes]"""
        ever: FloatArray = np.maximum.accumulate(_filled(self.values, _NOTHING))[self._lifetime]
        return ever

    def highest(self, steps: int) -> FloatArray:
        """Its highest average in the window; minus infinity where there is none. [cores or bytes]"""
        low = max(self.start - steps + 1, self.origin)
        found = trailing_max(_filled(self.values[low - self.origin :], _NOTHING), steps)
        return found[self.start - low :]

    def percentiles(self, steps: int, percent: float) -> FloatArray:
        """A percentile of its averages in the window; NaN where there is none. [cores or bytes]"""
        return trailing_percentiles(self.values, steps, percent)[self._lifetime]

    def add_to(self, sums: FloatArray, low: int) -> None:
        """Add its averages to sums that begin with the step `low`, shape (N,). [cores or bytes]"""
        first, last = max(low, self.origin), min(low + len(sums), self.end)
        if first < last:
            sums[first - low : last - low] += self._filled[first - self.origin : last - self.origin]

    def forget(self) -> None:
        """Free what was computed."""
        self._whole = None

    @property
    def _filled(self) -> FloatArray:
        """Its averages, 0 where there is none; the same memory where there is one everywhere."""
        if self._whole is None:
            self._whole = _filled(self.values, 0.0) if np.isnan(self.values).any() else self.values
        return self._whole

    @property
    def _lifetime(self) -> slice:
        return slice(self.start - self.origin, None)


def _filled(values: FloatArray, nothing: float) -> FloatArray:
    return np.where(np.isnan(values), nothing, values)

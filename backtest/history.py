"""What an agent knows at each step of one pod: its own averages since it came, and those that it inherited."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from backtest.trailing import trailing_max, trailing_percentiles

_NOTHING: Final = -np.inf


@dataclass(slots=True)
class PodHistory:
    """One pod; every answer without a time of its own is about the steps of its stay, shape (N,)."""

    values: FloatArray
    """Its averages from the step `origin` on to the end of its stay, NaN where there is none. [cores or bytes]"""
    origin: int
    """Step of the first of them: before the stay begins where it inherited."""
    start: int
    """First step of its stay."""
    _known: dict[Hashable, FloatArray] = field(default_factory=dict, repr=False)

    @property
    def end(self) -> int:
        """The step after its last one."""
        return self.origin + len(self.values)

    def observed(self) -> FloatArray:
        """How many averages it ever had. [steps]"""
        return np.cumsum(~np.isnan(self.values), dtype=np.float64)[self._stay]

    def covered(self, steps: int) -> FloatArray:
        """How many averages it has in the window. [steps]"""
        known = np.append(0.0, np.cumsum(~np.isnan(self.values)))
        ends = np.arange(self.start - self.origin, len(self.values)) + 1
        covered: FloatArray = known[ends] - known[np.maximum(ends - steps, 0)]
        return covered

    def highest_ever(self) -> FloatArray:
        """Its highest average ever. [cores or bytes]"""
        ever: FloatArray = np.maximum.accumulate(_filled(self.values, _NOTHING))[self._stay]
        return ever

    def highest(self, steps: int) -> FloatArray:
        """Its highest average in the window; minus infinity where there is none. [cores or bytes]"""
        low = max(self.start - steps + 1, self.origin)
        found = trailing_max(_filled(self.values[low - self.origin :], _NOTHING), steps)
        return found[self.start - low :]

    def percentiles(self, steps: int, percent: float) -> FloatArray:
        """A percentile of its averages in the window; NaN where there is none. [cores or bytes]"""
        return trailing_percentiles(self.values, steps, percent)[self._stay]

    def add_to(self, sums: FloatArray, low: int) -> None:
        """Add its averages to sums that begin with the step `low`, shape (N,). [cores or bytes]"""
        first, last = max(low, self.origin), min(low + len(sums), self.end)
        if first < last:
            sums[first - low : last - low] += self._filled[first - self.origin : last - self.origin]

    def between(self, low: int, high: int) -> FloatArray:
        """Its averages in the steps low <= t < high, 0 where there is none, shape (high - low,). [cores or bytes]"""
        wanted = np.zeros(high - low)
        self.add_to(wanted, low)
        return wanted

    def same_time(self, days: int, slots: int, low: int, high: int) -> FloatArray:
        """Its highest at the same time of day, that day and the days - 1 before, in the steps low <= t < high.

        Args:
            days: how many days.
            slots: how many steps a day has.
            low: first step asked for, less than a day before its stay began.
            high: the step after the last one.

        Returns:
            shape (high - low,), 0 where there is none and from the end of its stay on. [cores or bytes]
        """
        first = self.start - slots + 1
        found = self._once(("same", days), lambda: self._same_time(days, slots, first))
        wanted = np.zeros(high - low)
        known = found[low - first : high - first]
        wanted[: len(known)] = known
        return wanted

    def forget(self) -> None:
        """Free what was computed."""
        self._known.clear()

    @property
    def _filled(self) -> FloatArray:
        """Its averages, 0 where there is none; the same memory where there is one everywhere."""
        found = self._known.get("filled")
        if found is None:
            found = self._known["filled"] = _filled(self.values, 0.0) if np.isnan(self.values).any() else self.values
        return found

    def _same_time(self, days: int, slots: int, first: int) -> FloatArray:
        low = first - (days - 1) * slots
        return trailing_max(self.between(low, self.end), days, slots)[first - low :]

    @property
    def _stay(self) -> slice:
        return slice(self.start - self.origin, None)

    def _once(self, name: Hashable, make: Callable[[], FloatArray]) -> FloatArray:
        """What was computed before, or now: a copy, which does not keep alive what it was cut out of."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = make().copy()
        return found


def _filled(values: FloatArray, nothing: float) -> FloatArray:
    return np.where(np.isnan(values), nothing, values)

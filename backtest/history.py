"""What an agent knows at each step of one pod: its own averages since it came, and those that it inherited."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from agent.numerics.arrays import FloatArray
from backtest.trailing import trailing_max, trailing_percentiles

_NOTHING: Final = -np.inf


@dataclass(slots=True)
class PodHistory:
    """One pod; every answer is about the steps of its stay, shape (N,), and computed once."""

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

    @property
    def _filled(self) -> FloatArray:
        """Its averages, below everything where there is none."""
        return np.where(np.isnan(self.values), _NOTHING, self.values)

    def observed(self) -> FloatArray:
        """How many averages it ever had. [steps]"""
        return self._once("observed", lambda: np.cumsum(~np.isnan(self.values), dtype=np.float64)[self._stay])

    def covered(self, steps: int) -> FloatArray:
        """How many averages it has in the window. [steps]"""
        return self._once(("covered", steps), lambda: self._covered(steps))

    def highest_ever(self) -> FloatArray:
        """Its highest average ever. [cores or bytes]"""
        return self._once("ever", lambda: np.maximum.accumulate(self._filled)[self._stay])

    def highest(self, steps: int) -> FloatArray:
        """Its highest average in the window; minus infinity where there is none. [cores or bytes]"""
        return self._once(("highest", steps), lambda: trailing_max(self._filled, steps)[self._stay])

    def percentiles(self, steps: int, percent: float) -> FloatArray:
        """A percentile of its averages in the window; NaN where there is none. [cores or bytes]"""
        return self._once(
            ("percentiles", steps, percent), lambda: trailing_percentiles(self.values, steps, percent)[self._stay]
        )

    def between(self, low: int, high: int) -> FloatArray:
        """Its averages in the steps low <= t < high, 0 where there is none, shape (high - low,). [cores or bytes]"""
        return self._cut(self._once("filled", lambda: np.maximum(self._filled, 0.0)), low, high)

    def same_time(self, days: int, slots: int, low: int, high: int) -> FloatArray:
        """Its highest at the same time of day, that day and the days - 1 before, in the steps low <= t < high.

        Args:
            days: how many days.
            slots: how many steps a day has.
            low: first step asked for.
            high: the step after the last one.

        Returns:
            shape (high - low,), 0 where there is none. [cores or bytes]
        """
        found = self._once(("same", days), lambda: trailing_max(np.maximum(self._filled, 0.0), days, slots))
        return self._cut(found, low, high)

    def _cut(self, found: FloatArray, low: int, high: int) -> FloatArray:
        wanted = np.zeros(high - low)
        first, last = max(low, self.origin), min(high, self.end)
        if first < last:
            wanted[first - low : last - low] = found[first - self.origin : last - self.origin]
        return wanted

    def _covered(self, steps: int) -> FloatArray:
        known = np.append(0.0, np.cumsum(~np.isnan(self.values)))
        ends = np.arange(self.start - self.origin, len(self.values)) + 1
        covered: FloatArray = known[ends] - known[np.maximum(ends - steps, 0)]
        return covered

    @property
    def _stay(self) -> slice:
        return slice(self.start - self.origin, None)

    def _once(self, name: Hashable, make: Callable[[], Any]) -> FloatArray:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = make()
        return found

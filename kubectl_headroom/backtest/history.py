"""The agent's knowledge of one pod at each step, and of all pods of a machine as tables."""

import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.api import BoolArray, FloatArray, IntArray
from kubectl_headroom.backtest.rolling_window import trailing_max, trailing_percentiles


@dataclass(slots=True)
class PodHistory:
    """A pod; results without a time of their own cover the steps of its lifetime, shape (N,)."""

    values: FloatArray
    """Its averages from the step `origin` to the end of its lifetime, NaN where there is none. [cores or bytes]"""
    origin: int  # step of the first of them: before the lifetime begins where it inherited
    start: int  # first step of its lifetime
    _whole: FloatArray | None = field(default=None, repr=False)

    @property
    def end(self) -> int:
        return self.origin + len(self.values)

    def observed(self) -> FloatArray:
        """Return how many averages it ever had. [steps]"""
        return np.cumsum(~np.isnan(self.values), dtype=np.float64)[self.start - self.origin :]

    def covered(self, steps: int) -> FloatArray:
        """Return how many averages it has in the window. [steps]"""
        return self._sums(~np.isnan(self.values), steps)

    def total(self, steps: int) -> FloatArray:
        """The sum of its averages in the window. [cores or bytes]"""
        return self._sums(_filled(self.values, 0.0), steps)

    def highest_ever(self) -> FloatArray:
        """Its highest average ever. [cores or bytes]"""
        ever: FloatArray = np.maximum.accumulate(_filled(self.values, -np.inf))[self.start - self.origin :]
        return ever

    def highest(self, steps: int) -> FloatArray:
        """Its highest average in the window; minus infinity where there is none. [cores or bytes]"""
        low = max(self.start - steps + 1, self.origin)
        return trailing_max(_filled(self.values[low - self.origin :], -np.inf), steps)[self.start - low :]

    def percentiles(self, steps: int, percent: float) -> FloatArray:
        """A percentile of its averages in the window; NaN where there is none. [cores or bytes]"""
        return trailing_percentiles(self.values, steps, percent)[self.start - self.origin :]

    def add_to(self, sums: FloatArray, low: int) -> None:
        """Add its averages to sums that begin with the step `low`, shape (N,). [cores or bytes]"""
        if self._whole is None:
            self._whole = _filled(self.values, 0.0) if np.isnan(self.values).any() else self.values
        first, last = max(low, self.origin), min(low + len(sums), self.end)
        if first < last:
            sums[first - low : last - low] += self._whole[first - self.origin : last - self.origin]

    def _sums(self, values: FloatArray | BoolArray, steps: int) -> FloatArray:
        totals = np.append(0.0, np.cumsum(values))
        ends = np.arange(self.start - self.origin, len(values)) + 1
        sums: FloatArray = totals[ends] - totals[np.maximum(ends - steps, 0)]
        return sums

    def forget(self) -> None:
        self._whole = None


PodQuery = Callable[[PodHistory, int], FloatArray]
"""From a pod and its row in the statistics to its values at the steps of its lifetime."""


class PodColumns:
    """Tables of shape (T, columns): as many columns as there are pods at a time, one pod after another in each."""

    def __init__(self, steps: int, pods: Sequence[PodHistory], rows: Sequence[int]) -> None:
        """The pods of a machine, in order of their beginning, and their rows in the statistics."""
        self._steps, self._pods, self._rows = steps, pods, rows
        self._columns = columns_of(pods)
        self._tables: dict[Hashable, FloatArray] = {}

    def values(self, name: Hashable, query: PodQuery, places: IntArray, start: int, end: int) -> FloatArray:
        """Values of the pods at some places, at steps start <= t < end at which all of them are there; shape (N, P).

        The query runs once for every pod and name.
        """
        table = self._tables.get(name)
        if table is None:
            table = np.full((self._steps, int(self._columns.max(initial=-1)) + 1), np.nan)
            for pod, row, column in zip(self._pods, self._rows, self._columns.tolist(), strict=True):
                table[pod.start : pod.end, column] = query(pod, row)
            self._tables[name] = table
        result: FloatArray = table[start:end, self._columns[places]]
        return result


def columns_of(pods: Sequence[PodHistory]) -> IntArray:
    """A column for each pod, so that no two are in one at the same time, and as few columns as that takes."""
    result = np.zeros(len(pods), dtype=np.intp)
    taken: list[tuple[int, int]] = []
    for place, pod in enumerate(pods):
        column = heapq.heappop(taken)[1] if taken and taken[0][0] <= pod.start else len(taken)
        result[place] = column
        heapq.heappush(taken, (pod.end, column))
    return result


def _filled(values: FloatArray, nothing: float) -> FloatArray:
    return np.where(np.isnan(values), nothing, values)

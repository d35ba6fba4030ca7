"""A model's view of one machine while the same pods are warm on it: every step at once.

The values are those of the agent's own view (`agent.predictors.base.ClassView`) at each of the steps, computed for all
of them together.
"""

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from agent.api import DAY_SECONDS, WEEK_DAYS, BoolArray, FloatArray, IntArray, is_sparse
from kubectl_headroom.backtest.history import PodColumns, PodHistory, PodQuery
from kubectl_headroom.backtest.replay import StatisticsReplay
from kubectl_headroom.backtest.rolling_window import trailing_max

UNITS: Final = {"cpu": 1000, "memory": 1}  # whole units that the agent reports in, in one core or byte


@dataclass(frozen=True)
class SegmentView:
    """A machine's P warm pods at the N steps start <= t < end: see `agent.predictors.base.View`."""

    resource: str
    step_seconds: float
    start: int
    end: int
    pods: Sequence[PodHistory]
    places: IntArray  # their places among the pods of the machine, shape (P,)
    columns: PodColumns  # values of all pods of the machine
    series: int  # row of all pods together
    requests: FloatArray
    statistics: StatisticsReplay
    _windows: dict[float, "SegmentWindows"] = field(default_factory=dict, repr=False)

    @property
    def units(self) -> int:
        return UNITS[self.resource]

    @property
    def mean(self) -> FloatArray:
        """Decayed mean of all pods together, shape (N,)."""
        return self.statistics.mean(self.series, self.start, self.end)

    @property
    def stdev(self) -> FloatArray:
        """Decayed standard deviation of all pods together, shape (N,)."""
        return self.statistics.stdev(self.series, self.start, self.end)

    @cached_property
    def pod_means(self) -> FloatArray:
        """Decayed mean of each pod, shape (N, P)."""
        return self.each("mean", lambda pod, row: self.statistics.mean(row, pod.start, pod.end))

    @cached_property
    def pod_stdevs(self) -> FloatArray:
        """Decayed standard deviation of each pod, shape (N, P)."""
        return self.each("stdev", lambda pod, row: self.statistics.stdev(row, pod.start, pod.end))

    def class_percentile(self, percent: float) -> FloatArray:
        """Percentile of all pods together in whole units, shape (N,)."""
        return self.statistics.percentile(self.series, percent, self.start, self.end)

    def pod_percentiles(self, percent: float) -> FloatArray:
        """Percentile of each pod in whole units, shape (N, P)."""
        return self.each(
            ("histogram", percent), lambda pod, row: self.statistics.percentile(row, percent, pod.start, pod.end)
        )

    def windows(self, window_days: float = WEEK_DAYS) -> "SegmentWindows":
        """The pods' averages of the last days."""
        if window_days not in self._windows:
            self._windows[window_days] = SegmentWindows(self, window_days)
        return self._windows[window_days]

    def at(self, step: int) -> "SegmentView":
        """A step, 0 being the first: a batch of one, as in the agent."""
        return replace(self, start=self.start + step, end=self.start + step + 1, _windows={})

    def each(self, name: Hashable, query: PodQuery) -> FloatArray:
        """A value of every pod at the steps of the segment, shape (N, P)."""
        return self.columns.values(name, query, self.places, self.start, self.end)


@dataclass(frozen=True)
class SegmentWindows:
    """The pods' averages in a window at each step: see `agent.predictors.base.Windows`."""

    view: SegmentView
    window_days: float

    @cached_property
    def steps(self) -> int:
        return max(int(np.ceil(self.window_days * DAY_SECONDS / self.view.step_seconds)), 1)

    @cached_property
    def highest(self) -> FloatArray:
        """Each pod's own highest, shape (N, P)."""
        highest = self.view.each(("highest", self.steps), lambda pod, _row: pod.highest(self.steps))
        if not self._sparse.any():
            return highest
        ever = self.view.each("ever", lambda pod, _row: pod.highest_ever())
        return np.where(self._sparse, np.maximum(ever, highest), highest)

    @cached_property
    def evidence_seconds(self) -> FloatArray:
        """Return how much of the window each pod was observed, shape (N, P). [s]"""
        return np.minimum(self._covered, self._observed)

    @cached_property
    def usage_seconds(self) -> FloatArray:
        """Each pod's averages in the window, added up, shape (N, P). [core-seconds or byte-seconds]"""
        return self.view.step_seconds * self.view.each(("total", self.steps), lambda pod, _row: pod.total(self.steps))

    @cached_property
    def sum_of_max(self) -> FloatArray:
        """S, shape (N,)."""
        total: FloatArray = self.highest.sum(axis=-1)
        return total

    @cached_property
    def coincident_max(self) -> FloatArray:
        """C: coincident usage of the pods with a dense window, plus the highest of the sparse ones; shape (N,)."""
        pods, sparse = self.view.pods, self._sparse
        if not sparse.any():
            return self._together(pods)
        result: FloatArray = np.where(sparse, self.highest, 0.0).sum(axis=-1)
        cuts = [0, *(np.flatnonzero((sparse[1:] != sparse[:-1]).any(axis=-1)) + 1).tolist(), len(sparse)]
        for low, high in itertools.pairwise(cuts):
            enough = [pod for pod, is_it in zip(pods, sparse[low].tolist(), strict=True) if not is_it]
            if enough:
                result[low:high] += self._together(enough)[low:high]
        return result

    def percentiles(self, percent: float) -> FloatArray:
        """Each pod's percentile, shape (N, P)."""
        name = ("percentile", self.steps, percent)
        percentiles = self.view.each(name, lambda pod, _row: pod.percentiles(self.steps, percent))
        return np.where(self._sparse, self.highest, percentiles)

    def _together(self, pods: Sequence[PodHistory]) -> FloatArray:
        low, high = self.view.start - self.steps + 1, self.view.end
        sums = np.zeros(high - low)
        for pod in pods:
            pod.add_to(sums, low)
        return trailing_max(sums, self.steps)[self.view.start - high :]

    @cached_property
    def _covered(self) -> FloatArray:
        covered = self.view.each(("covered", self.steps), lambda pod, _row: pod.covered(self.steps))
        return covered * self.view.step_seconds

    @cached_property
    def _observed(self) -> FloatArray:
        observed = self.view.each("observed", lambda pod, _row: pod.observed()) * self.view.step_seconds
        return np.minimum(observed, self.window_days * DAY_SECONDS)

    @cached_property
    def _sparse(self) -> BoolArray:
        return is_sparse(self._covered, self._observed)

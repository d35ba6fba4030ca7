"""What a model sees of one machine while the same pods are warm on it: every step at once, or one of them.

The values are those of the agent's own view (`agent.predictors.base.ClassView`) at each of the steps, computed for all
of them together.
"""

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray
from agent.predictors.base import DAY_SECONDS, WEEK_DAYS, is_sparse
from headroom.backtest.columns import PodColumns, PodQuery
from headroom.backtest.history import PodHistory
from headroom.backtest.rolling_window import trailing_max

UNITS: Final = {"cpu": 1000, "memory": 1}
"""Whole units that the agent reports in, in one core or byte."""


class Statistics(Protocol):
    """Decayed moments and histograms of every row, from the agent's own banks."""

    def mean(self, row: int, start: int, end: int) -> FloatArray:
        """Decayed mean of a row at the steps start <= t < end."""

    def stdev(self, row: int, start: int, end: int) -> FloatArray:
        """Decayed standard deviation of a row at those steps."""

    def percentile(self, row: int, percent: float, start: int, end: int) -> FloatArray:
        """Percentile of a row at those steps, in whole units; NaN while it saw nothing."""


@dataclass(frozen=True)
class SegmentView:
    """One machine's pods at the steps start <= t < end, N of them: a `View` whose first axis is time."""

    resource: str
    """Which resource."""
    step_seconds: float
    """Time from one step to the next. [s]"""
    start: int
    """First step."""
    end: int
    """The step after the last one."""
    pods: Sequence[PodHistory]
    """The warm pods, P of them."""
    places: IntArray
    """Their places among the pods of the machine, shape (P,)."""
    columns: PodColumns
    """Values of all pods of the machine."""
    series: int
    """Row of all pods together."""
    requests: FloatArray
    """What each requests, shape (P,). [cores or bytes]"""
    statistics: Statistics
    """Where moments and histograms are."""
    _windows: dict[float, "SegmentWindows"] = field(default_factory=dict, repr=False)

    @property
    def units(self) -> int:
        """Whole units in one unit of the view."""
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

    @cached_property
    def observed_seconds(self) -> FloatArray:
        """How long each pod was observed in all, shape (N, P). [s]"""
        return self.each("observed", lambda pod, _row: pod.observed()) * self.step_seconds

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
        found = self._windows.get(window_days)
        if found is None:
            found = self._windows[window_days] = SegmentWindows(self, window_days)
        return found

    def at(self, step: int) -> "MomentView":
        """The same at one of the steps, 0 being the first: as the agent sees it, without the axis of time."""
        return MomentView(self, step)

    def each(self, name: Hashable, query: PodQuery) -> FloatArray:
        """A value of every pod at the steps of the segment, shape (N, P)."""
        return self.columns.values(name, query, self.places, self.start, self.end)


@dataclass(frozen=True)
class SegmentWindows:
    """The pods' averages in a window at each step: see `agent.predictors.base.Windows`."""

    view: SegmentView
    """Whose."""
    window_days: float
    """How long the window is. [days]"""

    @cached_property
    def steps(self) -> int:
        """How many steps the window has."""
        return max(int(np.ceil(self.window_days * DAY_SECONDS / self.view.step_seconds)), 1)

    @cached_property
    def highest(self) -> FloatArray:
        """Each pod's own highest, shape (N, P)."""
        own = self.view.each(("highest", self.steps), lambda pod, _row: pod.highest(self.steps))
        if not self._sparse.any():
            return own
        ever = self.view.each("ever", lambda pod, _row: pod.highest_ever())
        return np.where(self._sparse, np.maximum(ever, own), own)

    @cached_property
    def evidence_seconds(self) -> FloatArray:
        """How much of the window each pod was observed, shape (N, P). [s]"""
        return np.minimum(self._covered, self._observed)

    @cached_property
    def sum_of_max(self) -> FloatArray:
        """S, shape (N,)."""
        total: FloatArray = self.highest.sum(axis=-1)
        return total

    @cached_property
    def coincident_max(self) -> FloatArray:
        """C, shape (N,)."""
        low, high = self.view.start - self.steps + 1, self.view.end

        def together(pods: Sequence[PodHistory]) -> FloatArray:
            sums = np.zeros(high - low)
            for pod in pods:
                pod.add_to(sums, low)
            return trailing_max(sums, self.steps)[-len(self) :]

        return self._with_stand_ins(together)

    def percentiles(self, percent: float) -> FloatArray:
        """Each pod's percentile, shape (N, P)."""
        own = self.view.each(
            ("percentile", self.steps, percent), lambda pod, _row: pod.percentiles(self.steps, percent)
        )
        return np.where(self._sparse, self.highest, own)

    def __len__(self) -> int:
        return self.view.end - self.view.start

    @cached_property
    def _covered(self) -> FloatArray:
        covered = self.view.each(("covered", self.steps), lambda pod, _row: pod.covered(self.steps))
        return covered * self.view.step_seconds

    @cached_property
    def _observed(self) -> FloatArray:
        return np.minimum(self.view.observed_seconds, self.window_days * DAY_SECONDS)

    @cached_property
    def _sparse(self) -> BoolArray:
        return is_sparse(self._covered, self._observed)

    def _with_stand_ins(self, together: Callable[[Sequence[PodHistory]], FloatArray]) -> FloatArray:
        """Coincident usage of the pods with a dense window, plus the highest of the sparse ones; shape (N,)."""
        pods, sparse = self.view.pods, self._sparse
        if not sparse.any():
            return together(pods)
        found: FloatArray = np.where(sparse, self.highest, 0.0).sum(axis=-1)
        cuts = [0, *(np.flatnonzero((sparse[1:] != sparse[:-1]).any(axis=-1)) + 1).tolist(), len(sparse)]
        for low, high in itertools.pairwise(cuts):
            enough = [pod for pod, is_it in zip(pods, sparse[low].tolist(), strict=True) if not is_it]
            if enough:
                found[low:high] += together(enough)[low:high]
        return found


@dataclass(frozen=True, slots=True)
class MomentView:
    """One step of a segment: a `View` of one moment, for a model that supports a single moment only."""

    segment: SegmentView
    """All of its steps."""
    step: int
    """Which one, 0 being the first."""

    @property
    def resource(self) -> str:
        """Which resource."""
        return self.segment.resource

    @property
    def units(self) -> int:
        """Whole units in one unit of the view."""
        return self.segment.units

    @property
    def requests(self) -> FloatArray:
        """What each pod requests, shape (P,)."""
        return self.segment.requests

    @property
    def mean(self) -> float:
        """Decayed mean of all pods together."""
        return float(self.segment.mean[self.step])

    @property
    def stdev(self) -> float:
        """Decayed standard deviation of all pods together."""
        return float(self.segment.stdev[self.step])

    @property
    def pod_means(self) -> FloatArray:
        """Decayed mean of each pod, shape (P,)."""
        own: FloatArray = self.segment.pod_means[self.step]
        return own

    @property
    def pod_stdevs(self) -> FloatArray:
        """Decayed standard deviation of each pod, shape (P,)."""
        own: FloatArray = self.segment.pod_stdevs[self.step]
        return own

    def class_percentile(self, percent: float) -> float:
        """Percentile of all pods together in whole units."""
        return float(self.segment.class_percentile(percent)[self.step])

    def pod_percentiles(self, percent: float) -> FloatArray:
        """Percentile of each pod in whole units, shape (P,)."""
        own: FloatArray = self.segment.pod_percentiles(percent)[self.step]
        return own

    def windows(self, window_days: float = WEEK_DAYS) -> "MomentWindows":
        """The pods' averages of the last days."""
        return MomentWindows(self.segment.windows(window_days), self.step)


@dataclass(frozen=True, slots=True)
class MomentWindows:
    """One step of a segment's windows."""

    windows: SegmentWindows
    """All of its steps."""
    step: int
    """Which one, 0 being the first."""

    @property
    def highest(self) -> FloatArray:
        """Each pod's own highest, shape (P,)."""
        own: FloatArray = self.windows.highest[self.step]
        return own

    @property
    def evidence_seconds(self) -> FloatArray:
        """How much of the window each pod was observed, shape (P,). [s]"""
        own: FloatArray = self.windows.evidence_seconds[self.step]
        return own

    @property
    def sum_of_max(self) -> float:
        """S."""
        return float(self.windows.sum_of_max[self.step])

    @property
    def coincident_max(self) -> float:
        """C."""
        return float(self.windows.coincident_max[self.step])

    def percentiles(self, percent: float) -> FloatArray:
        """Each pod's percentile, shape (P,)."""
        own: FloatArray = self.windows.percentiles(percent)[self.step]
        return own

"""The interface of a peak model, and its inputs."""

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray, SingleArray
from agent.numerics.history import ResourceHistory
from agent.numerics.peaks import SLOT_SECONDS

Amount: TypeAlias = float | FloatArray  # A number, or one for each moment, shape (N,). [cores or bytes]
DAY_SECONDS: Final = 86400.0
WEEK_DAYS: Final = 7.0  # how far back window averages are always kept. [days]
LONGEST_WINDOW_DAYS: Final = 30.0  # the longest window that a policy may request. [days]
MODEL_FAILURES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Exceptions that a third-party model may raise: its peak is unknown then."""
_ENOUGH: Final = 0.5
_SHOWN: Final = 80  # of a value in a message


class Windows(Protocol):
    """The 5-minute averages of some pods in a window, all in the history's unit; of memory also their highest samples.

    Where the window has less than half of a pod's expected samples (half of its history, or of the window, if that is
    shorter), the pod was away or is younger than five minutes: its highest sample then replaces its averages.
    """

    @property
    def highest(self) -> FloatArray:
        """Each pod's own highest average, or sample of memory, shape (N, P)."""

    @property
    def evidence_seconds(self) -> FloatArray:
        """Return how much of the window each pod was observed, shape (N, P). [s]"""

    @property
    def usage_seconds(self) -> FloatArray:
        """Each pod's averages in the window, added up, shape (N, P); unmeasured time adds nothing. [unit-seconds]"""

    @property
    def sum_of_max(self) -> FloatArray:
        """S: the sum over the pods of their own highest, shape (N,)."""

    @property
    def coincident_max(self) -> FloatArray:
        """C: the highest sum of the pods' averages at one time, with substitutes for missing ones, shape (N,)."""

    def percentiles(self, percent: float) -> FloatArray:
        """The quantile at this share of each pod's averages, shape (N, P)."""


class View(Protocol):
    """A resource of one class, as a model sees it: the class as a whole, and its P warm pods that are present now.

    A view is a batch of N moments, the first axis of every array; the agent's is a batch of one, a backtest's is a
    batch of many. The pods are the last axis. Everything is in the history's unit. [cores or bytes]
    """

    @property
    def resource(self) -> str:
        """Return which resource: cpu or memory."""

    @property
    def units(self) -> int:
        """Whole units that amounts are reported in, in one unit of the view: 1000 milli-cores in a core."""

    @property
    def requests(self) -> FloatArray:
        """The requests of each pod, shape (P,); 0 for none."""

    @property
    def mean(self) -> FloatArray:
        """Decayed mean of the class series, shape (N,); it also holds what departed pods used."""

    @property
    def stdev(self) -> FloatArray:
        """Decayed standard deviation of the class series, shape (N,)."""

    @property
    def pod_means(self) -> FloatArray:
        """Decayed mean of each pod, shape (N, P)."""

    @property
    def pod_stdevs(self) -> FloatArray:
        """Decayed standard deviation of each pod, shape (N, P)."""

    def class_percentile(self, percent: float) -> FloatArray:
        """Percentile of the class in whole units, cut off; NaN where nothing was seen. shape (N,)."""

    def pod_percentiles(self, percent: float) -> FloatArray:
        """Percentile of each pod in whole units, cut off; NaN for one that saw nothing. shape (N, P)."""

    def windows(self, window_days: float = WEEK_DAYS) -> Windows:
        """The pods' 5-minute averages of the last days."""


@dataclass(frozen=True, slots=True)
class PodWindows:
    """`Windows` of a batch of one."""

    averages: SingleArray  # shape (P, K), NaN where too little was measured
    highest: FloatArray
    sparse: BoolArray  # pods whose highest sample replaces the averages, shape (P,)
    evidence_seconds: FloatArray

    @property
    def usage_seconds(self) -> FloatArray:
        averages = np.where(np.isnan(self.averages), np.float32(0.0), self.averages)
        totals: FloatArray = averages.sum(axis=1, dtype=np.float64)
        return SLOT_SECONDS * totals[np.newaxis]

    @property
    def sum_of_max(self) -> FloatArray:
        total: FloatArray = self.highest.sum(axis=-1)
        return total

    @property
    def coincident_max(self) -> FloatArray:
        averages = self.averages[~self.sparse]
        sums = np.where(np.isnan(averages), np.float32(0.0), averages).sum(axis=0, dtype=np.float64)
        stand_ins: FloatArray = self.highest[:, self.sparse].sum(axis=-1)
        return stand_ins + float(sums.max(initial=0.0))

    def percentiles(self, percent: float) -> FloatArray:
        """Each pod's percentile."""
        counts = np.count_nonzero(~np.isnan(self.averages), axis=1)
        places = np.maximum(np.ceil(counts * (percent / 100)).astype(np.intp) - 1, 0)
        ordered = np.sort(self.averages, axis=1)  # NaN comes last
        result = ordered[np.arange(len(ordered)), places].astype(np.float64)
        return np.where(self.sparse, self.highest, result)


@dataclass(frozen=True, slots=True)
class ClassView:
    """A resource of one class, from the agent's history: a `View` that is a batch of one."""

    history: ResourceHistory
    series: int  # row of the class as a whole; it also holds what departed pods used
    pods: IntArray  # rows of the warm pods, shape (P,)
    requests: FloatArray

    @property
    def resource(self) -> str:
        """Return which resource: cpu or memory."""
        return self.history.resource

    @property
    def units(self) -> int:
        return self.history.units

    @property
    def mean(self) -> FloatArray:
        return self.history.moments.mean(self._row)

    @property
    def stdev(self) -> FloatArray:
        return self.history.moments.stdev(self._row)

    @property
    def pod_means(self) -> FloatArray:
        return self.history.moments.mean(self.pods)[np.newaxis]

    @property
    def pod_stdevs(self) -> FloatArray:
        return self.history.moments.stdev(self.pods)[np.newaxis]

    def class_percentile(self, percent: float) -> FloatArray:
        return whole_percentiles(self.history, self._row, percent)

    def pod_percentiles(self, percent: float) -> FloatArray:
        return whole_percentiles(self.history, self.pods, percent)[np.newaxis]

    def windows(self, window_days: float = WEEK_DAYS) -> PodWindows:
        """The pods' 5-minute averages of the last days."""
        windows, seconds = self.history.windows, window_days * DAY_SECONDS
        averages = windows.recent(self.pods, seconds)
        covered = np.count_nonzero(~np.isnan(averages), axis=1) * SLOT_SECONDS
        observed = np.minimum(self.history.observed[self.pods], seconds)
        sparse = is_sparse(covered, observed)
        peaks = np.fmax.reduce(averages, axis=1, initial=np.nan).astype(np.float64)
        if seconds >= DAY_SECONDS:  # the highest samples are known by days
            peaks = np.fmax(peaks, self.history.maxima.recent(self.pods, windows.slot * SLOT_SECONDS, seconds))
        highest = np.where(sparse, np.fmax(self.history.moments.highest[self.pods], peaks), peaks)
        return PodWindows(averages, highest[np.newaxis], sparse, np.minimum(covered, observed)[np.newaxis])

    @property
    def _row(self) -> IntArray:
        return np.array([self.series], dtype=np.intp)


def is_sparse(covered_seconds: FloatArray, observed_seconds: FloatArray) -> BoolArray:
    """The pods with too few averages: for less than half of the time they were observed."""
    sparse: BoolArray = (covered_seconds == 0.0) | (covered_seconds < _ENOUGH * observed_seconds)
    return sparse


def whole_percentiles(history: ResourceHistory, rows: IntArray, percent: float) -> FloatArray:
    """Percentiles in whole milli-cores or bytes, cut off; NaN for a row that saw nothing. shape (N,)."""
    ends = np.trunc(history.histograms.percentiles(rows, percent / 100) * history.units)
    return np.where(history.moments.counts[rows] > 0.0, ends, np.nan)


@runtime_checkable
class Model(Protocol):
    """A peak model: a frozen dataclass whose fields are its parameters, checked in `__post_init__` (ValueError)."""

    @property
    def measured(self) -> bool:
        """Return whether the model reads measured usage. A model of requests alone predicts nothing for the system."""

    def peak(self, view: View, margin: float) -> Amount:
        """The peak that the warm pods of a class, one at least, will reach. Called for each class at every report.

        The margin is a factor for measured usage (1.1 for 10 percent); requests are not multiplied.
        Returns the peak at each moment of the view, in its unit. Negative or not finite counts as unknown, and then as
        capacity.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProdView:
    """A resource of all Prod pods and of the system, for a model that has its own rule for Reclaimable.

    Amounts are in the history's unit. [cores or bytes]
    """

    history: ResourceHistory
    series: int  # row of the class prod
    system: int  # row of what runs outside of pods
    pods: IntArray  # row of each Prod pod, shape (P,); -1 for one never seen
    requests: FloatArray  # what each requests, shape (P,); 0 for nothing
    counted: FloatArray  # what each counts with while it is cold, shape (P,)
    cold: BoolArray  # which are cold, shape (P,)
    terminating: BoolArray  # which are being deleted, shape (P,)
    allocatable: float  # what pods may request


@dataclass(frozen=True, slots=True)
class ReclaimableEstimate:
    """The result of a model's own rule, in the history's unit."""

    reclaimable: float
    peak: float  # of the Prod pods and the system, margin included


@runtime_checkable
class ReclaimableModel(Protocol):
    """A model that also estimates Reclaimable, in place of the common formula."""

    def estimate_reclaimable(self, prod: ProdView, margin: float, ratio: float) -> ReclaimableEstimate:
        """Return the reclaimable part of the Prod pods' requests; the ratio is its limit as a share of them, 0..1.

        Called at every report; the system was measured.
        """


def quoted(value: object) -> str:
    """Return a value for a message, shortened where it is long."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def require(name: str, value: object, low: float, high: float) -> None:
    """Check that a model's parameter is a number from low to high; the ValueError begins with its name."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}: must be a number from {low:g} to {high:g}, got {quoted(value)}")


def require_flag(name: str, value: object) -> None:
    """Check a model's parameter that is true or false. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - a wrong value in a policy, not a wrong call
            f"{name}: must be true or false, got {quoted(value)}"
        )


def require_window(window_days: object) -> None:
    """Check the parameter windowDays. Raises ValueError."""
    require("windowDays", window_days, 0.01, LONGEST_WINDOW_DAYS)


def window_days(model: Model) -> float:
    """Return the window of a model: its `window_days`, else that of the stored averages. [days]"""
    days = getattr(model, "window_days", WEEK_DAYS)
    return float(days) if isinstance(days, int | float) and 0.0 < days <= LONGEST_WINDOW_DAYS else WEEK_DAYS


def capped(peak: Amount, view: View, *, cap: bool) -> Amount:
    return np.minimum(peak, view.windows().sum_of_max) if cap else peak

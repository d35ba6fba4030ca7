"""What a peak model is, and what it may look at."""

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray, SingleArray
from agent.numerics.history import ResourceHistory

Amount: TypeAlias = float | FloatArray
"""A number, or one for each moment of a view of many, shape (...). [cores or bytes]"""
DAY_SECONDS: Final = 86400.0
WEEK_DAYS: Final = 7.0
"""How far back window averages are always kept. [days]"""
LONGEST_WINDOW_DAYS: Final = 30.0
"""The longest window that a policy may request. [days]"""
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
"""What a third-party model may raise: its answer is then unknown."""
_ENOUGH: Final = 0.5
_SHOWN: Final = 80  # of a value in a message


class Windows(Protocol):
    """The 5-minute averages of some pods in a window; every answer is in the history's unit.

    A pod of which the window holds less than half of what it should (half of its evidence, or of the window, if that is
    shorter) was away, or is younger than five minutes: then its highest sample ever stands in for its averages.
    """

    @property
    def highest(self) -> FloatArray:
        """Each pod's own highest average, shape (..., P)."""

    @property
    def evidence_seconds(self) -> FloatArray:
        """How much of the window each pod was observed, shape (..., P). [s]"""

    @property
    def sum_of_max(self) -> Amount:
        """S: the sum over the pods of their own highest, shape (...)."""

    @property
    def coincident_max(self) -> Amount:
        """C: the highest sum of the pods' averages at one time, and what stands in for the others, shape (...)."""

    def percentiles(self, percent: float) -> FloatArray:
        """Of each pod's averages the smallest that at least this share of them does not exceed, shape (..., P).

        Args:
            percent: the share, 0..100. [percent]
        """


class View(Protocol):
    """One resource of one class, as a model sees it: the class as a whole, and its warm pods that are present now.

    The pods are the last axis of every array. The agent looks at one moment, so that its answers for the class have
    shape () and those for the pods shape (P,); a backtest looks at many moments at once, and has them as a first axis.
    Sums over ``axis=-1`` and ``np.maximum`` are right for both. Everything is in the history's unit. [cores or bytes]
    """

    @property
    def resource(self) -> str:
        """Which resource: cpu or memory."""

    @property
    def units(self) -> int:
        """Whole units that amounts are reported in, in one unit of the view: 1000 milli-cores in a core."""

    @property
    def requests(self) -> FloatArray:
        """What each pod requests, shape (P,); 0 for nothing."""

    @property
    def mean(self) -> Amount:
        """Decayed mean of the class series, shape (...); it also holds what departed pods used."""

    @property
    def stdev(self) -> Amount:
        """Decayed standard deviation of the class series, shape (...)."""

    @property
    def pod_means(self) -> FloatArray:
        """Decayed mean of each pod, shape (..., P)."""

    @property
    def pod_stdevs(self) -> FloatArray:
        """Decayed standard deviation of each pod, shape (..., P)."""

    def class_percentile(self, percent: float) -> Amount:
        """Percentile of the class in whole units, cut off; NaN where nothing was seen. shape (...)."""

    def pod_percentiles(self, percent: float) -> FloatArray:
        """Percentile of each pod in whole units, cut off; NaN for one that saw nothing. shape (..., P)."""

    def windows(self, window_days: float = WEEK_DAYS) -> Windows:
        """The pods' 5-minute averages of the last days."""


@dataclass(frozen=True, slots=True)
class PodWindows:
    """The 5-minute averages of some pods in a window at one moment: see `Windows`."""

    averages: SingleArray
    """Shape (P, K), NaN where too little was measured."""
    highest: FloatArray
    """Each pod's own highest, shape (P,)."""
    sparse: BoolArray
    """For which of them the highest sample ever stands in, shape (P,)."""
    evidence_seconds: FloatArray
    """How much of the window each pod was observed, shape (P,). [s]"""

    @property
    def sum_of_max(self) -> float:
        """S."""
        return float(self.highest.sum())

    @property
    def coincident_max(self) -> float:
        """C."""
        own = self.averages[~self.sparse]
        sums = np.where(np.isnan(own), np.float32(0.0), own).sum(axis=0, dtype=np.float64)
        return float(sums.max(initial=0.0)) + float(self.highest[self.sparse].sum())

    def percentiles(self, percent: float) -> FloatArray:
        """Each pod's percentile, shape (P,)."""
        counts = np.count_nonzero(~np.isnan(self.averages), axis=1)
        places = np.maximum(np.ceil(counts * (percent / 100)).astype(np.intp) - 1, 0)
        ordered = np.sort(self.averages, axis=1)  # NaN comes last
        found = ordered[np.arange(len(ordered)), places].astype(np.float64)
        return np.where(self.sparse, self.highest, found)


@dataclass(frozen=True, slots=True)
class ClassView:
    """One resource of one class at one moment, from the agent's history: see `View`."""

    history: ResourceHistory
    """Where the rows are."""
    series: int
    """Row of the class as a whole; it also holds what departed pods used."""
    pods: IntArray
    """Rows of the warm pods, shape (P,)."""
    requests: FloatArray
    """What each of them requests, shape (P,); 0 for nothing."""

    @property
    def resource(self) -> str:
        """Which resource: cpu or memory."""
        return self.history.resource

    @property
    def units(self) -> int:
        """Whole units in one unit of the history."""
        return self.history.units

    @property
    def mean(self) -> float:
        """Decayed mean of the class series."""
        return float(self.history.moments.mean(self.class_row)[0])

    @property
    def stdev(self) -> float:
        """Decayed standard deviation of the class series."""
        return float(self.history.moments.stdev(self.class_row)[0])

    @property
    def pod_means(self) -> FloatArray:
        """Decayed mean of each pod, shape (P,)."""
        return self.history.moments.mean(self.pods)

    @property
    def pod_stdevs(self) -> FloatArray:
        """Decayed standard deviation of each pod, shape (P,)."""
        return self.history.moments.stdev(self.pods)

    @property
    def class_row(self) -> IntArray:
        """The row of the class as an array, shape (1,)."""
        return np.array([self.series], dtype=np.intp)

    def class_percentile(self, percent: float) -> float:
        """Percentile of the class in whole units, cut off; NaN where nothing was seen."""
        return float(whole_percentiles(self.history, self.class_row, percent)[0])

    def pod_percentiles(self, percent: float) -> FloatArray:
        """Percentile of each pod in whole units, cut off; NaN for one that saw nothing. shape (P,)."""
        return whole_percentiles(self.history, self.pods, percent)

    def windows(self, window_days: float = WEEK_DAYS) -> PodWindows:
        """The pods' 5-minute averages of the last days."""
        windows, seconds = self.history.windows, window_days * DAY_SECONDS
        averages = windows.recent(self.pods, seconds)
        covered = np.count_nonzero(~np.isnan(averages), axis=1) * windows.slot_seconds
        observed = np.minimum(self.history.observed[self.pods], seconds)
        sparse = is_sparse(covered, observed)
        own = np.fmax.reduce(averages, axis=1, initial=np.nan).astype(np.float64)
        return PodWindows(
            averages=averages,
            highest=np.where(sparse, np.fmax(self.history.moments.highest[self.pods], own), own),
            sparse=sparse,
            evidence_seconds=np.minimum(covered, observed),
        )


def is_sparse(covered_seconds: FloatArray, observed_seconds: FloatArray) -> BoolArray:
    """For which pods a window says too little; any shape.

    Args:
        covered_seconds: for how much of the window there are averages.
        observed_seconds: for how long each pod was observed, at most the window.
    """
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
        """Whether it looks at what was measured. One that looks at requests alone says nothing about the system."""

    def peak(self, view: View, margin: float) -> Amount:
        """The peak that the warm pods of a class will reach. Called for each class at every report.

        Args:
            view: the class, with at least one warm pod.
            margin: factor for what was measured (1.1 for 10 percent); what was only requested is not multiplied.

        Returns:
            The peak, in the view's unit: a number, or one for each moment of a view of many. Negative or not finite
            counts as unknown, and then as capacity.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProdView:
    """One resource of all Prod pods and of the system, for a model that has its own rule for Reclaimable.

    Amounts are in the history's unit. [cores or bytes]
    """

    history: ResourceHistory
    """Where the rows are."""
    series: int
    """Row of the class prod."""
    system: int
    """Row of what runs outside of pods."""
    pods: IntArray
    """Row of each Prod pod, shape (P,); -1 for one never seen."""
    requests: FloatArray
    """What each requests, shape (P,); 0 for nothing."""
    counted: FloatArray
    """What each counts with while it is cold, shape (P,)."""
    cold: BoolArray
    """Which are cold, shape (P,)."""
    terminating: BoolArray
    """Which are being deleted, shape (P,)."""
    allocatable: float
    """What pods may request."""


@dataclass(frozen=True, slots=True)
class ReclaimableEstimate:
    """What a rule of its own says, in the history's unit."""

    reclaimable: float
    """What is reclaimable."""
    peak: float
    """What the Prod pods and the system will reach, margin included."""


@runtime_checkable
class ReclaimableModel(Protocol):
    """A model that also estimates Reclaimable, in place of the common formula."""

    def estimate_reclaimable(self, prod: ProdView, margin: float, ratio: float) -> ReclaimableEstimate:
        """What is reclaimable of the Prod pods' requests. Called at every report; the system was measured.

        Args:
            prod: the Prod pods.
            margin: factor for what was measured.
            ratio: share of the requests that is reclaimable, 0..1.
        """


def quoted(value: object) -> str:
    """A value as it may stand in a message: cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def require(name: str, value: object, low: float, high: float) -> None:
    """Check a model's parameter.

    Raises:
        ValueError: it is not a number from low to high; the message begins with the parameter's name.
    """
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
    """How far back a model looks: its `window_days`, else what is always kept. [days]"""
    days = getattr(model, "window_days", WEEK_DAYS)
    return float(days) if isinstance(days, int | float) and 0.0 < days <= LONGEST_WINDOW_DAYS else WEEK_DAYS


def capped(peak: Amount, view: View, *, cap: bool) -> Amount:
    """A peak of a class series that is not above S, so that pods that departed do not linger in it."""
    return np.minimum(peak, view.windows().sum_of_max) if cap else peak

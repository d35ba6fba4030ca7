"""What a peak model is, and what it may look at."""

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray, SingleArray
from agent.numerics.history import ResourceHistory

DAY_SECONDS: Final = 86400.0
WEEK_DAYS: Final = 7.0
"""How far back window averages are always kept. [days]"""
LONGEST_WINDOW_DAYS: Final = 30.0
"""The longest window that a policy may ask for. [days]"""
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
"""What a model that somebody else wrote may raise without harm: it then counts as one that knows nothing."""
_ENOUGH: Final = 0.5
_SHOWN: Final = 80  # of a value in a message


@dataclass(frozen=True, slots=True)
class PodWindows:
    """The 5-minute averages of some pods in a window, in the history's unit.

    A pod of which the window holds less than half of what it should (half of its evidence, or of the window, if that is
    shorter) was away, or is younger than five minutes: then its highest sample ever stands in for its averages.
    """

    averages: SingleArray
    """Shape (P, K), NaN where too little was measured."""
    highest: FloatArray
    """Each pod's own highest, shape (P,)."""
    thin: BoolArray
    """For which of them the highest sample ever stands in, shape (P,)."""
    evidence_seconds: FloatArray
    """How much of the window each pod was observed, shape (P,). [s]"""

    @property
    def total(self) -> float:
        """S: the sum over the pods of their own highest."""
        return float(self.highest.sum())

    @property
    def coincident(self) -> float:
        """C: the highest sum of the pods' averages at one time, and what stands in for the others."""
        own = self.averages[~self.thin]
        sums = np.where(np.isnan(own), np.float32(0.0), own).sum(axis=0, dtype=np.float64)
        return float(sums.max(initial=0.0)) + float(self.highest[self.thin].sum())


@dataclass(frozen=True, slots=True)
class ClassView:
    """One resource of one class: the history of the whole class, and of its warm pods that are present now.

    Everything is in the history's unit. [cores or bytes]
    """

    history: ResourceHistory
    """Where the rows are."""
    series: int
    """Row of the class as a whole; it also holds what departed pods used."""
    pods: IntArray
    """Rows of the warm pods, shape (P,)."""
    requests: FloatArray
    """What each of them requests, shape (P,); 0 for nothing."""

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

    def windows(self, window_days: float = WEEK_DAYS) -> PodWindows:
        """The pods' 5-minute averages of the last days."""
        windows, seconds = self.history.windows, window_days * DAY_SECONDS
        averages = windows.recent(self.pods, seconds)
        covered = np.count_nonzero(~np.isnan(averages), axis=1) * windows.slot_seconds
        observed = np.minimum(self.history.observed[self.pods], seconds)
        thin = (covered == 0.0) | (covered < _ENOUGH * observed)
        own = np.fmax.reduce(averages, axis=1, initial=np.nan).astype(np.float64)
        return PodWindows(
            averages=averages,
            highest=np.where(thin, np.fmax(self.history.moments.highest[self.pods], own), own),
            thin=thin,
            evidence_seconds=np.minimum(covered, observed),
        )


@runtime_checkable
class Model(Protocol):
    """A peak model: a frozen dataclass whose fields are its parameters, checked in `__post_init__` (ValueError)."""

    @property
    def measured(self) -> bool:
        """Whether it looks at what was measured. One that looks at requests alone says nothing about the system."""

    def peak(self, view: ClassView, margin: float) -> float:
        """The peak that the warm pods of a class will reach. Called for each class at every report.

        Args:
            view: the class, with at least one warm pod.
            margin: factor for what was measured (1.1 for 10 percent); what was only requested is not multiplied.

        Returns:
            The peak, in the view's unit. Negative or not finite counts as unknown, and then as capacity.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProdView:
    """One resource of all Prod pods and of the system, for a model that has a rule of its own for what can be resold.

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
    leaving: BoolArray
    """Which are being deleted, shape (P,)."""
    allocatable: float
    """What pods may request."""


@dataclass(frozen=True, slots=True)
class Resale:
    """What a rule of its own says, in the history's unit."""

    reclaimable: float
    """What can be resold."""
    peak: float
    """What the Prod pods and the system will reach, margin included."""


@runtime_checkable
class ResaleRule(Protocol):
    """A model that also says what can be resold, in place of the common formula."""

    def resale(self, prod: ProdView, margin: float, ratio: float) -> Resale:
        """What can be resold of the Prod pods' requests. Called at every report; the system was measured.

        Args:
            prod: the Prod pods.
            margin: factor for what was measured.
            ratio: share of the requests that may be resold, 0..1.
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
    """How far back a model looks: its `window_days`, else as far as 5-minute averages are always kept. [days]"""
    days = getattr(model, "window_days", WEEK_DAYS)
    return float(days) if isinstance(days, int | float) and 0.0 < days <= LONGEST_WINDOW_DAYS else WEEK_DAYS


def capped(peak: float, view: ClassView, *, cap: bool) -> float:
    """A peak of a class series that is not above S, so that pods that departed do not linger in it."""
    return min(peak, view.windows().total) if cap else peak

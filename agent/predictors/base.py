"""What a peak model is, and what it may look at."""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray
from agent.numerics.history import ResourceHistory
from agent.numerics.peaks import SLOT_SECONDS, SLOTS

DAY_SECONDS: Final = 86400.0
WINDOW_DAYS: Final = SLOTS * SLOT_SECONDS / DAY_SECONDS
"""How far back window averages are kept. [days]"""


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
        return float(self.history.moments.mean(self._series)[0])

    @property
    def stdev(self) -> float:
        """Decayed standard deviation of the class series."""
        return float(self.history.moments.stdev(self._series)[0])

    @property
    def pod_means(self) -> FloatArray:
        """Decayed mean of each pod, shape (P,)."""
        return self.history.moments.mean(self.pods)

    @property
    def pod_stdevs(self) -> FloatArray:
        """Decayed standard deviation of each pod, shape (P,)."""
        return self.history.moments.stdev(self.pods)

    def pod_highest(self, window_days: float = WINDOW_DAYS) -> FloatArray:
        """Each pod's own highest 5-minute average; its highest sample while it has no such average yet. shape (P,)."""
        own = self.history.windows.highest(self.pods, window_days * DAY_SECONDS)
        return np.where(np.isnan(own), self.history.moments.highest[self.pods], own)

    def sum_of_highest(self, window_days: float = WINDOW_DAYS) -> float:
        """S: the sum over the pods of their own highest 5-minute average."""
        return float(self.pod_highest(window_days).sum())

    def coincident(self, window_days: float = WINDOW_DAYS) -> float:
        """C: the highest sum of the pods' 5-minute averages at one time; a pod without one adds its highest sample."""
        seconds = window_days * DAY_SECONDS
        unknown = np.isnan(self.history.windows.highest(self.pods, seconds))
        known = self.history.windows.coincident(self.pods[~unknown], seconds)
        return known + float(self.history.moments.highest[self.pods[unknown]].sum())

    @property
    def _series(self) -> IntArray:
        return np.array([self.series], dtype=np.intp)


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


def require(name: str, value: object, low: float, high: float) -> None:
    """Check a model's parameter.

    Raises:
        ValueError: it is not a number from low to high; the message begins with the parameter's name.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}: must be a number from {low:g} to {high:g}, got {value!r}")


def require_flag(name: str, value: object) -> None:
    """Check a model's parameter that is true or false. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - a wrong value in a policy, not a wrong call
            f"{name}: must be true or false, got {value!r}"
        )

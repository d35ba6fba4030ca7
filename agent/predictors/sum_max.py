"""Sum of maxima: every pod may reach its own highest usage at the same time."""

from dataclasses import dataclass
from typing import ClassVar

from agent.predictors.base import WINDOW_DAYS, ClassView, require


@dataclass(frozen=True, slots=True)
class SumMax:
    """S, the sum over the pods of their own highest 5-minute average."""

    window_days: float = 7.0
    """How far back to look. [days]"""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("windowDays", self.window_days, 0.01, WINDOW_DAYS)

    def peak(self, view: ClassView, margin: float) -> float:
        """S, times the margin."""
        return margin * view.sum_of_highest(self.window_days)

"""Sum of maxima: every pod may reach its own highest usage at the same time."""

from dataclasses import dataclass
from typing import ClassVar

from agent.predictors.base import Amount, View, require_window


@dataclass(frozen=True, slots=True)
class SumMax:
    """S, the sum over the pods of their own highest 5-minute average.

    Two pods that alternate between 1.3 and 0.7 cores: 2.6 cores.
    """

    window_days: float = 7.0
    """The window. [days]"""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_window(self.window_days)

    def peak(self, view: View, margin: float) -> Amount:
        return margin * view.windows(self.window_days).sum_of_max

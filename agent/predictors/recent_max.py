"""Recent maximum: the pods present now will not use more together than they did in the last days."""

from dataclasses import dataclass
from typing import ClassVar

from agent.predictors.base import Amount, View, require_window


@dataclass(frozen=True, slots=True)
class RecentMax:
    """C, the highest coincident usage of the pods present now: max over time of the sum of their 5-minute averages.

    Two pods that alternate between 1.3 and 0.7 cores: 2 cores.
    """

    window_days: float = 7.0
    """The window. [days]"""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_window(self.window_days)

    def peak(self, view: View, margin: float) -> Amount:
        return margin * view.windows(self.window_days).coincident_max

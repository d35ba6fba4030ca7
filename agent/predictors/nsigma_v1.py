"""N-sigma of a class: the peak of a sum is its mean plus N standard deviations."""

from dataclasses import dataclass
from typing import ClassVar

from agent.predictors.base import Amount, View, capped, require, require_flag


@dataclass(frozen=True, slots=True)
class NSigmaV1:
    """N-sigma of the class series: mean + N * stdev.

    A class with mean 3.1 and standard deviation 0.4 cores, N = 3: 4.3 cores.
    """

    n: float = 3.0
    """The number of standard deviations."""
    cap_at_highest: bool = True
    """Not above the sum of the pods' own highest 5-minute averages, so that departed pods do not linger."""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("n", self.n, 0.0, 10.0)
        require_flag("capAtHighest", self.cap_at_highest)

    def peak(self, view: View, margin: float) -> Amount:
        return margin * capped(view.mean + self.n * view.stdev, view, cap=self.cap_at_highest)

"""N-sigma of a class or of its pods, whichever is more."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.predictors.base import Amount, View, capped, require, require_flag


@dataclass(frozen=True, slots=True)
class NSigmaV2:
    """The larger of N-sigma of the class series and the sum of N-sigma of its pods.

    max(mean + N * stdev, sum over pods of (mean_p + N * stdev_p)). Pods that do not peak together make the second the
    larger one: two pods of mean 1 and stdev 0.3 cores that alternate have a sum of mean 2 and stdev 0.2, so with
    N = 3: max(2.6, 2 * 1.9) = 3.8 cores.
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
        """The larger of the two, times the margin."""
        together = view.mean + self.n * view.stdev
        apart = (view.pod_means + self.n * view.pod_stdevs).sum(axis=-1)
        return margin * capped(np.maximum(together, apart), view, cap=self.cap_at_highest)

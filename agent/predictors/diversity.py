"""Diversity: pods do not all peak at once, and the longer they were seen not to, the more that counts.

The coincidence factor of power engineering: what many consumers draw together lies between the most they ever drew
together (C) and the sum of what each ever drew alone (S). How far below S one may go depends on how long they were
watched.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.predictors.base import DAY_SECONDS, Amount, View, Windows, require, require_window


@dataclass(frozen=True, slots=True)
class Diversity:
    """C + lambda * (S - C).

    lambda is the mean over the pods, weighted by their own highest usage, of a value that falls in a straight line
    from 1 (never seen) to lambdaMin (seen for the whole window). Two pods that alternate between 1.3 and 0.7 cores have
    C = 2 and S = 2.6; seen for all of the 14 days, lambdaMin 0.4: 2 + 0.4 * 0.6 = 2.24 cores; seen for half of them,
    lambda is 0.7: 2.42 cores. A pod more never makes it less: with L = lambda * S it is C + L * (1 - C / S), which
    rises with C, with S, and with L, the sum of what the pods are charged alone.
    """

    window_days: float = 14.0
    """The window. [days]"""
    lambda_min: float = 0.4
    """The rest of the distance between C and S after a full window of observation, 0..1."""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_window(self.window_days)
        require("lambdaMin", self.lambda_min, 0.0, 1.0)

    def peak(self, view: View, margin: float) -> Amount:
        """C + lambda * (S - C), times the margin."""
        windows = view.windows(self.window_days)
        together, apart = windows.coincident_max, windows.sum_of_max
        return margin * (together + self._lambda(windows) * np.maximum(apart - together, 0.0))

    def _lambda(self, windows: Windows) -> FloatArray:
        share = np.minimum(windows.evidence_seconds / (self.window_days * DAY_SECONDS), 1.0)
        factor = 1.0 - (1.0 - self.lambda_min) * share
        weighted: FloatArray = (factor * windows.highest).sum(axis=-1)
        apart = windows.sum_of_max
        return weighted / np.where(apart > 0.0, apart, 1.0)  # of idle pods S is 0, and so is C

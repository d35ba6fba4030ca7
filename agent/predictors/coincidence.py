"""Coincidence: how much pods may add to the most they used together, for a stated risk.

They can add at most the rest up to their own peaks. Where they peak independently, the root of the sum of squares is a
closer bound. The smaller of the two counts: less of it the longer the pods were observed, and the higher the risk.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.predictors.base import DAY_SECONDS, Amount, View, Windows, require, require_window

_C_ALONE_PERCENT: Final = 8.0  # violations of C, 24 hours ahead, after a day of evidence
_HORIZON_EXPONENT: Final = 0.7


@dataclass(frozen=True, slots=True)
class Coincidence:
    """C + min(at once, apart), from C to S.

        k       = max(0, ln(8 * (horizonHours / 24)^0.7 / targetViolationPercent))
        share   = k / sqrt(days of evidence, 1..windowDays)
        at once = sum of min(share, 1) * highest, times 1 - C / S
        apart   = sqrt(sum of (share * (highest - mean))^2)

    k is 1.67 by default. Two pods that alternate between 1.3 and 0.7 cores have C = 2, S = 2.6, and a mean of 1. Seen
    for all of the 14 days, share is 0.447: at once is 0.447 * 2.6 * (1 - 2 / 2.6) = 0.268, apart is 0.447 * 0.3 *
    sqrt(2) = 0.190, and the peak is 2.190 cores. A pod more never makes it less: both bounds plus C rise with it.
    """

    target_violation_percent: float = 1.5
    """Share of predictions that usage may exceed within the horizon. [percent]"""
    horizon_hours: float = 24.0
    """Time for which a prediction has to hold. [h]"""
    window_days: float = 14.0
    """The window. [days]"""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("targetViolationPercent", self.target_violation_percent, 0.1, 7.0)
        require("horizonHours", self.horizon_hours, 1.0, 24.0)
        require_window(self.window_days)

    def peak(self, view: View, margin: float) -> Amount:
        """C + min(at once, apart), times the margin."""
        windows = view.windows(self.window_days)
        together, highest_sum = windows.coincident_max, windows.sum_of_max
        days = np.clip(windows.evidence_seconds / DAY_SECONDS, 1.0, self._most_days)
        share = np.minimum(self._k / np.sqrt(days), 1.0)
        rest = 1.0 - together / np.where(highest_sum > 0.0, highest_sum, 1.0)  # of idle pods S is 0, and so is C
        at_once: FloatArray = (share * windows.highest).sum(axis=-1) * np.maximum(rest, 0.0)
        return margin * (together + np.minimum(at_once, self._apart(windows, days)))

    def _apart(self, windows: Windows, days: FloatArray) -> FloatArray:
        """Return the bound for pods that peak independently.

        A gap leaves usage and evidence out, and so might raise the mean. The days are therefore those, from the
        evidence to the whole window, that yield the most for the same usage: the evidence itself where the mean is at
        most a third of the highest.
        """
        highest, usage = windows.highest, windows.usage_seconds / DAY_SECONDS
        days = np.clip(3.0 * usage / np.where(highest > 0.0, highest, 1.0), days, self._most_days)
        parts = self._k / np.sqrt(days) * np.maximum(highest - usage / days, 0.0)
        result: FloatArray = np.sqrt((parts**2).sum(axis=-1))
        return result

    @property
    def _most_days(self) -> float:
        return max(self.window_days, 1.0)

    @property
    def _k(self) -> float:
        scale = (self.horizon_hours / 24.0) ** _HORIZON_EXPONENT
        return max(0.0, math.log(_C_ALONE_PERCENT * scale / self.target_violation_percent))

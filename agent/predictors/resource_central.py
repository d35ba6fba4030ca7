"""Resource Central: each pod's own percentile of the last hours, added up.

Cortez et al., "Resource Central: Understanding and Predicting Workloads for Improved Resource Management in Large
Cloud Platforms", SOSP 2017; as a peak model in Bashir et al., "Take it to the limit", EuroSys 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from agent.numerics.arrays import FloatArray
from agent.predictors.base import LONGEST_WINDOW_DAYS, Amount, View, require

_DAY_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class ResourceCentral:
    """Sum over the pods of a percentile of their own 5-minute averages of the last hours.

    Of the 288 averages of a day, the 99th percentile is the third highest: the smallest one that at least 99 percent of
    them do not exceed. A pod with too few averages counts with its highest sample.
    """

    percentile: float = 99.0
    """Which percentile of its own history a pod counts with. [percent]"""
    window_hours: float = 24.0
    """The window. [hours]"""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("percentile", self.percentile, 1.0, 100.0)
        require("windowHours", self.window_hours, 0.25, LONGEST_WINDOW_DAYS * _DAY_HOURS)

    @property
    def window_days(self) -> float:
        """Return how far back it looks. [days]"""
        return self.window_hours / _DAY_HOURS

    def peak(self, view: View, margin: float) -> Amount:
        together: FloatArray = view.windows(self.window_days).percentiles(self.percentile).sum(axis=-1)
        return margin * together

"""Resource Central: each pod's own percentile of the last hours, added up.

Cortez et al., "Resource Central: Understanding and Predicting Workloads for Improved Resource Management in Large
Cloud Platforms", SOSP 2017; as a peak model in Bashir et al., "Take it to the limit", EuroSys 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.numerics.arrays import FloatArray, SingleArray
from agent.predictors.base import LONGEST_WINDOW_DAYS, ClassView, require

_DAY_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class ResourceCentral:
    """Sum over the pods of a percentile of their own 5-minute averages of the last hours.

    Of the 288 averages of a day, the 99th percentile is the third highest: the smallest one that at least 99 percent of
    them do not exceed. A pod of which the window says too little counts with its highest sample.
    """

    percentile: float = 99.0
    """Which percentile of its own history a pod counts with. [percent]"""
    window_hours: float = 24.0
    """How far back to look. [hours]"""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("percentile", self.percentile, 1.0, 100.0)
        require("windowHours", self.window_hours, 0.25, LONGEST_WINDOW_DAYS * _DAY_HOURS)

    @property
    def window_days(self) -> float:
        """How far back it looks. [days]"""
        return self.window_hours / _DAY_HOURS

    def peak(self, view: ClassView, margin: float) -> float:
        """The sum of the percentiles, times the margin."""
        windows = view.windows(self.window_days)
        own = _percentiles(windows.averages, self.percentile / 100)
        return margin * float(np.where(windows.thin, windows.highest, own).sum())


def _percentiles(averages: SingleArray, share: float) -> FloatArray:
    """Of each row the smallest average that at least this share of them does not exceed; NaN for an empty row."""
    counts = np.count_nonzero(~np.isnan(averages), axis=1)
    places = np.maximum(np.ceil(counts * share).astype(np.intp) - 1, 0)
    ordered = np.sort(averages, axis=1)  # NaN comes last
    found: FloatArray = ordered[np.arange(len(ordered)), places].astype(np.float64)
    return found

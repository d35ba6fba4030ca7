"""The slope of the straight line through a series. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 5  # values through which a line says something


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line with the least squares."""

    level: float  # the mean
    slope: float  # growth per unit of time

    @classmethod
    def of(cls, times: Sequence[float], values: Sequence[float]) -> "Trend | None":
        """The line through some values, or nothing through fewer than five.

        Args:
            times: When each was seen.
            values: The observed values.
        """
        if len(values) < FEWEST:
            return None
        slope, _ = np.polyfit(np.asarray(times, dtype=float), np.asarray(values, dtype=float), 1)
        return cls(float(np.mean(values)), float(slope))

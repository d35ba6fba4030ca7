"""What a question to the store is answered with: times and values side by side."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

NO_TIMES: Floats = np.empty(0)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one series, oldest first. A gap in the measurements is a gap in ``times``."""

    times: Floats
    """shape (N,), strictly rising. [seconds since 1970]"""
    values: Floats
    """shape (N,). [the metric's unit]"""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def span_seconds(self) -> float:
        """Time between the first and the last sample; 0 for fewer than two."""
        return float(self.times[-1] - self.times[0]) if len(self.times) else 0.0


EMPTY = Series(NO_TIMES, NO_TIMES)
"""No samples at all."""


def joined(parts: list[Series]) -> Series:
    """The parts as one series in order of time; of two samples of one time the later part's stays."""
    if not parts:
        return EMPTY
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part.times for part in parts])
    values = np.concatenate([part.values for part in parts])
    if np.all(times[1:] > times[:-1]):
        return Series(times, values)
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    last = np.append(times[1:] != times[:-1], [True])
    return Series(times[last], values[last])

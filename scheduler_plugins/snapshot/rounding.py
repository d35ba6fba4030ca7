"""Rounding as Go's `math.Round` does it: half away from zero. Python's `round` and numpy's `rint` go half to even."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_JUST_BELOW_HALF: Final = np.nextafter(0.5, 0.0)
"""Adding this, not 0.5, keeps the number just below one half from reaching one; x.5 still does: the sum rounds up."""


def round_half_away(values: Any) -> NDArray[np.int64]:  # noqa: ANN401 - whatever numpy takes for an array of floats
    """Nearest integers, halves away from zero: 64.5 -> 65, -64.5 -> -65, 65.49 -> 65."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.trunc(numbers + np.copysign(_JUST_BELOW_HALF, numbers)).astype(np.int64)

"""The array types that formulas speak of, and how a table of rows grows."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""Numbers, double precision."""
SingleArray: TypeAlias = npt.NDArray[np.float32]
"""Numbers, single precision: where a part in sixteen million does not matter and memory does."""
IntArray: TypeAlias = npt.NDArray[np.intp]
"""Row or bucket numbers."""
BoolArray: TypeAlias = npt.NDArray[np.bool_]
"""A mask."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


def grown(table: npt.NDArray[_Scalar], rows: int, fill: float) -> npt.NDArray[_Scalar]:
    """The table with at least that many rows, the new ones filled.

    Args:
        table: shape (R, ...).
        rows: how many rows are needed.
        fill: content of the new rows.
    """
    missing = rows - table.shape[0]
    if missing <= 0:
        return table
    more: npt.NDArray[Any] = np.full((missing, *table.shape[1:]), fill, dtype=table.dtype)
    return np.concatenate([table, more])

"""The array types that formulas speak of, and arrays of one row per entity."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]  # numbers, double precision
SingleArray: TypeAlias = npt.NDArray[np.float32]
"""Numbers, single precision: where a part in sixteen million does not matter and memory does."""
IntArray: TypeAlias = npt.NDArray[np.intp]  # row or bucket numbers
BoolArray: TypeAlias = npt.NDArray[np.bool_]  # a mask

_Scalar = TypeVar("_Scalar", bound=np.generic)


class RowTables:
    """Attributes that are arrays of one row per entity: they grow, are cleared and are copied together."""

    FILLS: ClassVar[Mapping[str, float]]  # content of a new row, by attribute

    def grow(self, rows: int) -> None:
        for name, fill in self.FILLS.items():
            setattr(self, name, grown(getattr(self, name), rows, fill))

    def clear(self, row: int) -> None:
        for name, fill in self.FILLS.items():
            getattr(self, name)[row] = fill

    def copy(self, source: int, target: int) -> None:
        """Let one row continue another's history."""
        for name in self.FILLS:
            table = getattr(self, name)
            table[target] = table[source]


def grown(table: npt.NDArray[_Scalar], rows: int, fill: float) -> npt.NDArray[_Scalar]:
    """A table of shape (R, ...) with at least that many rows, the new ones filled."""
    missing = rows - table.shape[0]
    if missing <= 0:
        return table
    more: npt.NDArray[Any] = np.full((missing, *table.shape[1:]), fill, dtype=table.dtype)
    return np.concatenate([table, more])

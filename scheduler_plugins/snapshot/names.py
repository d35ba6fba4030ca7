"""Names of nodes that are made only where they are read: of hundreds, a request needs a few."""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import msgspec
import numpy as np
from numpy.typing import NDArray


class _Names(Sequence[str]):
    """A sequence by what `_listed` returns."""

    __slots__ = ()

    def _listed(self) -> Sequence[str]:
        raise NotImplementedError

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return self._listed()[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())


class RequestedNames(_Names):
    """The names of a request, each once. Reading them raises what `decode` does.

    Args:
        text: the JSON array.
        decode: reads it.
    """

    __slots__ = ("_decode", "_names", "text")

    def __init__(self, text: msgspec.Raw, decode: Callable[[msgspec.Raw], list[str]]) -> None:
        self.text = text
        self._decode = decode
        self._names: list[str] | None = None

    def _listed(self) -> Sequence[str]:
        if self._names is None:
            self._names = list(dict.fromkeys(self._decode(self.text)))
        return self._names


class NamesOfRows(_Names):
    """The names of some rows.

    Args:
        names: the names of all rows.
        rows: which of them these are, shape (N,).
    """

    __slots__ = ("names", "rows")

    def __init__(self, names: Sequence[str], rows: NDArray[np.intp]) -> None:
        self.names: Sequence[str] = names
        self.rows = rows
        if isinstance(names, NamesOfRows):
            self.names, self.rows = names.names, names.rows.take(rows)

    def _listed(self) -> Sequence[str]:
        names = self.names
        return [names[row] for row in self.rows.tolist()]

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return self._listed()[at] if isinstance(at, slice) else self.names[self.rows[at]]

    def __len__(self) -> int:
        return len(self.rows)

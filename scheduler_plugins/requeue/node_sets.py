"""Sets of nodes as the bits of one integer: 5,000 nodes are 625 bytes, so every group of waiting pods can have one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_plugins.snapshot.arrays import Snapshot

_SPARE_NUMBERS = 1024


class NodeNumbers:
    """Gives every node name a number that stays the same while nodes come and go."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._rows: NDArray[np.intp] = np.zeros(0, np.intp)
        self._rows_of: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self._names)

    def bits(self, names: Sequence[str]) -> int:
        """The set of these nodes; names that are new get a number."""
        try:
            numbers = self._looked_up(names)
        except KeyError:
            for name in names:
                if name not in self._numbers:
                    self._numbers[name] = len(self._names)
                    self._names.append(name)
            numbers = self._looked_up(names)
        flags = np.zeros(len(self._names), np.bool_)
        flags[numbers] = True
        return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")

    def _looked_up(self, names: Sequence[str]) -> NDArray[np.intp]:
        return np.fromiter(map(self._numbers.__getitem__, names), np.intp, len(names))

    @property
    def all(self) -> int:
        """The set of all nodes that have a number."""
        return (1 << len(self._names)) - 1

    def rows(self, bits: int, snapshot: Snapshot) -> NDArray[np.intp]:
        """The rows in a snapshot of those nodes of a set that are in it, in the order of their numbers."""
        rows = self._mapping(snapshot)
        flags = np.unpackbits(
            np.frombuffer(bits.to_bytes((len(rows) + 7) // 8, "little"), np.uint8), count=len(rows), bitorder="little"
        )
        found = rows[flags.view(np.bool_)]
        return found[found >= 0]

    def of_rows(self, flags: NDArray[np.bool_], snapshot: Snapshot) -> int:
        """The set of the nodes of some rows of a snapshot: those whose flag is set."""
        return self.bits([snapshot.names[row] for row in np.flatnonzero(flags).tolist()])

    def crowded(self, nodes: int) -> bool:
        """Whether more numbers are taken by nodes that are gone than by the nodes that there are."""
        return len(self._names) > 2 * nodes + _SPARE_NUMBERS

    def compact(self, names: Sequence[str], sets: Mapping[object, int]) -> dict[object, int]:
        """Give numbers to these nodes alone; the same sets in the new numbers, by the same keys."""
        former, wanted = self._names, set(names)
        self._numbers, self._names, self._rows_of = {}, [], None
        return {
            key: self.bits([name for number, name in enumerate(former) if bits >> number & 1 and name in wanted])
            for key, bits in sets.items()
        }

    def _mapping(self, snapshot: Snapshot) -> NDArray[np.intp]:
        """The row of each number; -1: that node is not there."""
        if self._rows_of is not snapshot.names or len(self._rows) != len(self._names):
            index = snapshot.index
            self._rows = np.fromiter((index.get(name, -1) for name in self._names), np.intp, len(self._names))
            self._rows_of = snapshot.names
        return self._rows


@dataclass(slots=True)
class Changes:
    """Finds the nodes of which a snapshot says something else than the one before."""

    _before: Snapshot | None = None

    def since_last(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Which nodes changed, shape (N,); all of them when nodes came or went."""
        before, self._before = self._before, snapshot
        if before is None or before.names != snapshot.names:
            return np.ones(len(snapshot), np.bool_)
        changed = np.zeros(len(snapshot), np.bool_)
        for former, present in zip(_arrays(before), _arrays(snapshot), strict=True):
            if former is not present and present.size and present.itemsize:
                changed |= (_raw(former) != _raw(present)).any(axis=1)
        return changed

    def forget(self) -> None:
        """Let go of the last snapshot; the next one changes every node."""
        self._before = None


def _arrays(snapshot: Snapshot) -> list[NDArray[np.void] | NDArray[np.int64]]:
    sums = (snapshot.in_flight, snapshot.in_flight_prod, snapshot.sums, snapshot.in_flight_sums)
    return [*snapshot.tables.values(), *sums]


def _raw(array: NDArray[np.void] | NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bytes of each row."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)

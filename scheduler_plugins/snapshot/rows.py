"""The mutable side of a snapshot: one row per node in every array, kept dense."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from scheduler_plugins.snapshot.arrays import IntArray, Snapshot, Table

_IN_FLIGHT = "in_flight"
_IN_FLIGHT_PROD = "in_flight_prod"


class Rows:
    """Arrays that grow and shrink by whole nodes, and freeze by copying only what changed."""

    def __init__(self, width: int, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self._tables = tuple(dtypes)
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._arrays: dict[str, Table] = {name: np.zeros(0, dtype) for name, dtype in dtypes.items()}
        self._arrays |= {name: np.zeros((0, width), np.int64) for name in (_IN_FLIGHT, _IN_FLIGHT_PROD)}
        self._frozen: dict[str, Table] = {}
        self._frozen_names: tuple[str, ...] | None = None
        self._frozen_index: Mapping[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._index

    @property
    def names(self) -> Sequence[str]:
        """The nodes, in the order of their rows."""
        return self._names

    def add(self, name: str) -> None:
        """Give a new node a row of zeros."""
        row = len(self._names)
        self._index[name] = row
        self._names.append(name)
        for key, array in self._arrays.items():
            if row >= len(array):
                grown = np.zeros((max(64, 2 * len(array)), *array.shape[1:]), array.dtype)
                grown[:row] = array[:row]
                self._arrays[key] = grown
            self._arrays[key][row] = np.zeros((), array.dtype)
        self._members_changed()

    def remove(self, name: str) -> None:
        """Drop a node's row; the last one takes its place."""
        row, last = self._index.pop(name), self._names.pop()
        if last != name:
            for array in self._arrays.values():
                array[row] = array[len(self._names)]
            self._names[row] = last
            self._index[last] = row
        self._members_changed()

    def _members_changed(self) -> None:
        self._frozen_names = None
        self._frozen.clear()

    def write(self, table: str, name: str, record: tuple[Any, ...]) -> None:
        """Write a node's record into a table."""
        self._arrays[table][self._index[name]] = record
        self._frozen.pop(table, None)

    def charge(self, names: Sequence[str], amounts: Sequence[int], *, prod: bool) -> None:
        """Add amounts in flight to some nodes; nodes that are not there are passed over."""
        rows = [self._index[name] for name in names if name in self._index]
        if not rows:
            return
        for key in (_IN_FLIGHT, _IN_FLIGHT_PROD) if prod else (_IN_FLIGHT,):
            self._arrays[key][rows] += np.array(amounts, np.int64)
            self._frozen.pop(key, None)

    def freeze(self, now: float) -> Snapshot:
        """The present state as a snapshot that no later change touches."""
        if self._frozen_names is None:
            self._frozen_names = tuple(self._names)
            self._frozen_index = dict(self._index)
        for key in self._arrays.keys() - self._frozen.keys():
            self._frozen[key] = self._arrays[key][: len(self._names)].copy()
            self._frozen[key].flags.writeable = False
        in_flight: IntArray = self._frozen[_IN_FLIGHT]
        in_flight_prod: IntArray = self._frozen[_IN_FLIGHT_PROD]
        tables = MappingProxyType({name: self._frozen[name] for name in self._tables})
        return Snapshot(self._frozen_names, tables, in_flight, in_flight_prod, now, self._frozen_index)

"""The mutable side of a snapshot: one row per node in every array, kept dense."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from scheduler_plugins.snapshot.accounts import Accounts
from scheduler_plugins.snapshot.arrays import Nodes, Snapshot, Table
from scheduler_plugins.snapshot.plugin_state import PluginState
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.units import Vector

_IN_FLIGHT, _VARIANCES = "in flight", "variances"
_SUMS = "sums"
_IDS = "ids"
_LARGEST_SUM: Final = 2**61  # two of them, and what pods in flight add, stay in 64 bits


class Rows:
    """Arrays that grow and shrink by whole nodes, and freeze by copying only what changed."""

    def __init__(
        self,
        resources: int,
        dtypes: Mapping[str, np.dtype[Any]],
        accounts: Accounts,
        plugin_states: Mapping[str, PluginState],
    ) -> None:
        self._plugin_states = plugin_states
        self._tables = tuple(dtypes)
        self._accounts = accounts
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._arrays: dict[str, Table] = {name: np.zeros(0, dtype) for name, dtype in dtypes.items()}
        self._nothing: Vector = (0,) * resources
        wide = 2 * resources + accounts.width
        self._arrays[_IN_FLIGHT] = np.zeros((0, 2, wide), np.int64)  # the mean of what lands on a node, and all of it
        self._arrays[_VARIANCES] = np.zeros((0, wide))
        self._arrays[_SUMS] = np.zeros((0, accounts.width), np.int64)
        self._arrays[_IDS] = np.zeros(0, np.int64)
        self._frozen: dict[str, Table] = {}
        self._frozen_names: tuple[str, ...] | None = None
        self._frozen_index: Mapping[str, int] = {}
        self._scattered = False  # whether nodes have come or gone since `_gather_names`

    def __contains__(self, name: object) -> bool:
        return name in self._index

    @property
    def names(self) -> Sequence[str]:
        return self._names

    def add(self, name: str, number: int) -> None:
        """Give a new node a row of zeros, but for its id."""
        row = len(self._names)
        self._index[name] = row
        self._names.append(name)
        for key, array in self._arrays.items():
            if row >= len(array):
                grown = np.zeros((max(64, 2 * len(array)), *array.shape[1:]), array.dtype)
                grown[:row] = array[:row]
                self._arrays[key] = grown
            self._arrays[key][row] = np.zeros((), array.dtype)
        self._arrays[_IDS][row] = number
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
        self._scattered = True

    def _gather_names(self) -> None:
        """Copy names and row numbers to where they follow one another in memory: a look-up then takes half the time."""
        self._names = [(name + " ")[:-1] for name in self._names]
        self._index = {name: row for row, name in enumerate(self._names)}
        self._scattered = False

    def write(self, table: str, name: str, record: tuple[Any, ...]) -> None:
        self._arrays[table][self._index[name]] = record
        self._frozen.pop(table, None)

    def write_sums(self, name: str, sums: Vector) -> None:
        """Write a node's sums over its bound pods; thousands of them, of the largest amounts, are beyond 64 bits."""
        self._arrays[_SUMS][self._index[name]] = [max(-_LARGEST_SUM, min(amount, _LARGEST_SUM)) for amount in sums]
        self._frozen.pop(_SUMS, None)

    def charge(self, names: Sequence[str], pod: PodRequest, times: int = 1) -> None:
        """Add a pod in flight to some nodes (or take it off: -1), of which it will be bound to one.

        Each of k nodes gets a k-th: a/k in whole numbers; the rest goes to the first names, with a
        variance of a^2 (1/k) (1 - 1/k).
        """
        count = len(names)
        amounts = (*pod.estimate, *(pod.estimate if pod.prod else self._nothing), *self._accounts.flat(pod.amounts))
        if not count or not any(amounts):
            return
        rows, whole = np.array([self._index.get(name, -1) for name in names], np.intp), np.array(amounts, np.int64)
        share = whole // count
        more = np.empty((count, 2, len(whole)), np.int64)
        more[:, 0] = share + (np.arange(count)[:, None] < whole - share * count)
        more[:, 1] = whole
        if rows.min() < 0:
            valid = rows >= 0
            rows, more = rows[valid], more[valid]
        self._arrays[_IN_FLIGHT][rows] += times * more
        self._arrays[_VARIANCES][rows] += np.square(whole.astype(np.float64)) * (times * (count - 1) / count**2)
        for key in (_IN_FLIGHT, _VARIANCES):
            self._frozen.pop(key, None)

    def select(self, names: Sequence[str], now: float) -> tuple[Nodes, list[str]]:
        """Some nodes as they are, as arrays that no later change touches, and the names that are not known.

        As `freeze` and then `Snapshot.select`, but only the rows in question are copied: after every pod that is bound
        something has changed, and of 5,000 nodes kube-scheduler requests about 500.
        """
        if self._scattered:
            self._gather_names()
        return self._snapshot(self._arrays, self._names, self._index, now).select(names)

    def freeze(self, now: float) -> Snapshot:
        """The present state as a snapshot that no later change touches."""
        if self._frozen_names is None:
            self._frozen_names = tuple(self._names)
            self._frozen_index = dict(self._index)
        for key in self._arrays.keys() - self._frozen.keys():
            self._frozen[key] = self._arrays[key][: len(self._names)].copy()
            self._frozen[key].flags.writeable = False
        return self._snapshot(self._frozen, self._frozen_names, self._frozen_index, now)

    def _snapshot(
        self, arrays: Mapping[str, Table], names: Sequence[str], index: Mapping[str, int], now: float
    ) -> Snapshot:
        return Snapshot(
            names=names,
            tables=MappingProxyType({name: arrays[name] for name in self._tables}),
            landing=arrays[_IN_FLIGHT],
            variances=arrays[_VARIANCES],
            resources=len(self._nothing),
            sums=arrays[_SUMS],
            accounts=self._accounts.slices,
            ids=arrays[_IDS],
            plugin_states=self._plugin_states,
            now=now,
            index=index,
        )

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

_CHARGES = "charges"
_AT_MOST = "at most"
_WHOLE, _VARIANCES = "whole", "variances"
_OWN: Final = frozenset({_WHOLE, _VARIANCES})
_DEVIATIONS: Final = 4.0  # how many standard deviations more than their mean pods in flight may be on a node
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
        widths = {_CHARGES: wide, _AT_MOST: wide, _WHOLE: wide, _SUMS: accounts.width}
        self._arrays |= {name: np.zeros((0, width), np.int64) for name, width in widths.items()}
        self._arrays[_VARIANCES] = np.zeros((0, wide))
        self._arrays[_IDS] = np.zeros(0, np.int64)
        self._frozen: dict[str, Table] = {}
        self._frozen_names: tuple[str, ...] | None = None
        self._frozen_index: Mapping[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._index

    @property
    def names(self) -> Sequence[str]:
        """The nodes, in the order of their rows."""
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

    def write(self, table: str, name: str, record: tuple[Any, ...]) -> None:
        """Write a node's record into a table."""
        self._arrays[table][self._index[name]] = record
        self._frozen.pop(table, None)

    def write_sums(self, name: str, sums: Vector) -> None:
        """Write a node's sums over its bound pods; thousands of them, of the largest amounts, are beyond 64 bits."""
        self._arrays[_SUMS][self._index[name]] = [max(-_LARGEST_SUM, min(each, _LARGEST_SUM)) for each in sums]
        self._frozen.pop(_SUMS, None)

    def charge(self, names: Sequence[str], pod: PodRequest, times: int = 1) -> None:
        """Add a pod in flight to some nodes (or take it off: -1), of which it will be bound to one.

        Each of k nodes carries a k-th: a/k in whole numbers, of which what is left over goes to the first names, with a
        variance of a^2 (1/k) (1 - 1/k). Which node it will be is kube-scheduler's choice, so many may land on one: at
        most all, and hardly more than four standard deviations above the mean.
        """
        count = len(names)
        amounts = (*pod.estimate, *(pod.estimate if pod.prod else self._nothing), *self._accounts.flat(pod.amounts))
        if not count or not any(amounts):
            return
        rows = np.array([self._index.get(name, -1) for name in names], np.intp)
        places = np.flatnonzero(rows >= 0)
        rows = rows[places]
        whole = np.array(amounts, np.int64)
        arrays, variance = self._arrays, np.square(whole.astype(np.float64)) * ((count - 1) / count**2)
        mean = arrays[_CHARGES][rows] + times * (whole // count + (places[:, None] < whole % count))
        all_of_them = arrays[_WHOLE][rows] + times * whole
        # Where no pod is left, what floating point leaves of the sum is nothing.
        spread = np.where(all_of_them != 0, np.maximum(arrays[_VARIANCES][rows] + times * variance, 0.0), 0.0)
        arrays[_CHARGES][rows], arrays[_WHOLE][rows], arrays[_VARIANCES][rows] = mean, all_of_them, spread
        further = np.ceil(_DEVIATIONS * np.sqrt(spread)).astype(np.int64)
        arrays[_AT_MOST][rows] = np.minimum(all_of_them, mean + further)
        self._frozen.pop(_CHARGES, None)
        self._frozen.pop(_AT_MOST, None)

    def select(self, names: Sequence[str], now: float) -> tuple[Nodes, list[str]]:
        """Some nodes as they are, as arrays that no later change touches, and the names that are not known.

        As `freeze` and then `Snapshot.select`, but only the rows in question are copied: after every pod that is bound
        something has changed, and of 5,000 nodes kube-scheduler asks about 500.
        """
        return self._snapshot(self._arrays, self._names, self._index, now).select(names)

    def freeze(self, now: float) -> Snapshot:
        """The present state as a snapshot that no later change touches."""
        if self._frozen_names is None:
            self._frozen_names = tuple(self._names)
            self._frozen_index = dict(self._index)
        for key in self._arrays.keys() - self._frozen.keys() - _OWN:
            self._frozen[key] = self._arrays[key][: len(self._names)].copy()
            self._frozen[key].flags.writeable = False
        return self._snapshot(self._frozen, self._frozen_names, self._frozen_index, now)

    def _snapshot(
        self, arrays: Mapping[str, Table], names: Sequence[str], index: Mapping[str, int], now: float
    ) -> Snapshot:
        return Snapshot(
            names=names,
            tables=MappingProxyType({name: arrays[name] for name in self._tables}),
            charges=arrays[_CHARGES],
            at_most=arrays[_AT_MOST],
            resources=len(self._nothing),
            sums=arrays[_SUMS],
            accounts=self._accounts.slices,
            ids=arrays[_IDS],
            plugin_states=self._plugin_states,
            now=now,
            index=index,
        )

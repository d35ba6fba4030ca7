"""The mutable side of a snapshot: one row per node in every array, kept dense."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import is_not
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_plugins import steps
from scheduler_plugins.snapshot.accounts import Accounts
from scheduler_plugins.snapshot.arrays import (
    ONE_POD,
    BoolArray,
    Common,
    CommonColumns,
    FloatArray,
    IntArray,
    Nodes,
    Snapshot,
    Table,
    pods_of,
    rows_of,
)
from scheduler_plugins.snapshot.names import NamesOfRows, RequestedNames
from scheduler_plugins.snapshot.ordinary import Evaluated, OrdinaryPart
from scheduler_plugins.snapshot.plugin_state import PluginState
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.units import Vector
from scheduler_plugins.steps.formula import Part

_ABSENT: Final = object()  # in place of a value that was not written yet
_LARGEST_SUM: Final = 2**61  # two of them, and what pods in flight add, stay in 64 bits

_Columns = dict[str, NDArray[Any]]


class Rows:
    """Columns that grow and shrink by whole nodes, and freeze by copying only what changed."""

    def __init__(
        self,
        resources: int,
        dtypes: Mapping[str, np.dtype[Any]],
        accounts: Accounts,
        plugin_states: Mapping[str, PluginState],
    ) -> None:
        self._plugin_states = plugin_states
        self._accounts = accounts
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._nothing: Vector = (0,) * resources
        self._columns_in_common = CommonColumns(resources, accounts.width)
        self._common: IntArray = np.zeros((64, self._columns_in_common.width), np.int64)
        self._variance: FloatArray = np.zeros((64, self._columns_in_common.amounts))
        self._charged: dict[str, _Charged] = {}  # the charges of pods in flight by uid
        self._members = 0  # changes with every node that comes or goes
        self._columns: dict[str, _Columns] = {table: _columns(dtype) for table, dtype in dtypes.items()}
        self._by_node: dict[str, list[NDArray[Any]]] = {}  # the same with the nodes first
        self._records: dict[str, dict[str, Sequence[Any]]] = {table: {} for table in dtypes}  # as written last, by node
        self._frozen: dict[str, _Columns] = {}
        self._frozen_common: Common | None = None
        self._frozen_names: tuple[str, ...] | None = None
        self._frozen_index: Mapping[str, int] = {}
        self._by_name: steps.NodeIndex | None = None  # made at the first request after a node has come or gone
        self._evaluator: steps.Evaluator | None = None  # the same
        self._evaluated: Sequence[OrdinaryPart] = ()  # the plugins of its formulas

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
        for columns in self._columns.values():
            for field, column in columns.items():
                if row >= column.shape[-1]:
                    columns[field] = np.zeros((*column.shape[:-1], max(64, 2 * row)), column.dtype)
                    columns[field][..., :row] = column
                columns[field][..., row] = np.zeros((), column.dtype)
        self._by_node = {table: [column.T for column in columns.values()] for table, columns in self._columns.items()}
        if row >= len(self._common):
            self._common = np.concatenate((self._common, np.zeros_like(self._common)))
            self._variance = np.concatenate((self._variance, np.zeros_like(self._variance)))
        self._common[row] = 0
        self._variance[row] = 0.0
        self._common[row, 0] = number
        self._members_changed()

    def remove(self, name: str) -> None:
        """Drop a node's row; the last one takes its place."""
        row, last = self._index.pop(name), self._names[-1]
        self._names = self._names[:-1]  # a new list: what names rows of the former one does not name them here
        for records in self._records.values():
            records.pop(name, None)
        if last != name:
            for columns in self._columns.values():
                for column in columns.values():
                    column[..., row] = column[..., len(self._names)]
            self._common[row] = self._common[len(self._names)]
            self._variance[row] = self._variance[len(self._names)]
            self._names[row] = last
            self._index[last] = row
        self._members_changed()

    def _members_changed(self) -> None:
        self._frozen_names = None
        self._frozen.clear()
        self._frozen_common = None
        self._by_name = self._evaluator = None
        self._members += 1

    def write(self, table: str, name: str, record: Sequence[Any]) -> None:
        """Write a node's record over its former one. Values that are the same objects are there already."""
        columns, records, row = self._by_node[table], self._records[table], self._index[name]
        if records.get(name) is record:
            return
        former = records.pop(name, (_ABSENT,) * len(columns))  # a record that fails may be written in part
        if len(record) != len(columns):
            raise ValueError(f"the record has {len(record)} values for {len(columns)} fields")
        for column, value in compress(zip(columns, record, strict=True), map(is_not, record, former)):
            column[row] = value
        records[name] = record
        self._frozen.pop(table, None)

    def write_sums(self, name: str, sums: Vector) -> None:
        """Write a node's sums over its bound pods; thousands of them, of the largest amounts, are beyond 64 bits."""
        large = sums and (max(sums) > _LARGEST_SUM or min(sums) < -_LARGEST_SUM)
        amounts = [max(-_LARGEST_SUM, min(amount, _LARGEST_SUM)) for amount in sums] if large else sums
        self._common[self._index[name], self._columns_in_common.sums] = amounts
        self._frozen_common = None

    def charge(self, names: Sequence[str], pod: PodRequest) -> None:
        """Add a pod in flight to some nodes, of which it will be bound to one."""
        amounts = (*pod.estimate, *(pod.estimate if pod.prod else self._nothing), *self._accounts.flat(pod.amounts))
        parts = _parts(amounts, len(names), self._columns_in_common)
        rows, present, members = self._located(names)
        charged = self._charged[pod.uid] = _Charged(names, *parts, rows, present, members)
        self._change(charged, 1)

    def discharge(self, uid: str) -> None:
        """Take a charged pod off its nodes."""
        charged = self._charged.pop(uid)
        if charged.members != self._members:
            rows, present, members = self._located(charged.names)
            charged = charged._replace(rows=rows, present=present, members=members)
        self._change(charged, -1)

    def _located(self, names: Sequence[str]) -> tuple[NDArray[np.intp], BoolArray | None, int]:
        """The last fields of `_Charged` for some nodes."""
        known, unknown = self.find(names)
        present = np.array([name in self._index for name in names]) if unknown else None
        return known.rows, present, self._members

    def _change(self, charged: "_Charged", sign: int) -> None:
        """Add a charge to its nodes (1), or subtract it (-1)."""
        parts, variance, present = charged.parts, charged.variance, charged.present
        if present is not None:
            parts, variance = parts[present], variance[present]
        steps.change_rows(self._common, self._variance, charged.rows, parts, variance, sign)
        self._frozen_common = None

    def find(self, names: Sequence[str]) -> tuple[NamesOfRows, list[str]]:
        """The known ones of some names, and the others. Valid until a node comes or goes."""
        if isinstance(names, NamesOfRows) and names.names is self._names:
            return names, []
        rows: NDArray[np.intp] | None = None
        if isinstance(names, RequestedNames):
            if self._by_name is None:
                self._by_name = steps.NodeIndex(self._names)
            rows = self._by_name.rows(names.text)
        unknown: list[str] = []
        if rows is None:
            rows, unknown = rows_of(names, self._index)
        return NamesOfRows(self._names, rows), unknown

    def view(self, names: NamesOfRows, now: float) -> Nodes:
        """Nodes that were found, as they are. Valid until the next change.

        As `freeze` and then `Snapshot.select`, but only the rows in question are copied: after every pod that is bound
        something has changed, and of 5,000 nodes kube-scheduler requests about 500.
        """
        rows = names.rows
        return Nodes(
            names=names,
            tables={table: Table(columns, rows) for table, columns in self._columns.items()},
            common=Common(self._columns_in_common, self._common, self._variance).take(rows),
            accounts=self._accounts.slices,
            plugin_states=self._plugin_states,
            now=now,
        )

    def evaluate(
        self, names: NamesOfRows, parts: Sequence[OrdinaryPart], amounts: Sequence[Vector | None], now: float
    ) -> Evaluated | None:
        """Nodes that were found, by the formulas of plugins; None: one is not ordinary, or none passes.

        Args:
            names: the nodes.
            parts: the plugins.
            amounts: those of the pod for each plugin, as `Cycle.prepare` returns them.
            now: the present time. [unix s]
        """
        if self._evaluator is None or self._evaluated is not parts:
            self._evaluator, self._evaluated = self._new_evaluator(parts), parts
        result = self._evaluator.evaluate(names.rows, amounts, now)
        if result is None:
            return None
        rows, ids, scores, pods = result
        return Evaluated(NamesOfRows(names.names, rows), ids, scores, pods_of(pods))

    def _new_evaluator(self, parts: Sequence[OrdinaryPart]) -> steps.Evaluator:
        common, of_columns = self._columns_in_common, []
        for name, _, weight, formula in parts:
            first = common.mean.start
            if formula.first is not None:
                first += 2 * common.resources + self._accounts.slices[name].start + formula.first
            of_columns.append(Part(formula, self._columns.get(name, {}), first, weight))
        return steps.Evaluator(self._common, of_columns, common.amounts, common.pods)

    def freeze(self, now: float) -> Snapshot:
        """The present state as a snapshot that no later change touches."""
        if self._frozen_names is None:
            self._frozen_names = tuple(self._names)
            self._frozen_index = dict(self._index)
        for table in self._columns.keys() - self._frozen.keys():
            columns = self._columns[table].items()
            self._frozen[table] = {field: column[..., : len(self._names)].copy("K") for field, column in columns}
            for column in self._frozen[table].values():
                column.flags.writeable = False
        if self._frozen_common is None:
            common, variance = self._common[: len(self._names)].copy(), self._variance[: len(self._names)].copy()
            common.flags.writeable = variance.flags.writeable = False
            self._frozen_common = Common(self._columns_in_common, common, variance)
        return Snapshot(
            names=self._frozen_names,
            tables={table: Table(columns) for table, columns in self._frozen.items()},
            common=self._frozen_common,
            accounts=self._accounts.slices,
            plugin_states=self._plugin_states,
            now=now,
            index=self._frozen_index,
        )


def _columns(dtype: np.dtype[Any]) -> _Columns:
    """Empty columns for the fields of a record; the last axis is that of the nodes."""
    fields = ((name, dtype[name]) for name in dtype.names or ())
    return {name: np.zeros((*reversed(field.shape), 0), field.base) for name, field in fields}


class _Charged(NamedTuple):
    """The charge of a pod in flight."""

    names: Sequence[str]  # its k nodes
    parts: IntArray  # the numbers of each of them, shape (k, width of the common columns)
    variance: FloatArray  # of the mean, shape (k, 2 R + W)
    rows: NDArray[np.intp]  # the rows of the present nodes
    present: BoolArray | None  # which nodes these are, shape (k,); None: all
    members: int  # the version of the nodes for which these hold


@lru_cache(maxsize=64)  # pods of a workload are charged alike
def _parts(amounts: Vector, count: int, columns: CommonColumns) -> tuple[IntArray, FloatArray]:
    """Return the numbers of k nodes for a pod that may land on any of them, and the variance of the mean.

    Of the mean a k-th: a/k in whole numbers; the rest goes to the first nodes. Its variance is a^2 (1/k) (1 - 1/k).
    """
    whole = np.array((*amounts, ONE_POD), np.int64)
    share = whole // count
    shares = share + (np.arange(count)[:, None] < whole - share * count)
    parts = np.zeros((count, columns.width), np.int64)
    parts[:, columns.mean], parts[:, columns.pods] = shares[:, :-1], shares[:, -1]
    parts[:, columns.whole] = whole[:-1]
    variance = np.square(whole[:-1].astype(np.float64)) * ((count - 1) / count**2)
    return parts, np.tile(variance, (count, 1))

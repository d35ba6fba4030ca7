"""Nodes as arrays: what filters and scores see. A change makes a new snapshot."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scheduler_plugins.snapshot.ledger import NodeLedger
from scheduler_plugins.snapshot.names import NamesOfRows
from scheduler_plugins.snapshot.plugin_state import PluginState
from scheduler_plugins.snapshot.units import Vector

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
_Made = TypeVar("_Made")

ONE_POD: Final = 2**32  # a pod in `CommonColumns.pods`, of which each node has a whole part
_DEVIATIONS: Final = 4.0  # how many standard deviations more than their mean pods in flight may be on a node


@lru_cache(maxsize=1024)
def as_array(vector: Vector) -> IntArray:
    """A vector of a pod as an array, one for all pods with the same numbers; read-only."""
    array = np.array(vector, np.int64)
    array.flags.writeable = False
    return array


@dataclass(slots=True, eq=False)  # one that is frozen takes five times as long to make
class NodeState:
    """The inputs of a node's record."""

    name: str  # name of the Node
    annotations: Mapping[str, str]  # its annotations
    allocatable: Mapping[str, int]
    """Allocatable, raw-allocatable annotation included. [milli-cores for cpu, else base units]"""
    own_allocatable: Mapping[str, int]
    """Allocatable by the node's status alone. [milli-cores for cpu, else base units]"""
    ledger: NodeLedger  # its measured and expected load. To be read only.
    sums: Mapping[str, Vector]
    """Sums over the pods that are bound to it, by the name of their plugin (see `accounts`)."""
    readings: Mapping[str, Any]
    """The last readings of the plugins' own sources for the node, by plugin name; absent: none so far."""
    lasting: dict[str, Any] = field(default_factory=dict)
    """The results of `once`, by plugin name; emptied when anything but the node's pods changes."""

    def once(self, plugin: str, make: Callable[["NodeState"], _Made]) -> _Made:
        """Return the result of a function of all but the node's pods, which is called again after a change of that."""
        made: _Made | None = self.lasting.get(plugin)
        if made is None:
            made = self.lasting[plugin] = make(self)
        return made


@runtime_checkable
class NodeTable(Protocol):
    """A plugin with numbers of every node that are kept ready between pods."""

    def dtype(self) -> np.dtype[Any]:
        """The fields of a node's record."""

    def record(self, node: NodeState) -> tuple[Any, ...]:
        """A node's record, in the order of the fields. Called once per node and change.

        The same object as before is not written again.
        """


@runtime_checkable
class AnnotationReader(Protocol):
    """A plugin that reads annotations of nodes."""

    def annotation_problems(self, annotations: Mapping[str, str]) -> Sequence[str]:
        """Return the annotations that are not usable, a sentence each. Called once per node and change."""


class Table:
    """The records of some nodes: one array per field, by its name. Row i of each is the value of node i.

    An array is made at its first use, so that a decision copies only the fields that it reads.
    """

    __slots__ = ("_columns", "_least", "_made", "_rows")

    def __init__(self, columns: Mapping[str, NDArray[Any]], rows: NDArray[np.intp] | None = None) -> None:
        self._columns = columns  # by the name of a field; the last axis is that of the nodes
        self._rows = rows  # which of them these nodes are; None: all
        self._made: dict[str, NDArray[Any]] = {}
        self._least: dict[str, float] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = self._made.get(name)
        if array is None:
            column = self._columns[name]
            array = column.T if self._rows is None else column.take(self._rows, -1).T
            self._made[name] = array
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def record(self, row: int) -> Mapping[str, Any]:
        """Return the record of one node, by field."""
        return {name: self[name][row] for name in self}

    def least(self, name: str) -> float:
        """Return the least number of a field of doubles, inf without nodes."""
        least = self._least.get(name)
        if least is None:
            least = self._least[name] = float(np.minimum.reduce(self[name], initial=np.inf))
        return least

    def take(self, rows: NDArray[np.intp]) -> "Table":
        """The records of these rows."""
        return Table(self._columns, rows if self._rows is None else self._rows.take(rows))

    def settle(self) -> None:
        """Copy all columns, so that no change of the cluster touches them."""
        self._columns, self._rows = {name: self[name].T for name in self}, None


class CommonColumns:
    """The columns of the numbers that are no plugin's.

    First the id by which `NodeGroups` knows the node, and `sums` over its bound pods. Of pods in flight: estimated
    usage, the Prod part of it, and the sums for plugins. First the `mean`: of a pod that may land on k nodes, each has
    a k-th; then the `whole` of each. `pods` is the expected number of pods in flight, `ONE_POD` for each.
    """

    def __init__(self, resources: int, sums: int) -> None:
        self.resources: Final = resources  # R: how many resources load is counted in
        self.amounts: Final = 2 * resources + sums  # how many amounts a pod in flight has
        self.sums: Final = slice(1, 1 + sums)
        self.mean: Final = slice(1 + sums, 1 + sums + self.amounts)
        self.whole: Final = slice(self.mean.stop, self.mean.stop + self.amounts)
        self.pods: Final = self.whole.stop
        self.width: Final = self.pods + 1  # how many there are


class Common:
    """The numbers of some nodes that are no plugin's: `rows` has them by `CommonColumns`, shape (N, its width).

    `variance` is that of the mean of pods in flight, shape (N, 2 R + W), or with `selected` its rows are these nodes.
    """

    __slots__ = ("_cautious", "_selected", "_variance", "columns", "rows")

    def __init__(
        self, columns: CommonColumns, rows: IntArray, variance: FloatArray, selected: NDArray[np.intp] | None = None
    ) -> None:
        self.columns = columns
        self.rows = rows
        self._variance, self._selected = variance, selected
        self._cautious: IntArray | None = None

    def take(self, rows: NDArray[np.intp]) -> "Common":
        """The numbers of the nodes of these rows, column by column in memory."""
        return Common(self.columns, np.asfortranarray(self.rows.take(rows, 0)), self.variance, rows)

    @property
    def variance(self) -> FloatArray:
        if self._selected is not None:
            self._variance, self._selected = self._variance.take(self._selected, 0), None
        return self._variance

    def settle(self) -> None:
        """Copy all numbers, so that no change of the cluster touches them."""
        _ = self.variance

    @property
    def mean(self) -> IntArray:
        return self.rows[:, self.columns.mean]

    @property
    def whole(self) -> IntArray:
        return self.rows[:, self.columns.whole]

    @property
    def cautious(self) -> IntArray:
        """As many pods in flight as may well land on each node, made at the first use; see `Nodes.cautious`."""
        if self._cautious is None:
            further = np.ceil(_DEVIATIONS * np.sqrt(np.maximum(self.variance, 0.0)))
            self._cautious = np.minimum(self.whole, self.mean + further.astype(np.int64))
        return self._cautious


@dataclass(slots=True, eq=False)  # as above
class Nodes:
    """Some nodes at one moment; row i of every array belongs to `names[i]`."""

    names: Sequence[str]  # their names
    tables: Mapping[str, Table]  # the plugins' records, by plugin name
    common: Common  # numbers that are no plugin's
    accounts: Mapping[str, slice]  # which columns of the sums belong to a plugin, by its name
    plugin_states: Mapping[str, PluginState]
    """The plugins' states of the whole cluster, by their names: the present ones, not copies."""
    now: float  # the time to evaluate ages by. [unix s]
    cautiously: bool = field(default=False, kw_only=True)  # whether pods in flight count as `cautious` counts them

    def __len__(self) -> int:
        return len(self.common.rows)

    @property
    def ids(self) -> IntArray:
        """By which `NodeGroups` knows the nodes, shape (N,)."""
        return self.common.rows[:, 0]

    @property
    def in_flight(self) -> IntArray:
        """Estimated usage of pods in flight, shape (N, R)."""
        return self._landed[:, : self.common.columns.resources]

    @property
    def in_flight_prod(self) -> IntArray:
        """The part of it that is Prod, shape (N, R)."""
        resources = self.common.columns.resources
        return self._landed[:, resources : 2 * resources]

    @property
    def in_flight_sums(self) -> IntArray:
        """The plugins' sums over these pods, shape (N, W)."""
        return self._landed[:, 2 * self.common.columns.resources :]

    @property
    def most_in_flight(self) -> IntArray:
        """At least `in_flight`, shape (N, R); ready at once, while the exact value is made at its first use."""
        landed = self.common.whole if self.cautiously else self.common.mean
        return landed[:, : self.common.columns.resources]

    @property
    def _landed(self) -> IntArray:
        """The counted amounts of the pods in flight, shape (N, 2 R + W)."""
        return self.common.cautious if self.cautiously else self.common.mean

    @property
    def pods_in_flight(self) -> int:
        """Return how many pods in flight are expected to land on these nodes together, rounded up. [pods]"""
        return pods_of(int(np.add.reduce(self.common.rows[:, self.common.columns.pods])))

    def cautious(self) -> "Nodes":
        """The same nodes as if as many pods in flight had landed on each as may well be.

        Which of its nodes a pod lands on is kube-scheduler's choice, so many may land on one: at most all, and hardly
        more than four standard deviations above the mean.
        """
        return Nodes(self.names, self.tables, self.common, self.accounts, self.plugin_states, self.now, cautiously=True)

    def take(self, rows: NDArray[np.intp]) -> "Nodes":
        """Only the nodes of these rows, in this order."""
        return Nodes(
            NamesOfRows(self.names, rows),
            {plugin: table.take(rows) for plugin, table in self.tables.items()},
            self.common.take(rows),
            self.accounts,
            self.plugin_states,
            self.now,
            cautiously=self.cautiously,
        )

    def settled(self) -> "Nodes":
        """These nodes, with all arrays made: no change of the cluster touches them."""
        self.names = list(self.names)
        for table in self.tables.values():
            table.settle()
        self.common.settle()
        return self

    def bound(self, plugin: str) -> IntArray:
        """A plugin's sums over the bound pods of each node, shape (N, its width)."""
        return self.common.rows[:, self.common.columns.sums][:, self.accounts[plugin]]

    def expected(self, plugin: str) -> IntArray:
        """A plugin's sums over the pods in flight of each node, shape (N, its width)."""
        return self.in_flight_sums[:, self.accounts[plugin]]


@dataclass(slots=True, eq=False)
class Snapshot(Nodes):
    """All nodes at one moment."""

    index: Mapping[str, int]  # row by name

    def select(self, names: Sequence[str]) -> tuple[Nodes, list[str]]:
        """The nodes of these names, in this order, and the names that are not known."""
        rows, unknown = rows_of(names, self.index)
        return self.take(rows), unknown


def pods_of(parts: int) -> int:
    """Return a sum of parts of pods, of which each has `ONE_POD`, rounded up. [pods]"""
    return math.ceil(parts / ONE_POD)


def rows_of(names: Sequence[str], index: Mapping[str, int]) -> tuple[NDArray[np.intp], list[str]]:
    """The rows of the nodes that are known, and the names that are not."""
    try:
        return np.fromiter(map(index.__getitem__, names), np.intp, len(names)), []
    except KeyError:
        present = [name for name in names if name in index]
        return rows_of(present, index)[0], [name for name in names if name not in index]

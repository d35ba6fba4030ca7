"""A pod's soft constraints, and the groups of nodes that kube-scheduler scores differently by them."""

import json
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headroom.cluster.node_selection import node_selector_term
from scheduler_plugins import steps

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

_SOFT: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_SOFT_TAINT: Final = "PreferNoSchedule"
_SOFT_EFFECTS: Final = frozenset({None, "", _SOFT_TAINT})
_EQUAL: Final = "Equal"
_REMEMBERED_BYTES: Final = 16 * 2**20  # the limit of cached preferences; the last one is always cached [bytes]
_UNKNOWN: Final = -1

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Preferences:
    """A pod's soft constraints beside resources and images. Plain values, so that equal ones are one key."""

    terms: tuple[tuple[int, str], ...] = ()  # weight and JSON of the preferred node selector terms
    topology_keys: tuple[str, ...] = ()  # topology labels of its soft constraints, without the hostname
    per_node: bool = False  # whether a soft constraint parts every node from every other, as by hostname
    tolerations: frozenset[tuple[str, str, str]] = frozenset()
    """Key, operator and value of the tolerations that may cover a taint of PreferNoSchedule; no key covers all keys."""

    @classmethod
    def of(cls, pod: Json) -> "Preferences":
        """Read a pod. Zones part nodes for each that has an owner: kube-scheduler spreads those pods by default."""
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        affinity = spec.get("affinity") or {}
        terms = (affinity.get("nodeAffinity") or {}).get(_SOFT) or ()
        pods = [
            term for kind in ("podAffinity", "podAntiAffinity") for term in (affinity.get(kind) or {}).get(_SOFT) or ()
        ]
        spread = [
            constraint
            for constraint in spec.get("topologySpreadConstraints") or ()
            if constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
        ]
        keys = {str(term.get("topologyKey")) for term in (*spread, *(pod.get("podAffinityTerm") or {} for pod in pods))}
        by_zone = {ZONE} if keys or terms or metadata.get("ownerReferences") else set()
        return cls(
            terms=tuple((int(term.get("weight") or 0), _text(term.get("preference") or {})) for term in terms),
            topology_keys=tuple(sorted((keys | by_zone) - {HOSTNAME})),
            per_node=HOSTNAME in keys,
            tolerations=frozenset(
                _toleration(toleration)
                for toleration in spec.get("tolerations") or ()
                if toleration.get("effect") in _SOFT_EFFECTS
            ),
        )

    def tolerate(self, taints: Iterable[tuple[str, str]]) -> bool:
        """Return whether the tolerations cover these soft taints, given by key and value. Four lookups a taint."""
        return all(
            not self.tolerations.isdisjoint((wanted, *rest) for wanted in (key, "") for rest in _covers(value))
            for key, value in taints
        )


def _toleration(toleration: Json) -> tuple[str, str, str]:
    operator = str(toleration.get("operator") or _EQUAL)
    return str(toleration.get("key") or ""), operator, str(toleration.get("value") or "") if operator == _EQUAL else ""


def _covers(value: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (_EQUAL, value), ("Exists", "")


NO_PREFERENCES: Final = Preferences()


class Groups(NamedTuple):
    """Some nodes as a pod's preferences see them."""

    numbers: NDArray[np.int32]  # nodes of one number are alike for the pod's soft constraints, shape (N,)
    weights: NDArray[np.int32]  # sum of the weights of the preferred terms that a node matches, shape (N,)
    avoided: NDArray[np.bool_]  # whether it has a taint of PreferNoSchedule that the pod does not tolerate, shape (N,)
    even: bool = False  # whether no node has a weight or is avoided

    def likely(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that kube-scheduler prefers: without soft taints, if any, and of the largest weight."""
        if self.even:
            return rows
        remaining = rows[~self.avoided[rows]]
        result = remaining if len(remaining) else rows
        weights = self.weights[result]
        preferred: NDArray[np.int64] = result[weights == weights.max(initial=0)]
        return preferred


@lru_cache(maxsize=64)
def _uniform(count: int) -> Groups:
    """Return the groups of so many nodes that are alike for a pod."""
    zeros = np.zeros(count, np.int32)
    return Groups(zeros, zeros, np.zeros(count, np.bool_), even=True)


class _Node(NamedTuple):
    name: str
    labels: Mapping[str, str]
    soft_taints: tuple[tuple[str, str], ...]  # key and value, sorted: nodes of one pool share them


class _Table:
    """The nodes as one kind of preferences distinguishes them, by the nodes' ids; each is read at its first use."""

    def __init__(self, preferences: Preferences) -> None:
        self._tolerate = cache(preferences.tolerate)  # once for each distinct set of taints
        self._keys = preferences.topology_keys
        self._size = 40 * len(_text([preferences.terms, preferences.topology_keys, *preferences.tolerations]))
        self._terms = [(weight, node_selector_term(json.loads(text))) for weight, text in preferences.terms]
        self._numbers: dict[Hashable, int] = {}
        self._rows = np.zeros((0, 3), np.int32)
        self._even = True  # whether no node that was read has had a weight or was avoided
        self.grown = True  # whether it takes more than when `bytes` was last read

    @property
    def bytes(self) -> int:
        """Return its largest size: JSON as objects takes up to 40 times its text."""
        self.grown = False
        return self._size + self._rows.nbytes + len(self._numbers) * (300 + 8 * (len(self._terms) + len(self._keys)))

    def forget(self, number: int) -> None:
        self._rows[number : number + 1] = _UNKNOWN

    def take(self, ids: NDArray[np.int64], nodes: Sequence[_Node]) -> Groups:
        if len(self._rows) < len(nodes):
            more = np.full((2 * len(nodes) - len(self._rows), 3), _UNKNOWN, np.int32)
            self._rows, self.grown = np.concatenate((self._rows, more)), True
        numbers = steps.groups_of(self._rows, ids)
        if numbers is None:
            for number in ids[self._rows[ids, 0] == _UNKNOWN].tolist():
                self._rows[number] = row = self._read(nodes[number])
                self._even = self._even and row[1:] == (0, False)
            self.grown = True
            numbers = self._rows[ids, 0]
        if self._even:
            uniform = _uniform(len(numbers))
            return uniform if len(self._numbers) == 1 else uniform._replace(numbers=numbers)
        rows = self._rows.take(ids, 0)
        uneven = np.logical_or.reduce(rows[:, 1:], axis=None)
        return Groups(numbers, rows[:, 1], rows[:, 2] != 0, even=not uneven)

    def _read(self, node: _Node) -> tuple[int, int, bool]:
        matched = tuple(test is not None and test(node) for _, test in self._terms)
        key = (matched, *(node.labels.get(key) for key in self._keys))
        return (
            self._numbers.setdefault(key, len(self._numbers)),
            sum(weight for (weight, _), result in zip(self._terms, matched, strict=True) if result),
            not self._tolerate(node.soft_taints),
        )


class NodeGroups:
    """The labels and soft taints of all nodes, and how pods' preferences of late have grouped them."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self._ids: dict[str, int] = {}
        self._free: list[int] = []
        self._tables: OrderedDict[Preferences, _Table] = OrderedDict()
        self._counted: dict[Preferences, int] = {}
        self._last: tuple[Preferences | None, _Table] = None, _Table(NO_PREFERENCES)  # the one that was used last

    def put(self, node: Json) -> int:
        """Note a Node; its id, which it keeps until it is deleted."""
        metadata, taints = node["metadata"], (node.get("spec") or {}).get("taints") or ()
        soft = [taint for taint in taints if taint.get("effect") == _SOFT_TAINT]
        kinds = sorted({(str(taint.get("key") or ""), str(taint.get("value") or "")) for taint in soft})
        noted = _Node(str(metadata["name"]), metadata.get("labels") or {}, tuple(kinds))
        number = self._ids.get(noted.name)
        if number is None:
            number = self._free.pop() if self._free else len(self._nodes)
            self._ids[noted.name] = number
            self._nodes[number : number + 1] = [noted]
        elif self._nodes[number] == noted:
            return number
        else:
            self._nodes[number] = noted
        for table in self._tables.values():
            table.forget(number)
        return number

    def delete(self, name: str) -> None:
        self._free.append(self._ids.pop(name))

    def of(self, preferences: Preferences, ids: NDArray[np.int64]) -> Groups:
        """The nodes of these ids, shape (N,), as the preferences see them."""
        last, table = self._last
        if preferences is not last:
            table = self._tables.get(preferences) or _Table(preferences)
            self._tables[preferences] = table
            self._tables.move_to_end(preferences)
            self._last = preferences, table
        groups = table.take(ids, self._nodes)
        if table.grown:
            self._counted[preferences] = table.bytes
            while len(self._tables) > 1 and sum(self._counted.values()) > _REMEMBERED_BYTES:
                del self._counted[self._tables.popitem(last=False)[0]]
        return groups


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(value, sort_keys=True)

"""Ordinary nodes and pods: a compiled step evaluates formulas of all plugins in one pass over the nodes of a request.

A plugin's own filter and score decide about the others, and in a profile with a plugin that has no formula.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from scheduler_plugins.snapshot.arrays import FloatArray, IntArray, Nodes
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.units import Vector
from scheduler_plugins.steps.formula import Formula

Prepared: TypeAlias = Vector | Literal[False] | None
"""The A amounts of a pod; None: it passes without the formula, with score 0 on each node; False: it is not ordinary, or
the plugin refuses it."""


@runtime_checkable
class OrdinaryPlugin(Protocol):
    """A plugin with a formula for ordinary nodes and pods: it returns what its filter and score do."""

    def formula(self) -> Formula | None:
        """The formula; None: its arguments allow none. Read once at start."""

    def prepare(self, pod: PodRequest, nodes: Nodes) -> Prepared:
        """The pod's amounts for the formula. `nodes` has the states of the plugins, and no nodes."""


class OrdinaryPart(NamedTuple):
    """A plugin of the profile with its formula."""

    name: str  # its registered name
    plugin: OrdinaryPlugin  # the plugin
    weight: float  # of its score
    formula: Formula  # its formula


class Evaluated(NamedTuple):
    """The N nodes that pass, with their scores."""

    names: Sequence[str]  # their names
    ids: IntArray  # by which `NodeGroups` knows them, shape (N,)
    scores: FloatArray  # the weighted means of their scores, shape (N,)
    pods_in_flight: int  # how many are expected to land on them. [pods]

"""The extension points: a frozen dataclass with its arguments as fields is called at the points that it implements.

At the extension points, in this order: `PreFilterPlugin`, `FilterPlugin`, `ScorePlugin`, `ReservePlugin`;
`PostFilterPlugin` when no node is left. Beside them: `NodeTable` and `PodAccount` have numbers kept ready per node,
`StatefulPlugin` keeps state of the cluster, `PodFacts` reads more of a pod than numbers, `LoadAccounting` counts load,
`Configurable` checks arguments, `ExplainingPlugin` reports its numbers, `OrdinaryPlugin` has formulas,
`RecognisingPlugin` finds its own reasons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, runtime_checkable

from scheduler_plugins.framework.verdict import Refusal, Verdict
from scheduler_plugins.providers.spec import ProviderSpec
from scheduler_plugins.snapshot.accounts import PodAccount, PodFacts
from scheduler_plugins.snapshot.arrays import FloatArray, IntArray, Nodes, NodeTable
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.in_flight import Reserving as ReservePlugin
from scheduler_plugins.snapshot.ordinary import OrdinaryPlugin
from scheduler_plugins.snapshot.plugin_state import PluginState, StatefulPlugin
from scheduler_plugins.snapshot.pod import PodRequest

__all__ = [
    "Configurable",
    "ExplainingPlugin",
    "FilterPlugin",
    "LoadAccounting",
    "NodeTable",
    "OrdinaryPlugin",
    "PluginState",
    "PodAccount",
    "PodFacts",
    "PostFilterPlugin",
    "PreFilterPlugin",
    "Problem",
    "ProblemKind",
    "RecognisingPlugin",
    "ReservePlugin",
    "ScorePlugin",
    "SourcedPlugin",
    "StatefulPlugin",
    "Victims",
]


class ProblemKind(StrEnum):
    """The kinds of wrong arguments, in Kubernetes' words."""

    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    NOT_FOUND = "FieldValueNotFound"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a plugin's arguments."""

    field: str  # its JSON name; parts of an object are joined by dots
    kind: ProblemKind  # the kind of fault
    message: str  # the fault, with the value and the allowed ones


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would have to go from a node."""

    uids: tuple[str, ...]  # their uids, the most important first
    budget_violations: int = 0  # how many of them a PodDisruptionBudget protects. [pods]


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Refuses a pod whatever the node."""

    def pre_filter(self, pod: PodRequest, nodes: Nodes) -> Refusal | None:
        """Return why no node may have the pod, or None. Called once per attempt, before any filter."""


@runtime_checkable
class FilterPlugin(Protocol):
    """Refuses nodes."""

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Evaluate the nodes for a pod, once per attempt to schedule it, with the nodes that fit otherwise."""


@runtime_checkable
class ScorePlugin(Protocol):
    """Ranks nodes."""

    def score(self, pod: PodRequest, nodes: Nodes) -> IntArray | FloatArray:
        """Scores from 0 (worst) to 100, shape (N,). Called with the nodes that no filter refused."""


@runtime_checkable
class PostFilterPlugin(Protocol):
    """The extension point of preemption: removes nodes or victims."""

    def post_filter(self, pod: PodRequest, nodes: Nodes, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The victims that may go, by node: those that kube-scheduler chose, fewer nodes, or others."""


@runtime_checkable
class SourcedPlugin(Protocol):
    """Works from the readings of a provider of its own: `NodeState.readings` has them by the plugin's name."""

    def provider(self) -> ProviderSpec | None:
        """Return which one; None: the snapshot has all it needs. Read once at start."""


@runtime_checkable
class ExplainingPlugin(Protocol):
    """Reports the numbers behind its verdicts and scores."""

    def explain(self, pod: PodRequest, nodes: Nodes) -> Sequence[Mapping[str, Any]]:
        """Return per node a JSON object of the numbers behind its verdict and its score.

        Keys carry units (`cpuMilli`, `memoryBytes`, `ageSeconds`, `usagePercent`) where the value has one. The key
        `binding`, where a filter refuses the node, is one sentence with the limit that binds and the numbers against
        it.
        """


@runtime_checkable
class RecognisingPlugin(Protocol):
    """Refuses pods for reasons that hold numbers, which are others each time."""

    def recognises(self, text: str) -> bool:
        """Return whether a text quotes one of its reasons, such as the message of an unschedulable pod."""


@runtime_checkable
class LoadAccounting(Protocol):
    """Says how load is counted. At most one plugin of a profile does."""

    def load_rules(self) -> LoadRules:
        """The rules; read once at start."""


@runtime_checkable
class Configurable(Protocol):
    """Has arguments with defaults that depend on one another, or with rules of their own."""

    def defaulted(self) -> Self:
        """A copy in which every argument that was not given has its default."""

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the arguments, in order. Called at start, after `defaulted`."""

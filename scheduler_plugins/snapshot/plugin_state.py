"""What a plugin keeps of the whole cluster beside what all plugins see: quotas and what is charged to them."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, runtime_checkable

from scheduler_plugins.snapshot.source import Source

Json = Mapping[str, Any]


@runtime_checkable
class PluginState(Protocol):
    """Fed by the watches; `Nodes.kept` has it by the plugin's name."""

    @property
    def version(self) -> int:
        """Changes with everything here that may change a verdict on any node: who could not be helped may be now."""
        ...

    def sources(self) -> Sequence[Source]:
        """Further kinds of objects to watch. Asked once at start."""
        ...

    def put_node(self, node: Json) -> None:
        """A Node is there, or has changed."""
        ...

    def delete_node(self, name: str) -> None:
        """A Node is gone."""
        ...

    def absent_nodes(self, names: AbstractSet[str]) -> Iterable[str]:
        """There are these Nodes and no others: which of those that are known are gone. `delete_node` follows."""
        ...

    def put_pod(self, pod: Json) -> None:
        """A pod is there, or has changed."""
        ...

    def delete_pod(self, uid: str) -> None:
        """A pod is gone."""
        ...

    def absent_pods(self, uids: AbstractSet[str]) -> Iterable[str]:
        """There are these pods and no others: which of those that are known are gone. `delete_pod` follows.

        Pods that were answered for and not seen are not among them: they may be newer than a list.
        """
        ...


@runtime_checkable
class DescribablePlugin(Protocol):
    """What is kept, where it can tell of itself."""

    def describe(self, now: float) -> Json:
        """All of it that people may want to see, as JSON."""
        ...


class Relieved(Protocol):
    """Pods that leave a node for one pod."""

    @property
    def node(self) -> str:
        """The node."""
        ...

    @property
    def victims(self) -> Sequence[str]:
        """Uids of the pods."""
        ...

    @property
    def relief(self) -> Mapping[str, int]:
        """What was measured of them on the node, by resource. [milli-cores for cpu, else base units]"""
        ...


@runtime_checkable
class RelievablePlugin(Protocol):
    """What is kept, where it knows who leaves a node for whom: what they used may be measured there for minutes yet."""

    def relieved(self, uid: str, now: float) -> Relieved | None:
        """Who leaves a node for a pod; None: nobody."""
        ...


@runtime_checkable
class StatefulPlugin(Protocol):
    """A plugin that keeps something."""

    def keep(self) -> PluginState:
        """A new, empty one. Asked once at start."""
        ...


@runtime_checkable
class PodFacts(Protocol):
    """A plugin that wants to know more of a pending pod than numbers."""

    def facts(self, pod: Json) -> Hashable:
        """What it wants to know, from Kubernetes JSON; `PodRequest.facts` has it by the plugin's name.

        Raises:
            ValueError: the pod cannot be understood.
        """
        ...

    def alike(self, facts: Any) -> Hashable:  # noqa: ANN401 - what `facts` made
        """The part of it that is the same for pods that are judged alike."""
        ...

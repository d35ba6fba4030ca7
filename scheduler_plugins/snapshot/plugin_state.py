"""A plugin's state of the whole cluster beside the common snapshot: quotas and their charges."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.source import Source

Json = Mapping[str, Any]


@runtime_checkable
class PluginState(Protocol):
    """Fed by the watches; `Nodes.plugin_states` has it by the plugin's name."""

    @property
    def version(self) -> int:
        """Changes with each change here that may alter a verdict on any node: rejected pods may pass now."""

    def sources(self) -> Sequence[Source]:
        """Further kinds of objects to watch. Called once at start."""

    def put_node(self, node: Json) -> None:
        """A Node is there, or has changed."""

    def delete_node(self, name: str) -> None:
        """A Node is gone."""

    def pod_changed(self, pod: PodRequest) -> None:
        """A pod was added or has changed; `pod.facts` has the plugin's facts of it."""

    def delete_pod(self, uid: str) -> None:
        """A pod is gone."""


class Relieved(Protocol):
    """Pods that leave a node for one pod."""

    @property
    def node(self) -> str:
        """The node."""

    @property
    def victims(self) -> Sequence[str]:
        """Uids of the pods."""

    @property
    def relief(self) -> Mapping[str, int]:
        """Their measured usage on the node, by resource. [milli-cores for cpu, else base units]"""


@runtime_checkable
class RelievablePlugin(Protocol):
    """A state that knows the victims of a pod: their usage may be measured on the node for minutes."""

    def relieved(self, uid: str, now: float) -> Relieved | None:
        """Return the victims of a pod; None: it has none."""


@runtime_checkable
class StatefulPlugin(Protocol):
    """A plugin that keeps something."""

    def new_state(self) -> PluginState:
        """A new, empty one. Called once at start."""

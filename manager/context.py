"""The state that the parts of a running manager share."""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from headroom.cluster.shape import check_node, check_node_metric
from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaderElector
from headroom.kube.unreadable_objects import Unreadable
from manager.cluster import ClusterState
from manager.config.in_force import InForce
from manager.health import Progress
from manager.metrics import ManagerMetrics
from manager.mid import publish
from manager.reconcile.queue import NodeQueue
from manager.settings import Settings

if TYPE_CHECKING:
    from manager.webhook.service import Webhook  # imported only where there is one: it costs memory

_State = TypeVar("_State")


class _States(dict[type, Any]):
    """An object of each class, made at first use."""

    def __missing__(self, kind: type) -> Any:  # noqa: ANN401 - an object of that class
        self[kind] = made = kind()
        return made


@dataclass(slots=True)
class NodeState:
    """The state of one node between reconciliations."""

    publish_state: publish.PublishState = field(default_factory=publish.PublishState)
    refused_correction: str = ""  # a correction of the NodeMetric that had no effect; it is not repeated
    failures: int = 0
    term: str = ""  # the term as leader that this state belongs to, see `LeaderElector.term`
    resync_at: float = 0.0  # when the node is reconciled again, changed or not [s]
    _states: _States = field(default_factory=_States)

    def state_of(self, kind: type[_State]) -> _State:
        """A step's state of the node: one object of its class, made at first use."""
        result: _State = self._states[kind]
        return result


@dataclass(slots=True)
class Context:
    """Everything that lives as long as the process."""

    settings: Settings
    metrics: ManagerMetrics
    cluster: ClusterState = field(default_factory=ClusterState)
    in_force: InForce = field(default_factory=InForce)
    webhook: "Webhook | None" = None  # the admission webhook, where there is one
    node_states: defaultdict[str, NodeState] = field(default_factory=lambda: defaultdict(NodeState))
    progress: Progress = field(default_factory=Progress)  # progress of the manager, for the health pages
    unreadable_nodes: Unreadable = field(default_factory=lambda: Unreadable("Node", check_node))
    unreadable_node_metrics: Unreadable = field(default_factory=lambda: Unreadable("NodeMetric", check_node_metric))
    failure_logged_at: dict[str, float] = field(default_factory=dict)  # kind of failure -> when it was last logged [s]
    wall: Callable[[], float] = time.time
    """The time by which objects are stamped: from a run's first answer on the API server's. [unix s]"""
    steady: Callable[[], float] = time.monotonic  # a clock that never jumps [s]
    _states: _States = field(default_factory=_States)

    def state_of(self, kind: type[_State]) -> _State:
        """A step's state of the whole cluster: one object of its class, made at first use."""
        result: _State = self._states[kind]
        return result

    def node_state(self, name: str) -> NodeState:
        return self.node_states[name]


@dataclass(slots=True)
class Run:
    """A run against the API server; after a failure another one begins with the same `Context`."""

    context: Context
    api: ApiServer
    queue: NodeQueue
    leader: LeaderElector
    events: EventRecorder

    async def record(self, node: str, type_: str, reason: str, action: str, note: str) -> None:
        """Record an event about a Node; see `EventRecorder.record`."""
        await self.events.record(self.context.cluster.reference(node), type_, reason, action, note)

    def cache_response(self, name: str, answer: dict[str, Any]) -> None:
        """Cache the response to a write to a NodeMetric, unless its deletion was observed before."""
        cluster = self.context.cluster
        if name in cluster.node_metrics and cluster.put_written_node_metric(answer, self.context.steady()):
            self.queue.add(name)

    def requeue_all(self) -> None:
        cluster = self.context.cluster
        self.queue.add_all(cluster.nodes.keys() | cluster.node_metrics.keys())

"""What the parts of a running manager share."""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from headroom.cluster.shape import check_node, check_node_metric
from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.kube.unreadable_objects import Unreadable
from manager.cluster import ClusterState
from manager.config.in_force import InForce
from manager.health import Progress
from manager.leader import LeaderElector
from manager.metrics import ManagerMetrics
from manager.mid import publish
from manager.reconcile.queue import NodeQueue
from manager.settings import Settings

if TYPE_CHECKING:
    from manager.webhook.service import Webhook  # costs memory, which only those spend who have one

_State = TypeVar("_State")


class _States(dict[type, Any]):
    """One object of each class, made when first asked for."""

    def __missing__(self, kind: type) -> Any:  # noqa: ANN401 - an object of that class
        self[kind] = made = kind()
        return made


@dataclass(slots=True)
class NodeState:
    """What is remembered of one node from one look to the next."""

    publish_state: publish.PublishState = field(default_factory=publish.PublishState)
    """What the write decision needs."""
    refused_correction: str = ""
    """A correction of the NodeMetric that the API server swallowed; it is not repeated."""
    failures: int = 0
    """Failed writes in a row."""
    term: str = ""
    """Of which term as a leader this is remembered, see `LeaderElector.term`."""
    resync_at: float = 0.0
    """When it is looked at again whether anything changed or not. [s]"""
    _states: _States = field(default_factory=_States)

    def state_of(self, kind: type[_State]) -> _State:
        """What a reaction remembers: one object of its own class, made when first asked for."""
        found: _State = self._states[kind]
        return found


@dataclass(slots=True)
class Context:
    """Everything that lives as long as the process, and the session of the current run."""

    settings: Settings
    """Settings."""
    metrics: ManagerMetrics
    """Metrics."""
    cluster: ClusterState = field(default_factory=ClusterState)
    """What is known of the cluster."""
    in_force: InForce = field(default_factory=InForce)
    """The configuration in force."""
    webhook: "Webhook | None" = None
    """The admission webhook, where there is one."""
    node_states: defaultdict[str, NodeState] = field(default_factory=lambda: defaultdict(NodeState))
    """Node name -> what is remembered of it."""
    progress: Progress = field(default_factory=Progress)
    """How far the manager has come, for the health pages."""
    unreadable_nodes: Unreadable = field(default_factory=lambda: Unreadable("Node", check_node))
    """Nodes that could not be understood."""
    unreadable_node_metrics: Unreadable = field(default_factory=lambda: Unreadable("NodeMetric", check_node_metric))
    """The same for NodeMetrics."""
    failure_logged_at: dict[str, float] = field(default_factory=dict)
    """Kind of trouble -> when a line about it was last logged. [s]"""
    wall: Callable[[], float] = time.time
    """The time by which objects are stamped: from a run's first answer on the API server's. [unix s]"""
    steady: Callable[[], float] = time.monotonic
    """A clock that never jumps. [s]"""
    _states: _States = field(default_factory=_States)

    def state_of(self, kind: type[_State]) -> _State:
        """What a reaction remembers of the whole cluster: one object of its own class, made when first asked for."""
        found: _State = self._states[kind]
        return found

    def node_state(self, name: str) -> NodeState:
        """What is remembered of a node."""
        return self.node_states[name]


@dataclass(slots=True)
class Run:
    """One run against the API server; when it breaks off, another one begins with the same `Context`."""

    context: Context
    """What outlives the run."""
    api: ApiServer
    """The session."""
    queue: NodeQueue
    """Nodes to look at."""
    leader: LeaderElector
    """Whether this replica writes."""
    events: EventRecorder
    """Events."""

    def requeue_all(self) -> None:
        """Look at every node again, and at NodeMetrics that have none."""
        cluster = self.context.cluster
        self.queue.add_all(cluster.nodes.keys() | cluster.node_metrics.keys())

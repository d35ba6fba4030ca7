"""A manager in memory: an API server, clocks that tests move, and one node."""

from collections.abc import Iterable
from typing import cast

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaderElector, LeaderSettings
from manager.cluster import ClusterState
from manager.config.in_force import InForce, after_change
from manager.context import Context, Run
from manager.handlers import node_metric, nodes
from manager.inputs import PodInputs
from manager.metrics import ManagerMetrics
from manager.reconcile.node import reconcile
from manager.reconcile.queue import NodeQueue
from manager.settings import Settings
from tests.support.api import FakeApi
from tests.support.objects import LEASE, NOW, Json

METRIC = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1"
NODE = "/api/v1/nodes/n1"
ENABLED = '{"enable": true, "midIncreaseHoldSeconds": 0}'


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class InMemory:
    """A manager with an API server in memory and clocks that tests move; all pods are known, and there are none."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.wall, self.steady = Clock(), Clock()
        self.wall.now = NOW
        context = Context(Settings(), ManagerMetrics(), wall=self.wall, steady=self.steady)
        api = cast("ApiServer", self.api)
        events = EventRecorder(api, "headroom-manager", clock=self.wall)
        self.run = Run(context, api, NodeQueue(0.0, self.steady), self._leader(leads=True), events)
        put_pods(context.cluster, [])

    def _leader(self, *, leads: bool) -> LeaderElector:
        settings = LeaderSettings(enabled=not leads)
        return LeaderElector(cast("ApiServer", self.api), LEASE, "a", settings, self.steady, lambda: None)

    def lead(self, *, leads: bool) -> None:
        self.run.leader = self._leader(leads=leads)

    def later(self, seconds: float) -> None:
        self.wall.now += seconds
        self.steady.now += seconds


class World(InMemory):
    """The same with node n1, which is enabled."""

    def __init__(self) -> None:
        super().__init__()
        self.configure(ENABLED)

    def configure(self, text: str) -> None:
        self.run.context.in_force = after_change(InForce(), text, present=True)

    def has_node(self, the_node: Json) -> None:
        nodes.observe(self.run, "ADDED", self.api.put(NODE, the_node))

    def reports(self, metric: Json) -> None:
        stored = self.api.objects.get(METRIC, metric)
        node_metric.observe(self.run, "MODIFIED", self.api.put(METRIC, {**stored, "status": metric["status"]}))

    async def reconcile(self) -> None:
        await reconcile(self.run, "n1")

    def published(self) -> Json:
        capacity = self.api.objects[NODE]["status"]["capacity"]
        assert (
            self.api.objects[NODE]["status"]["allocatable"].items()
            >= {name: amount for name, amount in capacity.items() if "mid" in name}.items()
        )
        return {name.rpartition("-")[2]: amount for name, amount in capacity.items() if "mid" in name}

    def events_recorded(self) -> list[str]:
        return [body["reason"] for body in self.api.written("POST", "/events")]

    def due_in(self) -> float | None:
        planned: dict[str, float] = self.run.queue._later
        return planned["n1"] - self.steady.now if "n1" in planned else None


def put_pods(cluster: ClusterState, pods: Iterable[PodInputs]) -> set[str]:
    """Have a cluster know these pods and no others; the nodes on which something changed."""
    result = list(pods)
    touched = {node for pod in result for node in cluster.put_pod(pod)}
    gone = cluster.pod_uids() - {pod.uid for pod in result}
    cluster.pods_synced = True
    return touched | {node for uid in gone for node in cluster.drop_pod(uid)}

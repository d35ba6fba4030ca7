"""One node with Mid pods, an API server in memory that evicts, and clocks that tests move."""

import json
from collections.abc import Callable
from typing import Any, cast

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaderElector, LeaderSettings
from manager.calculators.mid import calculate
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config
from manager.context import Context, Run
from manager.inputs import PodInputs, from_objects
from manager.metrics import ManagerMetrics
from manager.reconcile.queue import NodeQueue
from manager.reconcile.steps import ReconcileResult
from manager.reconcile.steps.eviction import ClusterEvictionState, MidEvictions
from manager.settings import Settings
from tests.headroom.kube.preconditions import check_options
from tests.manager.made import LEASE, NOW, FakeApi, Json, at, node, put_pods, report
from tests.manager.reconcile.test_queue import Clock

PODS = "/api/v1/namespaces/shop/pods"
AFTER_SECONDS = 300


class EvictingApi(FakeApi):
    """Takes evictions: the pod is on its way out, unless its name is among those that are refused."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, Exception] = {}
        self.once: dict[str, Exception] = {}
        """The same, for the first time alone."""

    async def create(self, path: str, body: Json, params: Any = None) -> Json:  # noqa: ANN401
        """Create an object, or evict a pod."""
        if not path.endswith("/eviction"):
            return await super().create(path, body, params)
        self._enter("POST", path, body)
        stored = self._stored(path.removesuffix("/eviction"))
        name = body["metadata"]["name"]
        if name in self.refused or name in self.once:
            raise self.once.pop(name, None) or self.refused[name]
        check_options(stored, body.get("deleteOptions"))
        stored["metadata"]["deletionTimestamp"] = at(0)
        return {}


class Stage:
    """A manager and node n1 of 16 cores and 64 GiB; by default 4 cores may be sold there.

    The manager leads for 1000 seconds.
    """

    def __init__(self, *pods: Json, cpu: str = "4", **eviction: Any) -> None:  # noqa: ANN401 - fields of midEviction
        self.api = EvictingApi()
        self.wall, self.steady = Clock(), Clock()
        self.wall.now, self.steady.now = NOW, 1000.0
        self.context = Context(Settings(), ManagerMetrics(), wall=self.wall, steady=self.steady)
        api = cast("ApiServer", self.api)
        self.leader = LeaderElector(api, LEASE, "a", LeaderSettings(enabled=False), self.steady, lambda: None)
        events = EventRecorder(api, "headroom-manager", clock=self.wall)
        self.run = Run(self.context, api, NodeQueue(0.0, self.steady), self.leader, events)
        put_pods(self.context.cluster, [])
        self.context.cluster.put_node(node())
        self.context.state_of(ClusterEvictionState).backoff.begin(0.0, NOW - 1000)
        self.cpu = cpu
        self.strategy: Json = {}
        self.eviction: Json = {"mode": "on", "maxPerNodePerMinute": 100, "maxPerMinute": 100, **eviction}
        for pod in pods:
            self.add(pod)

    def add(self, pod: Json) -> None:
        """A pod is there and seen."""
        stored = self.api.put(f"{PODS}/{pod['metadata']['name']}", pod)
        self.context.cluster.put_pod(PodInputs.from_object(stored))

    def see(self) -> None:
        """The watch tells what became of the pods."""
        for pod in self.api.objects.values():
            if pod.get("spec", {}).get("nodeName"):
                self.context.cluster.put_pod(PodInputs.from_object(pod))

    def leave(self, name: str) -> None:
        """A pod is gone."""
        pod = self.api.objects.pop(f"{PODS}/{name}")
        self.context.cluster.drop_pod(pod["metadata"]["uid"])

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.wall.now += seconds
        self.steady.now += seconds

    def report(self, metric: Json | None = None) -> None:
        """The agent reports now."""
        metric = metric or report(reclaimable=(self.cpu, "10Gi"), usage=("4", "24Gi"))
        metric["status"]["updateTime"] = at(self.wall.now - NOW)
        if "prediction" in metric["status"]:
            metric["status"]["prediction"]["time"] = at(self.wall.now - NOW)
        self.context.cluster.put_node_metric(metric, self.steady.now)

    async def reconcile(self, meanwhile: Callable[[], None] = lambda: None) -> float | None:
        """Look at the node; in how many seconds again. Something may happen after the facts were gathered."""
        name = "n1"
        cluster, now = self.context.cluster, self.wall.now
        config = parse_config(json.dumps({"enable": True, "midEviction": self.eviction, **self.strategy})).config
        assert config is not None
        effective, known = effective_strategy(config), cluster.node_metrics.get(name)
        observed_at = known.observed_at.shifted(now - self.steady.now) if known else None
        inputs = from_objects(
            cluster.nodes[name],
            known.report if known else None,
            cluster.pods_on(name),
            effective.strategy,
            now,
            observed_at,
        )
        meanwhile()
        reconcile = ReconcileResult(name, effective, inputs, calculate(inputs), published_before=True)
        return await MidEvictions().execute(self.run, reconcile)

    async def lasts(self, seconds: float = AFTER_SECONDS + 1) -> float | None:
        """The node is looked at with a report, and again with another one when this time has passed."""
        self.report()
        self.wait(0.2)
        await self.reconcile()
        self.wait(seconds)
        self.report()
        return await self.reconcile()

    def evicted(self) -> list[str]:
        """Names of the pods that evictions were asked for."""
        return [body["metadata"]["name"] for body in self.api.written("POST", "/eviction")]

    def reported(self, reason: str = "") -> list[str]:
        """Notes of the events about the node."""
        events = self.api.written("POST", "/namespaces/default/events")
        return [body["note"] for body in events if reason in body["reason"]]

    def metric(self, name: str, **labels: str) -> float:
        """A metric's value; 0 when it is not there."""
        return self.context.metrics.registry.get_sample_value(f"headroom_manager_{name}", labels) or 0.0

"""One node with Mid pods, and evictions of them."""

import json
from collections.abc import Callable
from typing import Any

from manager.calculators.mid import calculate
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config
from manager.inputs import PodInputs, from_objects
from manager.reconcile.steps import ReconcileResult
from manager.reconcile.steps.eviction import ClusterEvictionState, MidEvictions
from tests.support.objects import NOW, Json, at, node, report
from tests.support.world import InMemory

PODS = "/api/v1/namespaces/shop/pods"
AFTER_SECONDS = 300


class Stage(InMemory):
    """A manager and node n1 of 16 cores and 64 GiB; by default 4 cores may be published there.

    The manager leads for 1000 seconds.
    """

    def __init__(self, *pods: Json, cpu: str = "4", **eviction: Any) -> None:  # noqa: ANN401 - fields of midEviction
        super().__init__()
        self.steady.now = 1000.0
        self.context = self.run.context
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
        self.later(0.2)
        await self.reconcile()
        self.later(seconds)
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

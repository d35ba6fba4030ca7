"""Mid pods, and a manager that leads for 1000 seconds with a node of which Mid pods may be evicted."""

import json
from collections.abc import Callable
from typing import Any

from crds import names
from manager.calculators.mid import calculate
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config
from manager.inputs import Amounts, PodInputs, from_objects
from manager.reconcile.steps import ReconcileResult
from manager.reconcile.steps.eviction import ClusterEvictionState, MidEvictions
from tests.support.objects import NOW, Json, at, mid_pod, node, report
from tests.support.world import InMemory

MEBIBYTE = 1 << 20
PODS = "/api/v1/namespaces/shop/pods"
AFTER_SECONDS = 300


def mid(
    name: str,
    cpu: int = 1000,
    memory: int = 0,
    *,
    priority: int = 7000,
    age: float = 3600.0,
    owner: tuple[str, str] | None = None,
    terminating: bool = False,
    label: str = "",
    annotations: Json | None = None,
    group: str = "",
) -> Json:
    """A running Mid pod; `memory` in MiB, `age` in seconds, `owner` is kind and name of its controller."""
    made = mid_pod(name, str(cpu), f"{memory}Mi", labels={names.LABEL_PRIORITY_CLASS: label} if label else None)
    made["spec"]["priority"] = priority
    metadata = made["metadata"]
    metadata |= {"creationTimestamp": at(-age), "annotations": dict(annotations or {})}
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    if group:
        made["spec"][group] = {"podGroupName": "g"}
    if terminating:
        metadata["deletionTimestamp"] = at(0)
    return made


def three() -> list[Json]:
    """Three Mid pods of 2 cores each; of the two with the lower priority "young" goes first."""
    return [mid("old", 2000, age=9000), mid("young", 2000, age=100), mid("high", 2000, priority=7900, age=5)]


def inputs_of(*pods: Json) -> list[PodInputs]:
    return [PodInputs.from_object(pod) for pod in pods]


def short(cpu: int = 0, memory: int = 0) -> Amounts:
    """A shortage; memory in MiB."""
    return Amounts(cpu, memory * MEBIBYTE)


class EvictingNode(InMemory):
    """Node n1 of 16 cores and 64 GiB; by default 4 cores may be published there."""

    def __init__(self, *pods: Json, cpu: str = "4", **eviction: Any) -> None:  # noqa: ANN401 - fields of midEviction
        super().__init__()
        self.steady.now = 1000.0
        self.context = self.run.context
        self.context.cluster.put_node(node())
        self.cluster_state = self.context.state_of(ClusterEvictionState)
        self.cluster_state.backoff.begin(0.0, NOW - 1000)
        self.cpu = cpu
        self.eviction: Json = {"mode": "on", "maxPerNodePerMinute": 100, "maxPerMinute": 100, **eviction}
        for pod in pods:
            self.add(pod)

    def add(self, pod: Json) -> None:
        stored = self.api.put(f"{PODS}/{pod['metadata']['name']}", pod)
        self.context.cluster.put_pod(PodInputs.from_object(stored))

    def observe(self) -> None:
        for pod in self.api.objects.values():
            if pod.get("spec", {}).get("nodeName"):
                self.context.cluster.put_pod(PodInputs.from_object(pod))

    def leave(self, name: str) -> None:
        self.context.cluster.drop_pod(self.api.objects.pop(f"{PODS}/{name}")["metadata"]["uid"])

    def report(self, metric: Json | None = None) -> None:
        metric = metric or report(reclaimable=(self.cpu, "10Gi"), usage=("4", "24Gi"))
        metric["status"]["updateTime"] = at(self.wall.now - NOW)
        metric["status"]["prediction"]["time"] = at(self.wall.now - NOW)
        self.context.cluster.put_node_metric(metric, self.steady.now)

    async def reconcile(self, meanwhile: Callable[[], None] = lambda: None) -> float | None:
        """In how many seconds again; something may happen after the inputs were gathered."""
        cluster, now = self.context.cluster, self.wall.now
        config = parse_config(json.dumps({"enable": True, "midEviction": self.eviction})).config
        assert config is not None
        effective, cached = effective_strategy(config), cluster.node_metrics.get("n1")
        observed_at = cached.observed_at.shifted(now - self.steady.now) if cached else None
        metric = cached.report if cached else None
        pods = cluster.pods_on("n1")
        inputs = from_objects(cluster.nodes["n1"], metric, pods, effective.strategy, now, observed_at)
        meanwhile()
        reconciled = ReconcileResult("n1", effective, inputs, calculate(inputs), published_before=True)
        return await MidEvictions().execute(self.run, reconciled)

    async def next(self, seconds: float, metric: Json | None = None) -> float | None:
        self.later(seconds)
        self.report(metric)
        return await self.reconcile()

    async def lasts(self, seconds: float = AFTER_SECONDS + 1, metric: Json | None = None) -> float | None:
        """Reconcile with a report, and again with another one when this time has passed."""
        self.report(metric)
        self.later(0.2)
        await self.reconcile()
        return await self.next(seconds, metric)

    def evicted(self) -> list[str]:
        return [body["metadata"]["name"] for body in self.api.written("POST", "/eviction")]

    def events(self, reason: str = "") -> list[str]:
        events = self.api.written("POST", "/namespaces/default/events")
        return [body["note"] for body in events if reason in body["reason"]]

    def metric(self, name: str, **labels: str) -> float:
        return self.context.metrics.registry.get_sample_value(f"headroom_manager_{name}", labels) or 0.0

"""A manager that knows a cluster: made of nodes, reports and pods, with a history, and without any API server."""

from dataclasses import dataclass, field
from typing import Any

from crds import names
from manager.config.in_force import at_start
from manager.context import Context
from manager.inputs import PodInputs
from manager.metrics import ManagerMetrics
from manager.mid.node_filter import NodeFilter
from manager.settings import Settings
from manager.web.recorder import Recorder
from tests.support.objects import NOW, Json, at, mid_pod, node, pod, resources

CONFIG = '{"enable": true, "nodeConfigs": []}'


def prediction_ready(*, ready: bool, reason: str = "", message: str = "") -> Json:
    """The agent's condition."""
    kind = names.CONDITION_PREDICTION_READY
    said = reason or ("Ready" if ready else "WarmingUp")
    return {
        "type": kind,
        "status": str(ready),
        "reason": said,
        "message": message or "2 pods are predicted from history.",
        "lastTransitionTime": at(-600),
    }


def published(reason: str = "Published") -> Json:
    """The manager's condition."""
    return {
        "type": names.CONDITION_MID_PUBLISHED,
        "status": str(reason == "Published"),
        "reason": reason,
        "message": "…",
        "lastTransitionTime": at(-600),
    }


def metric(
    name: str = "n1",
    *,
    used: float = 6.0,
    prod: float = 3.0,
    peak: float = 5.0,
    gib: float = 24.0,
    age: float = 10.0,
    now: float = NOW,
    ready: bool = True,
    conditions: tuple[Json, ...] | None = None,
    cold_names: tuple[str, ...] = (),
) -> Json:
    """A NodeMetric of our agent. [cores, GiB]"""
    when = at(now - NOW - age)
    classes = [
        {"name": "node", "usage": _amounts(used, gib)},
        {"name": "sys", "usage": _amounts(1.0, 2.0)},
        {"name": "prod", "usage": _amounts(prod, gib / 2), "peak": _amounts(peak - 1, gib * 0.6)},
        {"name": "mid", "usage": _amounts(1.0, 1.0)},
    ]
    own = (prediction_ready(ready=ready), published())
    pods = {"warm": 0 if cold_names else 2, "cold": len(cold_names), "coldNames": list(cold_names)}
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name, "uid": f"uid-metric-{name}", "resourceVersion": "1"},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": when,
            "nodeMetric": {"nodeUsage": _map(used, gib), "systemUsage": _map(1.0, 2.0)},
            "prodReclaimableMetric": {"resource": _map(4.0, 10.0)},
            "prodPeakMetric": {"resource": _map(peak, gib * 0.7)},
            "prediction": {"time": when, "classes": classes, "pods": pods, "policy": {"model": "decayed-histogram"}},
            "conditions": list(own if conditions is None else conditions),
        },
    }


def _amounts(cores: float, gib: float) -> Json:
    return {"cpu": f"{round(cores * 1000)}m", "memory": f"{round(gib * 1024)}Mi"}


def _map(cores: float, gib: float) -> Json:
    return resources(*_amounts(cores, gib).values())


@dataclass
class World:
    """The manager, and its clock."""

    settings: Settings = field(default_factory=lambda: Settings(namespace="headroom-system"))
    now: float = NOW
    context: Context = field(init=False)

    def __post_init__(self) -> None:
        self.context = Context(self.settings, ManagerMetrics(), wall=lambda: self.now)
        self.context.steady = lambda: self.now - NOW + 1000.0
        self.context.in_force = at_start(CONFIG, present=True, last_good=None, now=self.now - 3600)
        progress = self.context.progress
        progress.config_read = progress.nodes_listed = progress.node_metrics.synced = progress.pods.synced = True
        progress.leadership = lambda: "leads"
        self.context.cluster.pods_synced = True

    @property
    def recorder(self) -> Recorder:
        """What the page remembers."""
        return self.context.state_of(Recorder)

    def put(self, the_node: Json, its_metric: Json | None = None, *pods: Json) -> None:
        """Let the manager know of a node."""
        cluster = self.context.cluster
        cluster.put_node(the_node)
        if its_metric is not None:
            cluster.put_node_metric(its_metric, self.context.steady())
        for each in pods:
            cluster.put_pod(PodInputs.from_object(each))

    def look(self) -> None:
        """Let the recorder look at all nodes once."""
        for name in list(self.context.cluster.nodes):
            self.recorder.look(self.context.cluster, name, NodeFilter(), self.now, self.context.steady())
        self.recorder.finish(self.context.cluster, self.now)


def typical(**more: Any) -> World:  # noqa: ANN401 - settings of a World
    """One node that publishes, with two pods of Prod and one of Mid."""
    world = World(**more)
    the_node = node("n1", mid=("4000", "10Gi"))
    prod = [pod(f"web-{index}", {"cpu": "4500m", "memory": "15Gi"}) for index in range(2)]
    world.put(the_node, metric(now=world.now), *prod, mid_pod("batch"))
    world.look()
    return world

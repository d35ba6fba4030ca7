"""A manager that knows a cluster, without any API server, and what its page answers without any socket."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from crds import names
from headroom.runtime.http.pages import Reply, Request, reply_to
from manager.config.in_force import at_start
from manager.context import Context
from manager.inputs import PodInputs
from manager.metrics import ManagerMetrics
from manager.mid.node_filter import NodeFilter
from manager.settings import Settings
from manager.web.api_reader import ApiReader, NotRead
from manager.web.application import Application
from manager.web.recorder import Recorder
from tests.support.objects import NOW, Json, at, mid_pod, node, pod, report, resources

CONFIG = '{"enable": true, "nodeConfigs": []}'


def _condition(kind: str, holds: bool, reason: str, message: str) -> Json:  # noqa: FBT001 - its status
    return {"type": kind, "status": str(holds), "reason": reason, "message": message, "lastTransitionTime": at(-600)}


def prediction_ready(*, ready: bool, reason: str = "", message: str = "") -> Json:
    reason, message = reason or ("Ready" if ready else "WarmingUp"), message or "2 pods are predicted from history."
    return _condition(names.CONDITION_PREDICTION_READY, ready, reason, message)


def published(reason: str = "Published") -> Json:
    return _condition(names.CONDITION_MID_PUBLISHED, reason == "Published", reason, "…")


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
    made = report(
        name=name,
        usage=_amounts(used, gib),
        mid=("1", "1Gi"),
        age=age - (now - NOW),
        prodPeakMetric={"resource": resources(*_amounts(peak, gib * 0.7))},
        conditions=list((prediction_ready(ready=ready), published()) if conditions is None else conditions),
    )
    prediction, usage = made["status"]["prediction"], resources(*_amounts(prod, gib / 2))["resources"]
    peaks = resources(*_amounts(peak - 1, gib * 0.6))["resources"]
    prediction["classes"].append({"name": "prod", "usage": usage, "peak": peaks})
    prediction["pods"] = {"warm": 0 if cold_names else 2, "cold": len(cold_names), "coldNames": list(cold_names)}
    prediction["policy"] = {"model": "decayed-histogram"}
    return {**made, "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}}


def _amounts(cores: float, gib: float) -> tuple[str, str]:
    return f"{round(cores * 1000)}m", f"{round(gib * 1024)}Mi"


@dataclass
class World:
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
        return self.context.state_of(Recorder)

    def put(self, the_node: Json, its_metric: Json | None = None, *pods: Json) -> None:
        cluster = self.context.cluster
        cluster.put_node(the_node)
        if its_metric is not None:
            cluster.put_node_metric(its_metric, self.context.steady())
        for item in pods:
            cluster.put_pod(PodInputs.from_object(item))

    def sample(self) -> None:
        for name in list(self.context.cluster.nodes):
            self.recorder.sample(self.context.cluster, name, NodeFilter(), self.now, self.context.steady())
        self.recorder.finish(self.context.cluster, self.now)


def typical(**more: Any) -> World:  # noqa: ANN401 - settings of a World
    """A node that publishes, with two pods of Prod and one of Mid."""
    world = World(**more)
    the_node = node("n1", mid=("4000", "10Gi"))
    prod = [pod(f"web-{index}", {"cpu": "4500m", "memory": "15Gi"}) for index in range(2)]
    world.put(the_node, metric(now=world.now), *prod, mid_pod("batch"))
    world.sample()
    return world


class Stored(ApiReader):
    def __init__(self, *metrics: Json, pods: tuple[Json, ...] = (), problem: str = "") -> None:
        super().__init__()
        self._stored = {metric["metadata"]["name"]: metric for metric in metrics}
        self._pods, self._problem = pods, problem

    def node_metric(self, name: str) -> Json | None:
        self._fail()
        return self._stored.get(name)

    def unbound_pods(self) -> Json:
        self._fail()
        return {"items": list(self._pods)}

    def _fail(self) -> None:
        if self._problem:
            raise NotRead(self._problem)


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)


def ask(
    world: World,
    url: str,
    reader: ApiReader | None = None,
    *,
    method: str = "GET",
    host: str = "localhost:8081",
    local: bool = True,
) -> Answered:
    path, _, query = url.partition("?")
    application = Application(world.context, reader or Stored(), local=local)

    async def reply() -> Reply:
        made = reply_to(application.pages(), Request(method, path, dict(parse_qsl(query)), host=host))
        assert not isinstance(made, Reply)
        return await made

    result = asyncio.run(reply())
    return Answered(result.status, {"Content-Type": result.content_type, **result.headers}, result.body.decode())

"""Kubernetes objects for tests, as plain JSON."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from crds import names
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest

Json = dict[str, Any]

NOW: Final = 1_735_689_600.0  # 2025-01-01T00:00:00Z. [unix s]
GI: Final = 2**30


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    name: str = "p",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    *,
    node: str = "",
    scheduled: float | None = None,
    **spec: Any,  # noqa: ANN401 - any field of a PodSpec
) -> Json:
    """Return a pod with one container; `scheduled` is when, in seconds after NOW."""
    container: Json = {"name": "main", "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})}}
    made: Json = {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"containers": [container], **spec},
        "status": {},
    }
    if node:
        made["spec"]["nodeName"] = node
    if scheduled is not None:
        made["status"]["conditions"] = [condition("PodScheduled", scheduled)]
    return made


def condition(kind: str, since: float | None, status: str = "True") -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": None if since is None else at(since)}


def node(
    name: str = "n", cpu: str = "100", memory: str = "100Gi", annotations: Mapping[str, str] | None = None
) -> Json:
    return {
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "status": {"allocatable": {"cpu": cpu, "memory": memory}},
    }


def node_metric(
    name: str = "n",
    cpu: str | None = "50",
    memory: str = "10Gi",
    *,
    updated: float | None = 0,
    pods: Sequence[Json] = (),
    aggregated: Mapping[str, Mapping[str, Mapping[str, str]]] | None = None,
    system: Mapping[str, str] | None = None,
    interval: int | None = 60,
) -> Json:
    """Return a NodeMetric; `cpu` None: without node usage. `aggregated` is duration -> type -> resources."""
    status: Json = {"podsMetric": list(pods)}
    if updated is not None:
        status["updateTime"] = at(updated)
    if cpu is not None:
        status["nodeMetric"] = {
            "nodeUsage": {"resources": {"cpu": cpu, "memory": memory}},
            "systemUsage": {"resources": dict(system or {})},
            "aggregatedNodeUsages": [
                {"duration": duration, "usage": {kind: {"resources": dict(amounts)} for kind, amounts in usage.items()}}
                for duration, usage in (aggregated or {}).items()
            ],
        }
    policy = {} if interval is None else {"reportIntervalSeconds": interval}
    return {"metadata": {"name": name}, "spec": {"metricCollectPolicy": policy}, "status": status}


def predicting(
    metric: Json, peak: Mapping[str, str] | None = None, age: float | None = 0, *, ready: bool | None = None
) -> Json:
    """Return the NodeMetric with a prediction of the node that is this old. [s]"""
    classes: list[Json] = [{"name": "prod", "peak": {"cpu": "99"}}, {"name": "node", "peak": dict(peak or {})}]
    prediction = {"classes": classes} | ({} if age is None else {"time": at(-age)})
    status = {**metric["status"], "prediction": prediction}
    if ready is not None:
        status["conditions"] = [condition(names.CONDITION_PREDICTION_READY, 0, str(ready))]
    return {**metric, "status": status}


def pod_metric(name: str = "p", cpu: str = "2", memory: str = "1Gi", priority: str = "koord-prod") -> Json:
    usage = {"resources": {"cpu": cpu, "memory": memory}}
    return {"namespace": "default", "name": name, "podUsage": usage, "priority": priority}


def load_aware(**arguments: Any) -> LoadAware:  # noqa: ANN401 - any argument of the plugin
    """Return the plugin with its defaults and estimates of 100 %, so that numbers stay readable."""
    return LoadAware(**{"estimated_scaling_factors": {"cpu": 100, "memory": 100}, **arguments}).defaulted()


class World:
    def __init__(self, plugin: LoadAware | None = None) -> None:
        self.plugin = plugin or load_aware()
        self.rules = self.plugin.load_rules()
        self.cache = ClusterCache(self.rules, {NAME: self.plugin})

    def put(self, *objects: Json, now: float = 0) -> "World":
        """Deliver Nodes, NodeMetrics and Pods, distinguished by their fields."""
        for item in objects:
            if "containers" in item.get("spec", {}):
                self.cache.put_pod(item, NOW + now)
            elif "allocatable" in item["status"]:
                self.cache.put_node(item)
            else:
                self.cache.put_node_metric(item)
        return self

    def nodes(self, *names: str, now: float = 0) -> Nodes:
        """Return the nodes of these names, or the one called n, at a time after NOW."""
        return self.cache.freeze(NOW + now).select(names or ("n",))[0]

    def request(self, item: Json) -> PodRequest:
        return PodRequest.from_json(item, self.rules)

    def reasons(self, item: Json, *names: str, now: float = 0) -> list[str | None]:
        nodes = self.nodes(*names, now=now)
        verdict = self.plugin.filter(self.request(item), nodes)
        refusals = [verdict.refusal(row) for row in range(len(nodes))]
        return [refusal.reason if refusal else None for refusal in refusals]

    def scores(self, item: Json, *names: str, now: float = 0) -> list[int]:
        scores: list[int] = self.plugin.score(self.request(item), self.nodes(*names, now=now)).tolist()
        return scores


def records(nodes: Nodes) -> dict[str, dict[str, Any]]:
    """The records of some nodes, by plugin and field."""
    return {plugin: {field: table[field].tolist() for field in table} for plugin, table in nodes.tables.items()}

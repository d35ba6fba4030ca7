"""mid_resource: what a node may publish, when a report is too old, when a Node is written.

The peer has no floor, no hold of increases and no colocation that a plugin must ask for: all three are out of the way
here. Pods without a node run on the vector's. The Batch resources replace Mid's where only they are given, since the
decision to write is the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from crds import names
from crds.codec import from_json
from crds.colocation import ColocationStrategy
from crds.quantity import value
from manager.calculators.base import Result
from manager.calculators.mid import calculate, degraded
from manager.config.merge import effective_strategy
from manager.inputs import Amounts, NodeInputs, ObservedAt, Resource, StrategyInputs, from_objects
from manager.inputs.node import reserved_by_annotation
from manager.mid import publish
from tests.golden.adapters.colocation_config import config_of
from tests.golden.adapters.pods import kubernetes_node, kubernetes_pod
from tests.golden.results import Amount, Exact
from tests.support.api import merge

Json = dict[str, Any]

_NOW: Final = 1_800_000_000.0
_BATCH: Final = {names.MID_CPU: "kubernetes.io/batch-cpu", names.MID_MEMORY: "kubernetes.io/batch-memory"}


def _time(age: float) -> str:
    return datetime.fromtimestamp(_NOW - age, UTC).isoformat()


def _metric(short: Mapping[str, Any] | None) -> Json | None:
    if short is None:
        return None
    status: Json = {}
    if short.get("updateAgeSeconds") is not None:
        status["updateTime"] = _time(short["updateAgeSeconds"])
    status["nodeMetric"] = {name: {"resources": short.get(name)} for name in ("nodeUsage", "systemUsage")}
    status["prodReclaimableMetric"] = {"resource": {"resources": short.get("prodReclaimable")}}
    status["hostApplicationMetric"] = [
        {**application, "usage": {"resources": application.get("usage")}}
        for application in short.get("hostApplications") or ()
    ]
    status["podsMetric"] = [
        {**entry, "podUsage": {"resources": entry.get("usage")}} for entry in short.get("podsMetric") or ()
    ]
    return {"metadata": {"name": "node"}, "status": status}


def _node(short: Mapping[str, Any] | None) -> Json:
    node = kubernetes_node(short) or {"metadata": {}, "status": {}}
    return {**node, "metadata": {**node["metadata"], "name": "node"}}


def _pod(short: Mapping[str, Any]) -> Json:
    pod = kubernetes_pod(short) or {}
    return {**pod, "spec": {**pod["spec"], "nodeName": "node"}}


def _facts(vector: Mapping[str, Any], **strategy: Any) -> NodeInputs:  # noqa: ANN401 - fields by their JSON names
    fields = {**(vector.get("strategy") or {}), "enable": True, **strategy}
    now = _NOW + (vector.get("clockOffsetSeconds") or 0)
    pods = [_pod(pod) for pod in vector.get("pods") or ()]
    in_force = from_json(ColocationStrategy, fields)
    metric = _metric(vector.get("nodeMetric"))
    return from_objects(_node(vector.get("node")), metric, pods, in_force, now, ObservedAt(_NOW, _NOW))


def _items(result: Result) -> list[Json]:
    if result.degraded:
        return [{"name": resource.mid_name, "reset": True} for resource in Resource]
    return [
        {"name": resource.mid_name, "reset": False, "quantity": result.calculated[resource]} for resource in Resource
    ]


def _calculate(vector: Json) -> Json:
    if vector.get("pods") is None:  # nothing is calculated before the pods have been listed
        return {"error": True, "items": None}
    return {"error": False, "items": _items(calculate(_facts(vector)))}


def _reset(_vector: Json) -> Json:
    return {"items": _items(calculate(_facts({}, enable=False)))}


def _is_degrade_needed(vector: Json) -> Json:
    ready = {**vector, "node": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}
    return {"degrade": degraded(_facts(ready)) is not None}


def _is_colocation_disabled(vector: Json) -> Json:
    config, node = config_of(vector.get("config")), vector.get("node")
    if node is None:
        return {"disabled": not effective_strategy(replace(config, node_configs=None)).strategy.enable}
    return {"disabled": not effective_strategy(config, node.get("labels"), node.get("annotations")).strategy.enable}


def _node_reservation_from_annotation(vector: Json) -> Json:
    result = reserved_by_annotation(_node({"annotations": vector.get("annotations") or {}}))
    if result.cpu is None and result.memory is None:
        return {"resources": None}
    return {"resources": _quantities(result.cpu, result.memory)}


def _node_reservation_from_kubelet(vector: Json) -> Json:
    node = {**(vector.get("node") or {}), "annotations": {}}
    nothing = {"nodeUsage": {"cpu": "0", "memory": "0"}, "updateAgeSeconds": 0}
    result = calculate(_facts({"node": node, "nodeMetric": nothing}))
    if result.degraded:
        return {"resources": _quantities(0, 0)}
    return {"resources": _quantities(*(result.term("reserved", resource).value for resource in Resource))}


def _quantities(milli_cores: int | None, amount: int | None) -> Json:
    result = {} if milli_cores is None else {"cpu": Amount.of(f"{milli_cores}m")}
    return result if amount is None else {**result, "memory": Amount.of(amount)}


def _with_mid(*nodes: Mapping[str, Any] | None) -> list[Json]:
    """The nodes as Kubernetes writes them; Batch resources replace Mid's where none has any of Mid's."""
    whole = [_node(short) for short in nodes]
    if any(names.MID_CPU in (part or {}) or names.MID_MEMORY in (part or {}) for part in _lists(whole)):
        return whole
    batch = {theirs: ours for ours, theirs in _BATCH.items()}
    return [
        {**node, "status": {key: {batch.get(k, k): v for k, v in (part or {}).items()} for key, part in status.items()}}
        for node in whole
        for status in (node["status"],)
    ]


def _lists(nodes: list[Json]) -> list[Any]:
    return [part for node in nodes for part in node["status"].values()]


def _writes(vector: Json, strategy: Mapping[str, Any], written_at: float | None) -> bool:
    """Return whether the decision is to write; each resource is decided by itself, as the peer does."""
    old, new = _with_mid(vector.get("oldNode"), vector.get("newNode"))
    in_force = StrategyInputs.of(from_json(ColocationStrategy, {**strategy, "midIncreaseHoldSeconds": 0}))
    published = publish.published_amounts(old)
    for resource in Resource:
        wanted = (new["status"].get("allocatable") or {}).get(resource.mid_name)
        desired = None if wanted is None else Amounts(value(wanted), value(wanted))
        memory = publish.PublishState(written_at)
        if resource in publish.decide(published, desired, in_force, memory, _NOW).writes:
            return True
    return False


def _need_sync(vector: Json) -> Json:
    return {"needSync": _writes(vector, {"resourceDiffThreshold": vector["resourceDiffThreshold"]}, _NOW)}


def _is_node_resource_sync_needed(vector: Json) -> Json:
    age = vector.get("lastSyncAgeSeconds")
    if vector.get("newNode") is None or vector.get("oldNode") is None:
        return {"syncStatus": False, "syncMeta": False}
    writes = _writes(vector, vector.get("strategy") or {}, None if age is None else _NOW - age)
    return {"syncStatus": writes, "syncMeta": False}  # we write no labels or annotations


def _is_quantity_diff(vector: Json) -> Json:
    amounts = {names.MID_CPU: vector["old"]}
    wanted = {names.MID_CPU: vector["new"]}
    nodes = {
        "oldNode": {"capacity": amounts, "allocatable": amounts},
        "newNode": {"capacity": wanted, "allocatable": wanted},
    }
    return {"diff": _writes(nodes, {"resourceDiffThreshold": vector["diffThreshold"]}, _NOW)}


def _prepare_node(vector: Json) -> Json:
    calculated, resets = vector.get("calculated") or {}, vector.get("resets") or {}
    writes = {
        resource: None
        if resets.get(resource.mid_name) or calculated.get(resource.mid_name) is None
        else value(calculated[resource.mid_name])
        for resource in Resource
    }
    status = merge(_node(vector.get("node")), publish.status_patch(writes))["status"]
    lists = {
        key: Exact({name: Amount.of(amount) for name, amount in (part or {}).items()}) for key, part in status.items()
    }
    return {"error": False, "node": {**lists, "name": (vector.get("node") or {}).get("name")}}

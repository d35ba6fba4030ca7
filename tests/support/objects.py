"""Nodes, pods and NodeMetrics for tests, as short as what a test says about them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from crds import names
from crds.codec import from_json
from crds.colocation import ColocationStrategy
from headroom.kube.lease import LeaseName
from manager.inputs import NodeInputs, ObservedAt, from_objects

Json = dict[str, Any]

NOW = 1_800_000_000.0
LEASE = LeaseName("ns", "headroom-manager")


def at(seconds: float) -> str:
    """RFC 3339 text of a time relative to `NOW`."""
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat().replace("+00:00", "Z")


def node(
    name: str = "n1",
    *,
    cpu: str = "16",
    memory: str = "64Gi",
    capacity: Mapping[str, str] | None = None,
    mid: tuple[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    conditions: Sequence[Json] = (),
) -> Json:
    """Return a Node; `mid` are its Mid resources."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    all_of_it = {**allocatable, **(capacity or {})}
    extended = {names.MID_CPU: mid[0], names.MID_MEMORY: mid[1]} if mid else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "status": {
            "capacity": {**all_of_it, **extended},
            "allocatable": {**allocatable, **extended},
            "conditions": list(conditions),
        },
    }


def pod(
    name: str,
    requests: Mapping[str, str] | None = None,
    *,
    on: str = "n1",
    phase: str = "Running",
    priority: int | None = 9000,
    labels: Mapping[str, str] | None = None,
) -> Json:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": dict(requests or {})}}],
        },
        "status": {"phase": phase},
    }


def mid_pod(
    name: str,
    cpu: str = "3000",
    memory: str = "2Gi",
    *,
    limits: Mapping[str, str] = MappingProxyType({"cpu": "4", "memory": "4Gi"}),
    **more: Any,  # noqa: ANN401 - arguments of pod
) -> Json:
    """A Mid pod with native requests of zero and native limits; `limits={}` is one without limits."""
    amounts = {names.MID_CPU: cpu, names.MID_MEMORY: memory}
    result = pod(name, {**amounts, "cpu": "0", "memory": "0"}, priority=7000, **more)
    result["spec"]["containers"][0]["resources"]["limits"] = {**amounts, **limits}
    return result


def resources(cpu: str | None, memory: str | None) -> Json:
    """A resource map; `None` leaves one out."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"resources": {name: amount for name, amount in amounts.items() if amount is not None}}


def report(
    *,
    usage: tuple[str | None, str | None] = ("6", "24Gi"),
    system: tuple[str, str] = ("1", "2Gi"),
    reclaimable: tuple[str, str] | None = ("4", "10Gi"),
    mid: tuple[str, str] | None = ("2", "1Gi"),
    age: float = 10.0,
    prediction_age: float | None = None,
    name: str = "n1",
    **more: Any,  # noqa: ANN401 - further fields of the status
) -> Json:
    """A NodeMetric with a status; without `mid` it is one of another agent, which has no `prediction`."""
    status: Json = {
        "updateTime": at(-age),
        "nodeMetric": {"nodeUsage": resources(*usage), "systemUsage": resources(*system)},
        **more,
    }
    if reclaimable is not None:
        status["prodReclaimableMetric"] = {"resource": resources(*reclaimable)}
    if mid is not None:
        parts = {"node": usage, "sys": system, "mid": mid}
        classes = [{"name": part, "usage": resources(*amounts)["resources"]} for part, amounts in parts.items()]
        status["prediction"] = {"time": at(-(age if prediction_age is None else prediction_age)), "classes": classes}
    metadata = {"name": name, "uid": f"uid-metric-{name}", "resourceVersion": "1"}
    return {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": metadata, "status": status}


def exclusive(metric: Json, usage: str | None, cpus: str = "0-6") -> Json:
    """Add exclusive CPUs to a report, and their usage."""
    metric["status"]["prediction"]["exclusiveCPUs"] = {"cpus": cpus, "usage": {"cpu": usage} if usage else {}}
    return metric


def strategy(**fields: Any) -> ColocationStrategy:  # noqa: ANN401 - fields of the strategy by their JSON names
    return from_json(ColocationStrategy, {"enable": True, **fields})


def node_inputs(
    the_node: Json | None = None,
    metric: Json | None = None,
    *pods: Json,
    observed_at: ObservedAt | None = None,
    now: float = NOW,
    **fields: Any,  # noqa: ANN401 - fields of the strategy by their JSON names
) -> NodeInputs:
    """Facts of a node; the strategy is enabled."""
    the_node = node() if the_node is None else the_node
    return from_objects(the_node, metric, pods, strategy(**fields), now, observed_at)

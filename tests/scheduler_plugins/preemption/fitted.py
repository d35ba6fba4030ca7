"""Small clusters for tests of the model of kube-scheduler's filters."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from tests.scheduler_plugins.objects import NOW

Json = dict[str, Any]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE: Final = "zone"


def node(name: str = "n", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:  # noqa: ANN401 - of a Node
    """A node of 4 cores and 8 GiB for 10 pods, with its name as a label."""
    return {
        "metadata": {"name": name, "labels": {"host": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def pod(
    name: str = "p",
    node: str = "",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    ports: Iterable[Mapping[str, Any]] = (),
    status: Mapping[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401 - any field of a PodSpec
) -> Json:
    container = {"name": "main", "resources": {"requests": dict(requests or {})}, "ports": list(ports)}
    made: Json = {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": dict(labels or {})},
        "spec": {"containers": [container], **spec},
        "status": dict(status or {}),
    }
    if node:
        made["spec"]["nodeName"] = node
    return made


def cluster(*objects: Json) -> QuotaCluster:
    """A cluster of Nodes, Pods and Namespaces (objects with labels alone)."""
    made = QuotaCluster("CapacityScheduling", MaxMissing.INFINITE)
    for item in objects:
        if "containers" in item.get("spec", {}):
            made.put_pod(item)
        elif "status" in item:
            made.put_node(item)
        else:
            made.namespaces.put(item)
    return made


def misfit(asked: Json, found: QuotaCluster, name: str = "n", without: Iterable[str] = ()) -> str | None:
    return FitModel(QuotaPod.from_json(asked), found, found.nominations(NOW)).misfit(name, frozenset(without))


def never(asked: Json, found: QuotaCluster, name: str = "n") -> str | None:
    return FitModel(QuotaPod.from_json(asked), found, found.nominations(NOW)).unresolvable(name)

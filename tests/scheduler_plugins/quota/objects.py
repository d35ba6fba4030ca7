"""Quotas and pods for tests, as plain JSON."""

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler_plugins.quota.amounts import NOTHING, Amounts, plus
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.objects import Json, at

GPU = "nvidia.com/gpu"


def quota(
    namespace: str,
    minimum: Mapping[str, Any] | None = None,
    maximum: Mapping[str, Any] | None = None,
    *,
    name: str = "q",
    age: float = 0,
    uid: str = "",
) -> Json:
    """Return an ElasticQuota; `age` is how long before NOW it was created. [s]"""
    metadata = {"namespace": namespace, "name": name, "uid": uid or f"{namespace}-{name}"}
    spec = {key: dict(bound) for key, bound in (("min", minimum), ("max", maximum)) if bound is not None}
    return {"metadata": {**metadata, "creationTimestamp": at(-age)}, "spec": spec}


def pod(
    name: str,
    namespace: str = "a",
    requests: Mapping[str, Any] | None = None,
    *,
    node: str = "",
    priority: int = 0,
    nominated: str = "",
    hold: Hold | None = None,
    phase: str = "",
    **spec: Any,  # noqa: ANN401 - any field of a PodSpec
) -> Json:
    made: Json = {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": at(0),
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": dict(requests or {"cpu": "1"})}}],
            "priority": priority,
            **spec,
        },
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }
    if node:
        made["spec"]["nodeName"] = node
    if nominated:
        made["status"]["nominatedNodeName"] = nominated
    if hold is not None:
        made["metadata"]["annotations"], made["status"]["conditions"] = hold.annotations, [hold.condition]
    return made


def node(name: str = "n1", **allocatable: Any) -> Json:  # noqa: ANN401 - quantities
    return {"metadata": {"name": name}, "status": {"allocatable": {"pods": "110", **allocatable}}}


def miscounted(ledger: QuotaLedger, pods: Iterable[QuotaPod]) -> list[str]:
    """Return the namespaces with a charge for bound pods that differs from the sum of these pods."""
    right: dict[str, Amounts] = {}
    for pod in pods:
        if pod.charged:
            right[pod.namespace] = plus(right.get(pod.namespace, NOTHING), pod.charge)
    names = right.keys() | set(ledger.namespaces)
    pairs = {name: (ledger.bound(name), right.get(name, NOTHING)) for name in names}
    return [
        name
        for name, (has, due) in pairs.items()
        if any(has.get(resource, 0) != due.get(resource, 0) for resource in {*has, *due})
    ]

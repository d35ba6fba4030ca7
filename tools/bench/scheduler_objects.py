"""The cluster of the scheduler's benchmark: nodes of 32 cores that report, and small pods. Pure."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from crds.node_metric import GROUP, VERSION
from tools.bench.manager_report import moment

NAMESPACE = "default"
METRICS = f"/apis/{GROUP}/{VERSION}/nodemetrics"
TAINTS = ({"operator": "Exists"},)
"""A Node is made with the taint of one that is not ready, and nobody takes it off: there are no controllers."""

Json = dict[str, Any]


def name(number: int) -> str:
    """Name of a node."""
    return f"node-{number:05d}"


def node(number: int) -> Json:
    """A Node."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "250", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": name(number), "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    metadata = {"name": name(number), "labels": labels}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": ready},
    }


def node_metric(number: int) -> Json:
    """A NodeMetric without a status."""
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "NodeMetric", "metadata": {"name": name(number)}}


def report(number: int, now: float) -> Json:
    """Merge patch of its status: 3 to 56 % of the CPU in use, none of the nodes is refused."""
    lot = np.random.default_rng(number)
    cores, gib = lot.uniform(1.0, 18.0), lot.uniform(8.0, 60.0)

    def usage(factor: float) -> Json:
        return {"resources": {"cpu": f"{cores * factor * 1000:.0f}m", "memory": f"{gib * factor * 1024:.0f}Mi"}}

    factors = {"avg": 1.0, "p50": 0.98, "p90": 1.1, "p95": 1.15, "p99": 1.2, "stdev": 0.1}
    windows = [
        {"duration": duration, "usage": {kind: usage(factor) for kind, factor in factors.items()}}
        for duration in ("5m0s", "10m0s", "30m0s")
    ]
    measured = {"nodeUsage": usage(1.0), "systemUsage": usage(0.05), "aggregatedNodeUsages": windows}
    return {"status": {"updateTime": moment(now), "nodeMetric": measured, "podsMetric": []}}


def pods(count: int, scheduler: str) -> Iterator[Json]:
    """Pods of 100 milli-cores and 128 MiB that wait for a scheduler."""
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    spec = {
        "schedulerName": scheduler,
        "tolerations": list(TAINTS),
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "registry.example/service:1", "resources": resources}],
    }
    for number in range(count):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number:05d}", "namespace": NAMESPACE, "labels": {"app": "bench"}},
            "spec": spec,
        }

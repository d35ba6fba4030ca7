"""The cluster of a benchmark: objects of realistic size, with amounts that move. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from crds.node_metric import GROUP, VERSION
from crds.workload_history import MOST_HOURS, WorkloadUsage, workload_id

CORES, GIB = 32, 128
REPORTED_PODS = 30  # Pods in each report: 150,000 pods on 5,000 nodes
IMAGES = 30  # of these a kubelet lists up to 50 on its Node: most of a Node's size
LEVELS = 5
DAEMON_SETS, DEPLOYMENTS_PER_NODE = 10, 6.6  # workloads of all nodes: a Deployment has three pods
COLD_PODS, COLD_SECONDS = 2, 21_600  # of a node; others after this time
STEP: Final = 1.2  # one level more is a fifth more: above the threshold of an increase, and urgent as a decrease
LOWEST_MILLI, LOWEST_MIB = 4000, 8192
METRICS: Final = f"/apis/{GROUP}/{VERSION}/nodemetrics"
LABELS: Final = {"app": "bench"}  # of the pods that wait for a scheduler
CONDITIONS: Final = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}

Json = dict[str, Any]


def moment(now: float) -> str:
    """Return RFC 3339 text of a time. [unix s]"""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05d}"


def metric_path(number: int) -> str:
    """Return the path of a node's NodeMetric."""
    return f"{METRICS}/{name(number)}"


def heartbeat(now: float) -> Json:
    """Return a kubelet's strategic merge patch of its Node's status when nothing has changed."""
    return {
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": reason, "message": text, "lastHeartbeatTime": moment(now)}
                for kind, (status, reason, text) in CONDITIONS.items()
            ]
        }
    }


def node(number: int, now: float, images: int = IMAGES) -> Json:
    """Return a Node as a kubelet registers it: with its images some 6 KiB."""
    amounts = {"cpu": str(CORES), "memory": f"{GIB}Gi", "pods": "250", "ephemeral-storage": "100Gi"}
    registry = "registry.example/platform/services"
    listed = [
        {
            "names": [f"{registry}/service-{index}@sha256:{index:064x}", f"{registry}/service-{index}:v1.{index}.0"],
            "sizeBytes": 100_000_000 + index,
        }
        for index in range(images)
    ]
    labels = {"kubernetes.io/hostname": name(number), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    labels |= {"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name(number), "labels": labels},
        "spec": {"providerID": f"cloud:///zone-{number % 3}/{name(number)}"},
        "status": {"capacity": amounts, "allocatable": amounts, "images": listed, **heartbeat(now)["status"]},
    }


def pod(number: int, node_number: int) -> Json:
    """Return a bound Prod pod of a Deployment."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"service-{number % 30}-6d5f8", "controller": True}
    container = {
        "name": "main",
        "image": f"registry.example/platform/services/service-{number % 30}:v1.0.0",
        "env": [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(5)],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    labels = {"app": f"service-{number % 30}", "koordinator.sh/priority-class": "koord-prod"}
    owner["uid"] = f"00000000-0000-4000-8000-{number % 30:012d}"
    metadata = {"name": f"{name(node_number)}-pod-{number}", "labels": labels, "ownerReferences": [owner]}
    spec = {"nodeName": name(node_number), "containers": [container], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def replica_set() -> Json:
    """Return the ReplicaSet that owns `pending_pods`; kube-scheduler spreads the pods of its selector."""
    container = {"name": "main", "image": "registry.example/service:1"}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "bench"}, "spec": spec}


def pending_pods(count: int, scheduler: str) -> Iterator[Json]:
    """Yield pods of `replica_set`, of 100 milli-cores and 128 MiB, that wait for a scheduler.

    They tolerate the taint of a Node that is not ready, because no controller takes it off.
    """
    container = {
        "name": "main",
        "image": "registry.example/service:1",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    owner: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bench", "controller": True}
    owner["uid"] = "00000000-0000-4000-8000-000000000000"
    spec = {"schedulerName": scheduler, "automountServiceAccountToken": False, "containers": [container]}
    for number in range(count):
        metadata = {"name": f"pod-{number:05d}", "namespace": "default", "labels": LABELS, "ownerReferences": [owner]}
        spec_of = {**spec, "tolerations": [{"operator": "Exists"}]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec_of}


def reclaimable(level: int) -> tuple[int, int]:
    """Return what Prod will not use at a level. [milli-cores, MiB]"""
    return int(LOWEST_MILLI * STEP**level), int(LOWEST_MIB * STEP**level)


def report(level: int, now: float, pods: int = REPORTED_PODS) -> Json:
    """Return an agent's merge patch of a NodeMetric's status, some 8 KiB.

    Nothing else limits the published amount, so the Node has the reclaimable amount.

    Args:
        level: The reclaimable amount, see `reclaimable`.
        now: The time of the report. [unix s]
        pods: How many pods it lists.
    """
    cpu, memory = reclaimable(level)
    usage = {"resources": {"cpu": "9876m", "memory": "51539607552"}}
    system = {"resources": {"cpu": "512m", "memory": "2147483648"}}
    statistics = dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), usage)
    windows = [{"usage": statistics, "duration": f"{minutes}m0s"} for minutes in (5, 10, 30)]
    classes = [
        {
            "name": entry,
            **{part: {"cpu": "1234m", "memory": "8589934592"} for part in ("usage", "mean", "stdev", "peak")},
            "evidence": {"samples": 4321, "spanSeconds": 86400},
        }
        for entry in ("prod", "mid", "batch", "free", "node", "sys")
    ]
    pods_metric = [
        {
            "name": f"service-{index}-6d5f8-{index:05d}",
            "namespace": "shop",
            "podUsage": {"resources": {"cpu": f"{300 + index}m", "memory": str((1 << 30) + index)}},
            "priority": "koord-prod",
            "qos": "LS",
        }
        for index in range(pods)
    ]
    return {
        "status": {
            "updateTime": moment(now),
            "nodeMetric": {"nodeUsage": usage, "systemUsage": system, "aggregatedNodeUsages": windows},
            "podsMetric": pods_metric,
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}},
            "prediction": {"time": moment(now), "classes": classes, "pods": {"warm": pods, "cold": 0}},
        }
    }


def workloads(number: int, now: float, nodes: int) -> list[str]:
    """Return the workloads of a node's report, one of so many nodes: each pod is of another one, and two are cold.

    The observed time of half of the workloads rises each hour.
    """
    deployments = round(nodes * DEPLOYMENTS_PER_NODE)
    names = [f"kube-system/DaemonSet/agent-{index}" for index in range(DAEMON_SETS)]
    names += [
        f"shop/Deployment/service-{(number * 7919 + index * 104_729) % deployments}"
        for index in range(REPORTED_PODS - DAEMON_SETS)
    ]
    first = int(now / COLD_SECONDS + number / 7) % REPORTED_PODS
    cold = {(first + 15 * place) % REPORTED_PODS for place in range(COLD_PODS)}
    result = []
    for index, workload in enumerate(names):
        hours = int(now / 3600 + number * 0.13 + index * 11) % (2 * MOST_HOURS)
        cpu, memory = 300 + (number * 37 + index * 101) % 700, 1024 + (number * 13 + index) % 500
        most = COLD_SECONDS // 3600 if index in cold else MOST_HOURS
        usage = WorkloadUsage(workload_id(workload), cpu, memory, min(hours, most), 1, int(index in cold))
        result.append(str(usage))
    return result


def usage_report(number: int, now: float) -> Json:
    """Return a merge patch with 3 to 56 % of the node's CPU in use, as no plugin refuses it."""
    lot = np.random.default_rng(number)
    cores, gib = lot.uniform(1.0, 18.0), lot.uniform(8.0, 60.0)

    def usage(factor: float) -> Json:
        return {"resources": {"cpu": f"{cores * factor * 1000:.0f}m", "memory": f"{gib * factor * 1024:.0f}Mi"}}

    factors = {"avg": 1.0, "p50": 0.98, "p90": 1.1, "p95": 1.15, "p99": 1.2, "stdev": 0.1}
    statistics = {kind: usage(factor) for kind, factor in factors.items()}
    windows = [{"duration": duration, "usage": statistics} for duration in ("5m0s", "10m0s", "30m0s")]
    measured = {"nodeUsage": usage(1.0), "systemUsage": usage(0.05), "aggregatedNodeUsages": windows}
    return {"status": {"updateTime": moment(now), "nodeMetric": measured, "podsMetric": []}}


def node_metric(number: int, level: int | None = None, now: float = 0.0) -> Json:
    """Return a NodeMetric; with a level, with its status, for measurements without an API server."""
    metadata = {"name": name(number), "uid": f"metric-{number}", "resourceVersion": "1"}
    if level is None:
        metadata = {"name": name(number)}
    status = {} if level is None else report(level, now)
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "NodeMetric", "metadata": metadata, **status}

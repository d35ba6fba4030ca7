"""What the nodes of a benchmark look like and report: objects of realistic size, amounts that move. Pure."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from crds.node_metric import GROUP, VERSION
from manager.node_metric import path

CORES, GIB = 32, 128
REPORTED_PODS = 30  # Pods in each report: 150,000 pods on 5,000 nodes
IMAGES = 30  # of these a kubelet lists up to 50 on its Node: most of a Node's size
LEVELS = 5
STEP: Final = 1.2  # one level more is a fifth more: above the threshold of an increase, and urgent as a decrease
LOWEST_MILLI, LOWEST_MIB = 4000, 8192
SHARE: Final = 0.1
"""Of the reports that go one level down, and as many that go one up; at an end of the range the level stays."""
CONDITIONS: Final = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}

Json = dict[str, Any]


def moment(now: float) -> str:
    """RFC 3339 text of a time. [unix s]"""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name(number: int) -> str:
    """Name of a node."""
    return f"node-{number:05d}"


def conditions(now: float) -> list[Json]:
    """What a kubelet says of itself every five minutes, at this time. [unix s]"""
    return [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": moment(now)}
        for kind, (status, reason, message) in CONDITIONS.items()
    ]


def node(number: int, now: float) -> Json:
    """A Node as a kubelet registers it, some 6 KiB."""
    amounts = {"cpu": str(CORES), "memory": f"{GIB}Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    registry = "registry.example/platform/services"
    images = [
        {
            "names": [f"{registry}/service-{each}@sha256:{each:064x}", f"{registry}/service-{each}:v1.{each}.0"],
            "sizeBytes": 100_000_000 + each,
        }
        for each in range(IMAGES)
    ]
    labels = {"kubernetes.io/hostname": name(number), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    labels |= {"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name(number), "labels": labels},
        "spec": {"providerID": f"cloud:///zone-{number % 3}/{name(number)}"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions(now), "images": images},
    }


def pod(number: int, node_number: int) -> Json:
    """A bound Prod pod of a Deployment."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"service-{number % 30}-6d5f8", "controller": True}
    container = {
        "name": "main",
        "image": f"registry.example/platform/services/service-{number % 30}:v1.0.0",
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}"} for each in range(5)],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    labels = {"app": f"service-{number % 30}", "koordinator.sh/priority-class": "koord-prod"}
    owner["uid"] = f"00000000-0000-4000-8000-{number % 30:012d}"
    metadata = {"name": f"{name(node_number)}-pod-{number}", "labels": labels, "ownerReferences": [owner]}
    spec = {"nodeName": name(node_number), "containers": [container], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def heartbeat(now: float) -> Json:
    """A kubelet's strategic merge patch of its Node's status when nothing has changed."""
    return {"status": {"conditions": conditions(now)}}


def reclaimable(level: int) -> tuple[int, int]:
    """What Prod will not use at a level. [milli-cores, MiB]"""
    return int(LOWEST_MILLI * STEP**level), int(LOWEST_MIB * STEP**level)


def report(level: int, now: float, pods: int = REPORTED_PODS) -> Json:
    """An agent's merge patch of a NodeMetric's status, some 8 KiB.

    Nothing else limits what is published, so that the Node has what is reclaimable.

    Args:
        level: what is reclaimable, see `reclaimable`.
        now: the time of the report. [unix s]
        pods: how many pods it lists.
    """
    cpu, memory = reclaimable(level)
    usage = {"resources": {"cpu": "9876m", "memory": "51539607552"}}
    system = {"resources": {"cpu": "512m", "memory": "2147483648"}}
    statistics = dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), usage)
    windows = [{"usage": statistics, "duration": f"{minutes}m0s"} for minutes in (5, 10, 30)]
    classes = [
        {
            "name": each,
            **{part: {"cpu": "1234m", "memory": "8589934592"} for part in ("usage", "mean", "stdev", "peak")},
            "evidence": {"samples": 4321, "spanSeconds": 86400},
        }
        for each in ("prod", "mid", "batch", "free", "node", "sys")
    ]
    prediction = {"time": moment(now), "classes": classes, "pods": {"warm": pods, "cold": 0}}
    return {
        "status": {
            "updateTime": moment(now),
            "nodeMetric": {"nodeUsage": usage, "systemUsage": system, "aggregatedNodeUsages": windows},
            "podsMetric": [
                {
                    "name": f"service-{each}-6d5f8-{each:05d}",
                    "namespace": "shop",
                    "podUsage": {"resources": {"cpu": f"{300 + each}m", "memory": str((1 << 30) + each)}},
                    "priority": "koord-prod",
                    "qos": "LS",
                }
                for each in range(pods)
            ],
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}},
            "prediction": prediction,
        }
    }


def node_metric(number: int, level: int, now: float) -> Json:
    """A NodeMetric with its status, for measurements without an API server."""
    metadata = {"name": name(number), "uid": f"metric-{number}", "resourceVersion": "1"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "NodeMetric", "metadata": metadata, **report(level, now)}


def metric_path(number: int) -> str:
    """Path of a node's NodeMetric."""
    return path(name(number))


@dataclass(slots=True)
class Levels:
    """What each node has reclaimable, from one report to the next."""

    count: int  # how many nodes
    lot: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - not a secret
    """Decides which report moves."""
    _now: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._now = [LEVELS // 2] * self.count

    def next(self, number: int) -> int:
        """The level that a node reports next."""
        chance = self.lot.random()
        move = -1 if chance < SHARE else 1 if chance < 2 * SHARE else 0
        self._now[number] = min(max(self._now[number] + move, 0), LEVELS - 1)
        return self._now[number]

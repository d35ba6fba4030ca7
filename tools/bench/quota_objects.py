"""The cluster of the quotas' benchmark: nodes of 8 GPUs, all in use; half of the quotas borrow, the others lend. Pure.

Quotas come in pairs that share 80 GPUs, 40 of them guaranteed to each: the first uses 48, its max, and the second
32. Each node has a fifth of a quota, twenty pods to a node: 8 with a GPU, 12 without.
"""

from collections.abc import Iterator
from typing import Any, Final

from crds.elastic_quota import ElasticQuota
from tools.bench.objects import moment, name

NODES_PER_QUOTA: Final = 5
GPUS: Final = 8  # of a node
PODS_PER_NODE: Final = 20
GPU: Final = "nvidia.com/gpu"
MIN_GPUS, MAX_GPUS = 40, 48  # of a quota
LENDING: Final = 5
BORROWED: Final = 3  # of five GPUs of a pair the even quota uses three

Json = dict[str, Any]


def namespace(number: int) -> str:
    """The number of a quota."""
    return f"team-{number:04d}"


def node(number: int) -> Json:
    """A Node."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi", GPU: f"{GPUS}"}
    labels = {"kubernetes.io/hostname": name(number), "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {
        "metadata": {"name": name(number), "uid": f"node-{number}", "labels": labels},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def quota(number: int, now: float) -> Json:
    """An ElasticQuota; memory is neither guaranteed too little nor limited."""
    least = {"cpu": "100", "memory": "400Gi", GPU: f"{MIN_GPUS}"}
    most = {"cpu": "120", "memory": "500Gi", GPU: f"{MAX_GPUS}"}
    metadata = {"name": "quota", "namespace": namespace(number), "uid": f"quota-{number}"}
    return {
        "apiVersion": ElasticQuota.API_VERSION,
        "kind": ElasticQuota.KIND,
        "metadata": {**metadata, "creationTimestamp": moment(now)},
        "spec": {"min": least, "max": most},
    }


def pod(identity: str, team: int, gpus: int, node_name: str, now: float) -> Json:
    """A pod as the API server has it; without a node it is pending.

    Args:
        identity: its name and uid.
        team: number of its quota.
        gpus: how many it requests.
        node_name: where it is bound.
        now: when it was made, and started if it is bound. [unix s]
    """
    requests = {"cpu": "500m", "memory": "2Gi", **({GPU: f"{gpus}"} if gpus else {})}
    resources = {"requests": requests, "limits": {GPU: f"{gpus}"} if gpus else {}}
    container = {"name": "main", "image": "registry.example/train:1", "resources": resources}
    metadata = {"name": identity, "namespace": namespace(team), "uid": identity, "resourceVersion": "1"}
    condition = {"type": "PodScheduled", "status": "True" if node_name else "False", "lastTransitionTime": moment(now)}
    status: Json = {"phase": "Running" if node_name else "Pending", "conditions": [condition]}
    if node_name:
        status["startTime"] = moment(now)
    else:
        condition["reason"] = "Unschedulable"
    return {
        "metadata": {**metadata, "labels": {"app": "bench"}, "creationTimestamp": moment(now)},
        "spec": {"nodeName": node_name, "priority": 0, "containers": [container]},
        "status": status,
    }


def pods(nodes: int, now: float) -> Iterator[Json]:
    """The pods of all nodes. Each starts a second after the last.

    Args:
        nodes: how many; a multiple of ten.
        now: when the last one started. [unix s]
    """
    pairs, began = nodes // NODES_PER_QUOTA // 2, now - nodes * PODS_PER_NODE
    for number in range(nodes * PODS_PER_NODE):
        where, slot = number % nodes, number // nodes
        pair = (where + 37 * slot) % pairs
        lends = (where // pairs + slot) % LENDING >= BORROWED
        gpus = 1 if slot < GPUS else 0
        yield pod(f"pod-{number}", 2 * pair + lends, gpus, name(where), began + number)

"""Random small clusters with quotas, as vectors of the operation `preempt`."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

GPU: Final = "nvidia.com/gpu"
NAMESPACES: Final = ("a", "b", "c", "free", "more")
"""The last two have no quota."""

_PRIORITIES: Final = (-10, 0, 0, 0, 5, 1000)
_FIRST, _LAST = 0, 60
_SPARE: Final = {"cpu": "12", GPU: "12"}


def vector(seed: int, *, nominated: bool = True) -> dict[str, Any]:
    """The same vector for the same seed; no two pods start at the same time."""
    random = Random(seed)  # noqa: S311 - nothing secret
    nodes = [f"n{index}" for index in range(random.randint(1, 4))]
    starts = random.sample(range(_FIRST, _LAST), 40)
    pods = [
        _pod(random, f"p{index}", node=random.choice(nodes), second=starts.pop())
        for index in range(random.randint(0, 20))
    ]
    preemptor = _pod(random, "preemptor", node="", second=None)
    preemptor["spec"]["priority"] = random.choice((0, 5, 1000))
    quotas = [_quota(random, namespace) for namespace in NAMESPACES[:3] if random.random() < 0.9]
    if random.random() < 0.7:
        quotas.append({"metadata": {"name": "quota", "namespace": "spare"}, "spec": {"min": _SPARE}})
    if random.random() < 0.3:
        preemptor["status"]["nominatedNodeName"] = random.choice(nodes)
    waiting = [_pod(random, f"w{index}", node="", second=None) for index in range(random.randint(0, 3) * nominated)]
    for pod in waiting:
        pod["status"]["nominatedNodeName"] = random.choice([*nodes, "elsewhere"])
    statuses = {node: "UnschedulableAndUnresolvable" for node in nodes if random.random() < 0.1}
    return {
        "op": "preempt",
        "nodes": [_node(random, name) for name in nodes],
        "elasticQuotas": quotas,
        "preemptor": preemptor,
        "pods": pods,
        "nominatedPods": waiting,
        "podDisruptionBudgets": [_budget(random, f"pdb{index}") for index in range(random.choice((0, 1, 4, 8)))],
        "filterStatuses": statuses,
    }


def _node(random: Random, name: str) -> dict[str, Any]:
    has = {"pods": random.choice(("4", "8", "110")), "cpu": random.choice(("4", "8", "12")), "memory": "64Gi"}
    if random.random() < 0.8:
        has[GPU] = random.choice(("2", "4", "8"))
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": has}}


def _quota(random: Random, namespace: str) -> dict[str, Any]:
    least: dict[str, str] = {"cpu": str(random.choice((0, 2, 6, 12)))}
    if random.random() < 0.7:
        least[GPU] = str(random.choice((0, 1, 3, 6, 12)))
    spec: dict[str, Any] = {"min": least}
    if random.random() < 0.8:
        spec["max"] = {"cpu": str(int(least["cpu"]) + random.choice((0, 2, 8)))}
        if random.random() < 0.5:
            spec["max"][GPU] = str(random.choice((2, 4, 8)))
    return {"metadata": {"name": "quota", "namespace": namespace, "uid": f"quota-{namespace}"}, "spec": spec}


def _pod(random: Random, name: str, node: str, second: int | None) -> dict[str, Any]:
    requests = {"cpu": random.choice(("0", "500m", "1", "1", "2", "3"))}
    if random.random() < 0.5:
        requests[GPU] = random.choice(("0", "1", "1", "2", "3"))
    metadata: dict[str, Any] = {"name": name, "namespace": random.choice(NAMESPACES), "uid": name}
    if random.random() < 0.7:
        metadata["labels"] = {"app": random.choice("xyz")}
    if node and random.random() < 0.1:
        metadata["deletionTimestamp"] = "2024-01-01T01:00:00Z"
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    spec |= {"priority": random.choice(_PRIORITIES)} | ({"nodeName": node} if node else {})
    if random.random() < 0.1:
        spec["overhead"] = {"cpu": "250m"}
    status = {} if second is None else {"startTime": f"2024-01-01T00:00:{second:02}Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _budget(random: Random, name: str) -> dict[str, Any]:
    selector: Mapping[str, Any] = random.choice((*({"matchLabels": {"app": app}} for app in "xyz"), {}))
    status: dict[str, Any] = {"disruptionsAllowed": random.choice((0, 0, 1, 2))}
    if random.random() < 0.3:
        status["disruptedPods"] = {f"p{random.randint(0, 20)}": "2024-01-01T00:00:00Z"}
    metadata = {"name": name, "namespace": random.choice(NAMESPACES[:4]), "uid": name}
    return {"metadata": metadata, "spec": {"selector": selector}, "status": status}

"""Small clusters with quotas, written briefly: amounts are GPUs."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import count
from typing import Any, Final

from scheduler_plugins.plugins.capacity_scheduling import NAME
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.preemption.selection.decide import Decision, Undecided, decide
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing

GPU: Final = "nvidia.com/gpu"
NOW: Final = 1_790_000_000.0
"""The current time. [unix s]"""

Json = dict[str, Any]


class World:
    """A cluster that is built step by step; nodes have GPUs, quotas their min and max. [GPUs]"""

    def __init__(self, nodes: Mapping[str, int], quotas: Mapping[str, tuple[int, int]]) -> None:
        self.cluster = QuotaCluster(NAME, MaxMissing.INFINITE)
        self._seconds = count()
        for name, gpus in nodes.items():
            has = {GPU: str(gpus), "cpu": "1000", "pods": "110"}
            self.cluster.put_node({"metadata": {"name": name}, "status": {"allocatable": has}})
        for namespace, (least, most) in quotas.items():
            spec = {"min": {GPU: str(least)}, "max": {GPU: str(most)}}
            self.cluster.put_quota({"metadata": {"name": "q", "namespace": namespace}, "spec": spec})

    def run(self, key: str, node: str, gpus: int = 1, priority: int = 0, **more: Any) -> QuotaPod:  # noqa: ANN401
        """Add a running pod; each started a second after the one before."""
        pod = pod_json(key, gpus, priority, **more)
        pod["spec"]["nodeName"] = node
        if more.get("static"):
            pod["metadata"]["ownerReferences"] = [{"kind": "Node", "name": node, "controller": True}]
        pod["status"]["startTime"] = f"2026-01-01T{(at := next(self._seconds)) // 60:02}:{at % 60:02}:00Z"
        return self._put(pod)

    def wait(self, key: str, gpus: int = 1, priority: int = 0, **more: Any) -> QuotaPod:  # noqa: ANN401
        """Add a waiting pod."""
        return self._put(pod_json(key, gpus, priority, **more))

    def protect(self, namespace: str, app: str, allowed: int = 0, name: str = "budget") -> None:
        metadata = {"name": name, "namespace": namespace}
        spec, status = {"selector": {"matchLabels": {"app": app}}}, {"disruptionsAllowed": allowed}
        self.cluster.put_budget({"metadata": metadata, "spec": spec, "status": status})

    def decide(self, pod: QuotaPod, **options: Any) -> Decision | Undecided:  # noqa: ANN401
        fitting = FitModel(pod, self.cluster, self.cluster.nominations(NOW))
        return decide(pod, self.cluster, NOW, fitting.misfit, **options)

    def decision(self, pod: QuotaPod, **options: Any) -> Decision:  # noqa: ANN401
        decision = self.decide(pod, **options)
        assert isinstance(decision, Decision), decision
        return decision

    def victims(self, pod: QuotaPod, **options: Any) -> AbstractSet[str]:  # noqa: ANN401
        return {victim.key for victim in self.decision(pod, **options).victims}

    def why_not(self, pod: QuotaPod, **options: Any) -> str:  # noqa: ANN401
        decision = self.decide(pod, **options)
        assert isinstance(decision, Undecided), decision
        return decision.reason

    def _put(self, pod: Json) -> QuotaPod:
        self.cluster.put_pod(pod)
        return self.cluster.pods[pod["metadata"]["uid"]]


COUNT: Final = {"budgets_rule": BudgetsRule.COUNT}
"""Disruption budgets are only counted."""


def pod_json(
    key: str,
    gpus: int,
    priority: int,
    *,
    labels: Mapping[str, str] | None = None,
    nominated: str = "",
    hold: Hold | None = None,
    never: bool = False,
    terminating: bool = False,
    static: bool = False,
    cpu: str = "0",
    group: str = "",
) -> Json:
    namespace, _, name = key.partition("/")
    metadata: Json = {"name": name, "namespace": namespace, "uid": key, "labels": dict(labels or {})}
    status: Json = {"nominatedNodeName": nominated}
    if hold is not None:
        metadata["annotations"], status["conditions"] = hold.annotations, [hold.condition]
    if static:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "a-hash"}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    containers = [{"name": "main", "resources": {"requests": {GPU: str(gpus), "cpu": cpu}}}]
    spec: Json = {"priority": priority, "containers": containers}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if never:
        spec["preemptionPolicy"] = "Never"
    return {"metadata": metadata, "spec": spec, "status": status}

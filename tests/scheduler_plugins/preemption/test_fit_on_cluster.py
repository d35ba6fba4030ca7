"""The model of kube-scheduler's filters against the real kube-scheduler, node by node, on random pods."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from tests.scheduler_plugins.extenders import until
from tests.scheduler_plugins.preemption.kube_scheduler import (
    GPU,
    NAMESPACES,
    POOL,
    RANK,
    ZONE,
    ZONES,
    KubeScheduler,
    RandomPods,
)
from tools.devcluster import Cluster, NodeTemplate

pytestmark = [pytest.mark.cluster, pytest.mark.long]

Json = dict[str, Any]

NAME: Final = "fit"
FIRST, SECOND = 130, 90
"""Number of tried pods, before and after some of them are deleted."""
FINALIZER: Final = "fit/never"
SEED: Final = 7


@dataclass
class Pool:
    cluster: Cluster
    scheduler: KubeScheduler
    nodes: list[str]
    model: QuotaCluster = field(default_factory=lambda: QuotaCluster(NAME, MaxMissing.INFINITE))
    placed: list[Json] = field(default_factory=list)
    marks: int = 0

    def read(self, *, beside: str = "") -> None:
        self.model = QuotaCluster(NAME, MaxMissing.INFINITE)
        for namespace in self.cluster.api.get("/api/v1/namespaces")["items"]:
            self.model.namespaces.put(namespace)
        for node in self.cluster.api.get("/api/v1/nodes")["items"]:
            self.model.put_node(node)
        for pod in self.cluster.api.get("/api/v1/pods")["items"]:
            if pod["metadata"]["uid"] != beside:
                self.model.put_pod(pod)

    def evaluate(self, pod: Json) -> Mapping[str, str | None]:
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        quota_pod = QuotaPod.from_json({**pod, "spec": spec, "status": {}})
        fitting = FitModel(quota_pod, self.model, self.model.nominations(time.time()))
        assert not fitting.unmodelled
        for node in self.model.nodes:
            assert not fitting.unresolvable(node) or fitting.misfit(node, frozenset())
        return {node: fitting.misfit(node, frozenset()) for node in self.model.nodes}

    def compare(self, pod: Json) -> bool:
        evaluated, fit, reasons = self.scheduler.evaluator(pod)
        if not self.agrees(evaluated, fit, reasons):
            self.read(beside=evaluated["metadata"]["uid"])  # nodes or pods of other tests may have changed
            assert self.agrees(evaluated, fit, reasons), (pod, fit, reasons, self.evaluate(evaluated))
        if fit:
            self.placed.append(evaluated)
            self.model.put_pod(evaluated)
        else:
            self.delete(evaluated)
        return bool(fit)

    def agrees(self, evaluated: Json, fit: frozenset[str], reasons: Mapping[str, int]) -> bool:
        results = self.evaluate(evaluated)
        if {node for node, reason in results.items() if reason is None} != fit:
            return False
        ours = Counter(entry for reason in results.values() if reason for entry in reason.split(", "))
        # kube-scheduler does not try a pod with a node name on other nodes, and gives another reason.
        return bool(fit) or "matchFields" in str(evaluated["spec"].get("affinity")) or ours == reasons

    def delete(self, pod: Json) -> None:
        metadata = pod["metadata"]
        self.cluster.api.request(
            "DELETE", f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}?gracePeriodSeconds=0"
        )
        self.model.delete_pod(metadata["uid"])

    def terminate(self, pod: Json) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self.cluster.api.merge(path, {"metadata": {"finalizers": [FINALIZER]}})
        self.cluster.api.request("DELETE", f"{path}?gracePeriodSeconds=0")
        self.model.put_pod(self.cluster.api.get(path))

    def resize(self, pod: Json) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        until(lambda: self.cluster.api.get(path)["status"].get("containerStatuses"), f"{path} running")
        status = self.cluster.api.get(path)["status"]
        statuses = [
            {**entry, "resources": {"requests": {"cpu": "900m", "memory": "1Gi"}}}
            for entry in status["containerStatuses"]
        ]
        self.model.put_pod(self.cluster.api.merge(f"{path}/status", {"status": {"containerStatuses": statuses}}))

    def nominate(self, pod: Json, node: str) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        pod["spec"]["schedulingGates"] = [{"name": "fit/waits"}]
        uid = self.cluster.api.request("POST", path, pod)["metadata"]["uid"]
        path = f"{path}/{pod['metadata']['name']}"
        nominated = self.cluster.api.merge(f"{path}/status", {"status": {"nominatedNodeName": node}})
        assert nominated["metadata"]["uid"] == uid
        self.model.put_pod(nominated)

    def settle(self) -> None:
        """Wait until kube-scheduler has observed all changes to pods: it observes changes to bound pods in order."""
        self.marks += 1
        port = 8000 + self.marks
        mark = self._mark(f"mark-{self.marks}", port)
        mark["spec"]["nodeName"] = self.nodes[0]
        path = f"/api/v1/namespaces/{NAMESPACES[0]}/pods"
        self.model.put_pod(self.cluster.api.request("POST", path, mark))
        tries = iter(range(10**6))

        def seen() -> bool:
            evaluated, fit, _ = self.scheduler.evaluator(self._mark(f"probe-{self.marks}-{next(tries)}", port))
            self.delete(evaluated)
            return not fit

        until(seen, "kube-scheduler seeing a port in use")

    def _mark(self, name: str, port: int) -> Json:
        ports = [{"containerPort": port, "hostPort": port}]
        spec = {
            "schedulerName": self.scheduler.name,
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": self.nodes[0]},
            "containers": [{"name": "main", "image": "localhost/pause:dev", "ports": ports}],
        }
        metadata = {"namespace": NAMESPACES[0], "name": name}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _nodes(cluster: Cluster) -> list[str]:
    names = []
    more: list[list[Mapping[str, str]]] = [
        [{"key": "fit/only", "value": "x", "effect": "NoSchedule"}],
        [{"key": "fit/out", "effect": "NoExecute"}],
        [{"key": "fit/soft", "effect": "PreferNoSchedule"}],
    ]
    for number in range(14):
        labels = {POOL: "yes", RANK: "many" if number == 9 else str(number % 7)}
        if number % 5 != 4:
            labels[ZONE] = ZONES[number % 3]
        taints = [{"key": POOL, "effect": "NoSchedule"}, *(more[number] if number < len(more) else [])]
        template = NodeTemplate(
            cpu="8" if number % 2 else "4", memory="8Gi", pods=12 if number % 4 else 30, labels=labels, taints=taints
        )
        names += cluster.kwok.add(1, template, prefix=NAME)
    for name in names[::3]:
        cluster.api.merge(
            f"/api/v1/nodes/{name}/status", {"status": {"capacity": {GPU: "3"}, "allocatable": {GPU: "3"}}}
        )
    cluster.api.merge(f"/api/v1/nodes/{names[-1]}", {"spec": {"unschedulable": True}})
    return names


@pytest.fixture(scope="module")
def pool(cluster: Cluster) -> Iterator[Pool]:
    for name, labels in zip(NAMESPACES, ({"team": "one"}, {"team": "two", "prod": "yes"}), strict=True):
        cluster.create_namespace(name)
        cluster.api.merge(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
    nodes = _nodes(cluster)
    cordoned = f"/api/v1/nodes/{nodes[-1]}"
    until(lambda: len(cluster.api.get(cordoned)["spec"]["taints"]) > 1, "a cordoned node being tainted")
    with KubeScheduler.run(cluster, NAME) as scheduler:
        pool = Pool(cluster, scheduler, nodes)
        pool.read()
        yield pool
    for name in NAMESPACES:
        for pod in cluster.api.get(f"/api/v1/namespaces/{name}/pods")["items"]:
            path = f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}"
            cluster.api.merge(path, {"metadata": {"finalizers": None}})
        cluster.api.request("DELETE", f"/api/v1/namespaces/{name}")


def test_random_pods_agree(pool: Pool) -> None:
    """For every pod, the model finds the same nodes as kube-scheduler, and otherwise the same reasons as often."""
    pods = RandomPods(SEED, pool.scheduler.name, pool.nodes)
    bound = [pool.compare(pods.make()) for _ in range(FIRST)]
    for number, pod in enumerate(pool.placed):
        if number % 3 == 0:
            pool.delete(pod)
        elif number % 7 == 0:
            pool.terminate(pod)
        elif number % 4 == 0:
            pool.resize(pod)
    for node in pool.nodes[::2]:
        pool.nominate(pods.make(), node)
    pool.settle()
    bound += [pool.compare(pods.make()) for _ in range(SECOND)]
    assert min(Counter(bound).values()) > len(bound) / 5, "too few of one kind to mean anything"

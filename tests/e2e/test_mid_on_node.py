"""Mid resources on a real kubelet: they shrink under running pods, and a Prod pod lands on a node full of Mid pods.

The reports are written by the test: a real agent needs minutes until it predicts what a test wants to see.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.agent_node import wait
from tests.manager.stage import NAMESPACE as MANAGERS
from tests.manager.stage import Manager, Stage, rights
from tools.devcluster import Cluster, ClusterSpec
from tools.devcluster.containerd import PAUSE_IMAGE

NAMESPACE = "shop"
PRIORITIES = {"mid-low": 7000, "mid-high": 7500, "prod": 9000}
MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
NATIVE_LIMITS = {"cpu": "300m", "memory": "64Mi"}
REQUESTS = {MID_CPU: "300", MID_MEMORY: "64Mi"}  # what each Mid pod requests [milli-cores]

Json = dict[str, Any]


def pod(name: str, requests: Json, priority: str, **labels: str) -> Json:
    """An idle pod for the stock scheduler, a Mid pod with native limits. The written reports state its usage."""
    native: Json = {} if "cpu" in requests else {"requests": {"cpu": "0", "memory": "0"}, "limits": NATIVE_LIMITS}
    container = {
        "name": "work",
        "image": PAUSE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/pause", "with an error"],  # Kubernetes calls a pod that ends without one Succeeded
        "resources": {kind: {**requests, **native.get(kind, {})} for kind in ("requests", "limits")},
    }
    spec = {
        "priorityClassName": priority,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass
class MidNode:
    cluster: Cluster
    manager: Manager  # the manager, a separate process with the rights of the chart

    @property
    def name(self) -> str:
        return self.cluster.spec.node_name

    def get(self, *words: str) -> Json:
        result: Json = json.loads(self.cluster.kubectl("get", *words, "-o", "json"))
        return result

    def report(
        self, reclaimable: str, usage: str = "300m", memory: str = "1Gi", pods: Mapping[str, str] | None = None
    ) -> None:
        """A full report: Reclaimable of Prod, the usage of the node, and the memory of some pods."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        used = {
            "node": {"cpu": usage, "memory": "1Gi"},
            "sys": {"cpu": "100m", "memory": "512Mi"},
            "mid": {"cpu": "0", "memory": "0"},
        }
        status = {
            "updateTime": now,
            "nodeMetric": {"nodeUsage": {"resources": used["node"]}, "systemUsage": {"resources": used["sys"]}},
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": reclaimable, "memory": memory}}},
            "podsMetric": [
                {"namespace": NAMESPACE, "name": name, "podUsage": {"resources": {"cpu": "0", "memory": amount}}}
                for name, amount in (pods or {}).items()
            ],
            "prediction": {"time": now, "classes": [{"name": name, "usage": used[name]} for name in used]},
        }
        patch = json.dumps({"status": status})
        self.cluster.kubectl("patch", "nodemetric", self.name, "--subresource=status", "--type=merge", "-p", patch)

    def published(self) -> int | None:
        """Mid CPU in allocatable. [milli-cores]"""
        amount = self.get("node", self.name)["status"]["allocatable"].get(MID_CPU)
        return None if amount is None else int(amount.replace("k", "000"))

    def expect_published(self, milli_cores: int) -> None:
        wait(lambda: self.published() == milli_cores, seconds=120, what=f"{milli_cores}m {MID_CPU}")

    def create(self, *pods: Json) -> None:
        """Create pods, a second apart: Kubernetes stores their ages in seconds."""
        for index, each in enumerate(pods):
            if index:
                time.sleep(1.1)
            self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))

    def phase(self, name: str) -> str:
        """A pod's phase, "Terminating", or "" when it is gone."""
        result = self.get("pods", "-n", NAMESPACE, "--field-selector", f"metadata.name={name}")["items"]
        if not result:
            return ""
        return "Terminating" if "deletionTimestamp" in result[0]["metadata"] else str(result[0]["status"]["phase"])

    def expect_phase(self, phase: str, *names: str) -> None:
        for name in names:
            wait(lambda name=name: self.phase(name) == phase, seconds=120, what=f"pod {name} {phase or 'gone'}")  # type: ignore[misc]

    def restart_kubelet(self) -> None:
        """Restart the kubelet alone; returns when it has taken the pods that it found, for it takes a new one then."""
        if self.cluster.node is None:
            raise RuntimeError("this cluster has no real node")
        self.cluster.node.stop_kubelet()
        self.cluster.node.start_kubelet()
        name = f"after-restart-{time.monotonic_ns()}"
        self.create(pod(name, {"cpu": "10m"}, "prod"))
        self.expect_phase("Running", name)

    def events(self, reason: str, about: str) -> list[str]:
        events = self.get("events", "-A", "--field-selector", f"reason={reason},involvedObject.name={about}")
        return [event["message"] for event in events["items"]]

    def metric(self, line: str) -> float:
        """A metric of the manager's; 0 where it is not there."""
        result = (text.rpartition(" ") for text in self.manager.page("/metrics")[1].splitlines())
        return next((float(value) for name, _, value in result if name == line), 0.0)


pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
AFTER_SECONDS = 3
EVICTING = {"mode": "on", "afterSeconds": AFTER_SECONDS, "maxPerNodePerMinute": 10, "maxPerMinute": 10}


def _strategy(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the strategy
    return {"enable": True, "midIncreaseHoldSeconds": 0, "midEviction": {"mode": "off"}, **changes}


@pytest.fixture(scope="module")
def node(
    request: pytest.FixtureRequest,
    real_node_requirements: None,  # noqa: ARG001 - it skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MidNode]:
    """A real node, the manager with exactly the chart's rights, and a strategy that publishes reported amounts."""
    with Cluster(ClusterSpec(real_node=True, own_images=False)) as cluster:
        cluster.define(ROOT / "crds/node_metric.yaml")
        for name in (MANAGERS, NAMESPACE):
            cluster.create_namespace(name)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights(cluster, MANAGERS)))
        for name, value in PRIORITIES.items():
            metadata = {"name": name}
            cluster.apply(
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
            )
        folder = tmp_path_factory.mktemp("manager")
        stage = Stage(cluster)
        manager = Manager(stage.login(folder / "kubeconfig"), folder / "manager.log")
        stage.configure(_strategy())
        manager.start()
        try:
            result = MidNode(cluster, manager)
            wait(lambda: result.get("nodemetrics")["items"], seconds=120, what="a NodeMetric")
            yield result
        finally:
            code = manager.stop()
            if request.session.testsfailed:
                cluster.keep_logs()
        assert code == 0, manager.log_text()
        assert "Traceback" not in manager.log_text()
        assert "orbidden" not in manager.log_text()


@pytest.fixture
def empty(node: MidNode) -> Iterator[MidNode]:
    yield node
    node.cluster.kubectl("delete", "pods,poddisruptionbudgets", "--all", "-n", NAMESPACE, "--wait=true")


def test_floor_survives_kubelet_restart(empty: MidNode) -> None:
    """Mid shrinks to half of what runs: with `floor` a kubelet that restarts fails no Mid pod, with `exact` it does."""
    node, stage = empty, Stage(empty.cluster)
    names = ("first", "second", "third")
    stage.configure(_strategy())
    node.report("900m")
    node.expect_published(900)
    node.create(*(pod(name, REQUESTS, "mid-low") for name in names))
    node.expect_phase("Running", *names)

    node.report("500m")
    wait(lambda: node.events("MidDeficit", node.name), seconds=120, what="the event of the deficit")
    node.restart_kubelet()
    assert node.published() == 900
    assert [node.phase(name) for name in names] == ["Running"] * 3

    stage.configure(_strategy(midShrinkPolicy="exact"))
    node.expect_published(500)
    assert [node.phase(name) for name in names] == ["Running"] * 3  # the lower amount alone kills no pod
    node.restart_kubelet()
    node.expect_phase("Failed", *names[1:])
    assert node.phase("first") == "Running"
    for name in names[1:]:
        assert "capacity: 500" in _event(node, f"OutOf{MID_CPU}", name)


def test_prod_reclaims_its_resources(empty: MidNode) -> None:
    """A Prod pod lands on a node full of Mid pods; as its predicted peak grows, Mid pods are evicted within budgets."""
    node, stage = empty, Stage(empty.cluster)
    stage.configure(_strategy())
    node.report("900m")
    node.expect_published(900)
    node.create(
        pod("high", REQUESTS, "mid-high"),
        pod("low", REQUESTS, "mid-low"),
        pod("guarded", REQUESTS, "mid-low", app="guarded"),
    )
    node.expect_phase("Running", "high", "low", "guarded")
    _guard(node, "guarded")
    node.create(pod("one-more", REQUESTS, "mid-low"))
    wait(lambda: node.events("FailedScheduling", "one-more"), seconds=120, what="a node that is full of Mid")
    assert f"Insufficient {MID_CPU}" in node.events("FailedScheduling", "one-more")[0]
    node.cluster.kubectl("delete", "pod", "one-more", "-n", NAMESPACE)

    node.create(pod("prod", {"cpu": "400m", "memory": "64Mi"}, "prod"))
    node.expect_phase("Running", "prod")  # native requests never wait for Mid

    stage.configure(_strategy(midEviction={**EVICTING, "mode": "dry-run"}))
    _grows(node, reclaimable="400m", usage="700m")

    def events() -> list[str]:  # the manager may have seen the reports before the configuration
        node.report("400m", "700m")
        return node.events("MidEvictionDryRun", node.name)

    note = wait(events, seconds=120, what="the dry run")[0]
    assert "requested 900m CPU, 400m CPU may be published: short by 500m CPU" in note
    assert "First to go: shop/guarded (priority 7000, requested 300m CPU" in note
    assert [node.phase(name) for name in ("high", "low", "guarded")] == ["Running"] * 3

    stage.configure(_strategy(midEviction=EVICTING))
    node.expect_phase("", "low", "high")
    node.expect_published(400)
    assert [node.phase(name) for name in ("guarded", "prod")] == ["Running"] * 2
    assert "short by 500m CPU" in _event(node, "MidPodEvicted", "low")
    assert "300m CPU of it terminating" in _event(node, "MidPodEvicted", "high")
    assert "shop/guarded stays" in _event(node, "MidEvictionRefused", node.name)
    assert node.metric('headroom_manager_mid_evictions_total{result="evicted"}') == 2
    assert node.metric('headroom_manager_mid_evictions_total{result="refused-by-budget"}') >= 1


def test_usage_beyond_requests_goes_alone(empty: MidNode) -> None:
    """Short of 700 MiB, a pod of a higher priority that uses 1.3 GiB of 64 MiB is evicted, and no other."""
    node, stage = empty, Stage(empty.cluster)
    stage.configure(_strategy(midEviction=EVICTING))
    node.report("900m")
    node.expect_published(900)
    node.create(
        pod("hungry", {MID_MEMORY: "64Mi"}, "mid-high"),
        pod("small", {MID_MEMORY: "64Mi"}, "mid-low"),
        pod("large", {MID_MEMORY: "700Mi"}, "mid-low"),
    )
    node.expect_phase("Running", "hungry", "small", "large")
    pods = {"hungry": "1331Mi", "small": "20Mi", "large": "1Mi"}

    def gone() -> bool:
        node.report("900m", memory="128Mi", pods=pods)
        time.sleep(1.1)  # reports are distinguished by their time, in seconds
        return not node.phase("hungry")

    wait(gone, seconds=120, what="the eviction")
    assert "requested 64Mi memory, used 1.2Gi memory beyond" in _event(node, "MidPodEvicted", "hungry")
    for _ in range(2 * AFTER_SECONDS):
        gone()
    assert [node.phase(name) for name in ("small", "large")] == ["Running"] * 2


def _event(node: MidNode, reason: str, about: str) -> str:
    """The note of the first event of a reason about an object, once it is there: it is written after the deed."""
    return wait(lambda: node.events(reason, about), seconds=120, what=f"event {reason} about {about}")[0]


def _guard(node: MidNode, app: str) -> None:
    """A budget that lets none of these pods go; returns when Kubernetes has counted them."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    metadata = {"name": app, "namespace": NAMESPACE}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    node.cluster.kubectl("create", "-f", "-", stdin=json.dumps(budget))

    def counted() -> bool:
        status = node.get("pdb", app, "-n", NAMESPACE)["status"]
        return bool(status.get("currentHealthy") == 1 and status["disruptionsAllowed"] == 0)

    wait(counted, seconds=120, what="a budget that is counted")


def _grows(node: MidNode, *, reclaimable: str, usage: str) -> None:
    """Agent reports while usage and predicted peak of Prod grow; each twice, for a single report evicts no pod."""
    texts = len(node.events("MidDeficit", node.name))
    node.report(reclaimable, usage)
    wait(lambda: len(node.events("MidDeficit", node.name)) > texts, seconds=120, what="a deficit")
    time.sleep(1.1)  # reports are distinguished by their time, in seconds
    node.report(reclaimable, usage)

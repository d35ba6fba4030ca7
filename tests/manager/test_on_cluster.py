"""The manager as a process, with exactly the rights that the chart gives it, against a real API server."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster, CommandError
from devcluster.component import free_port

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
NAMESPACE = "manager-test"
CONFIG_MAP = "slo-controller-config"
POOL = {"pool": "manager-test"}
SOLD = {"enable": True, "degradeTimeMinutes": 1, "midIncreaseHoldSeconds": 0}
# Other tests share the cluster: only nodes of our pool sell anything.
CONFIG: dict[str, Any] = {"nodeConfigs": [{"name": "ours", "nodeSelector": {"matchLabels": POOL}, **SOLD}]}


def eventually(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition; the time is only how long a slow machine may take."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


class Manager:
    """A manager process."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self.kubeconfig, self.log = kubeconfig, log
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.port = free_port()
        flags = [f"--kubeconfig={self.kubeconfig}", f"--namespace={NAMESPACE}", f"--listen=127.0.0.1:{self.port}"]
        command = [sys.executable, "-m", "manager", *flags, "--leader-elect"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=os.environ)
        eventually(self.healthy, f"the manager is healthy; {self.log}:\n{self.said()}")

    def healthy(self) -> bool:
        """Whether /healthz is fine."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def said(self) -> str:
        """Its log."""
        return self.log.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)


class Stage:
    """The cluster as these tests use it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def get(self, *what: str) -> dict[str, Any]:
        """An object; empty when there is none."""
        text = self.cluster.kubectl("get", *what, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)) if text.strip() else {}

    def add_node(self, name: str) -> None:
        """A Node that sells Mid."""
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": POOL},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(node))
        eventually(lambda: bool(self.get("nodemetric", name)), f"{name} has a NodeMetric")

    def report(self, node: str, reclaimable_cpu: str, age_seconds: float = 0.0) -> None:
        """What an agent would write."""
        moment = (datetime.now(UTC) - timedelta(seconds=age_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {
            "updateTime": moment,
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": "6", "memory": "24Gi"}},
                "systemUsage": {"resources": {"cpu": "1", "memory": "2Gi"}},
            },
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": reclaimable_cpu, "memory": "10Gi"}}},
            "prediction": {"time": moment, "classes": [{"name": "mid", "usage": {"cpu": "0", "memory": "0"}}]},
        }
        patch = json.dumps({"status": status})
        self.cluster.kubectl("patch", "nodemetric", node, "--subresource=status", "--type=merge", "-p", patch)

    def offers(self, node: str) -> dict[str, str]:
        """Mid resources of a Node, when capacity and allocatable agree."""
        status = self.get("node", node)["status"]
        found = [
            {name: amount for name, amount in status[part].items() if "mid-" in name}
            for part in status
            if part in {"capacity", "allocatable"}
        ]
        return found[0] if found[0] == found[1] else {"disagree": "x"}

    def expect_cpu(self, node: str, amount: str | None) -> None:
        """Wait for the Mid CPU of a Node."""
        name = "kubernetes.io/mid-cpu"
        eventually(lambda: self.offers(node).get(name) == amount, f"{node} offers {name} {amount}")

    def configure(self, config: dict[str, Any] | str) -> None:
        """Write the ConfigMap."""
        text = config if isinstance(config, str) else json.dumps(config)
        metadata = {"name": CONFIG_MAP, "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colocation-config": text}}
        self.cluster.apply(body)

    def expect_event(self, reason: str, about: str, namespace: str = NAMESPACE) -> str:
        """Wait for an event and return its note."""

        def notes() -> list[str]:
            events = self.get("events.events.k8s.io", "-n", namespace).get("items", [])
            wanted = [each for each in events if each["reason"] == reason and each["regarding"]["name"] == about]
            return [each["note"] for each in wanted]

        eventually(lambda: bool(notes()), f"event {reason} about {about}")
        return notes()[-1]


def _rights(cluster: Cluster) -> str:
    """The manager's service account and roles, as `helm install` into our namespace would make them."""
    chart, template = ROOT / "charts/headroom", "templates/manager-rbac.yaml"
    rendered = cluster.helm("template", "headroom", chart, "-n", NAMESPACE, "--show-only", template)
    objects = [each for each in yaml.safe_load_all(rendered) if each]
    for each in objects:
        if not each["kind"].startswith("Cluster"):
            each["metadata"].setdefault("namespace", NAMESPACE)
    return yaml.safe_dump_all(objects)


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """The CRD, our namespace, and the rights that the chart gives the manager there."""
    cluster.define(ROOT / "crds/node_metric.yaml")
    cluster.create_namespace(NAMESPACE)
    rights = _rights(cluster)
    cluster.kubectl("apply", "-f", "-", stdin=rights)
    yield Stage(cluster)
    cluster.kubectl("delete", "nodes", "-l", "pool=manager-test")
    cluster.kubectl("delete", "-f", "-", stdin=rights)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def kubeconfig(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A login as the manager's service account."""
    token = stage.cluster.kubectl("create", "token", "headroom-manager", "-n", NAMESPACE, "--duration=1h").strip()
    config = yaml.safe_load(stage.cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path = tmp_path_factory.mktemp("manager") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def manager(stage: Stage, kubeconfig: Path, tmp_path: Path) -> Iterator[Manager]:
    """A manager with a good configuration; it must end in order, and have said nothing of tracebacks or rights."""
    stage.configure(CONFIG)
    manager = Manager(kubeconfig, tmp_path / "manager.log")
    manager.start()
    try:
        yield manager
    finally:
        code = manager.stop()
    assert code == 0, manager.said()
    assert "Traceback" not in manager.said()
    if "cannot be reached" not in manager.said():  # an API server that has just come back refuses for a moment
        assert "orbidden" not in manager.said()


@pytest.mark.usefixtures("manager")
def test_node_metric_lives_with_node(stage: Stage) -> None:
    """A Node gets a NodeMetric with the spec of its strategy; edits and deletion are undone; it goes with the Node."""
    stage.add_node("life")
    metric = stage.get("nodemetric", "life")
    assert metric["spec"]["predictPolicy"]["model"] == "nsigma-v2"
    assert metric["metadata"]["ownerReferences"][0]["uid"] == stage.get("node", "life")["metadata"]["uid"]
    edit = '{"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 7}}}'
    stage.cluster.kubectl("patch", "nodemetric", "life", "--type=merge", "-p", edit)

    def interval() -> object:
        return (
            stage.get("nodemetric", "life").get("spec", {}).get("metricCollectPolicy", {}).get("reportIntervalSeconds")
        )

    eventually(lambda: interval() == 60, "the spec is corrected")
    stage.cluster.kubectl("delete", "nodemetric", "life")
    eventually(lambda: interval() == 60, "the NodeMetric is back")
    stage.configure({"nodeConfigs": [{**CONFIG["nodeConfigs"][0], "metricReportIntervalSeconds": 30}]})
    eventually(lambda: interval() == 30, "the spec follows the configuration")
    stage.cluster.kubectl("delete", "node", "life")
    eventually(lambda: not stage.get("nodemetric", "life"), "the NodeMetric goes with the Node")


@pytest.mark.usefixtures("manager")
def test_report_becomes_resources(stage: Stage) -> None:
    """A report leads to Mid resources on the Node, follows up and down, and leaves no other trace there."""
    stage.add_node("sells")
    before = stage.get("node", "sells")["metadata"]
    stage.report("sells", "4")
    stage.expect_cpu("sells", "4k")
    assert stage.offers("sells")["kubernetes.io/mid-memory"] in {"10Gi", "10737418240"}
    stage.report("sells", "3")
    stage.expect_cpu("sells", "3k")
    stage.report("sells", "5")
    stage.expect_cpu("sells", "5k")
    for kind, name in (("node", "sells"), ("nodemetric", "sells")):
        metadata = stage.get(kind, name)["metadata"]
        assert "finalizers" not in metadata
        assert not any("kopf" in key or "headroom" in key for key in metadata.get("annotations", {}))
    assert stage.get("node", "sells")["metadata"].get("annotations") == before.get("annotations")
    config_map = stage.get("configmap", CONFIG_MAP, "-n", NAMESPACE)["metadata"]
    assert "finalizers" not in config_map
    assert "annotations" not in config_map


@pytest.mark.usefixtures("manager")
def test_stale_report_degrades(stage: Stage) -> None:
    """An old report takes Mid away and a fresh one brings it back, each with an event on the Node."""
    stage.add_node("stale")
    stage.report("stale", "4")
    stage.expect_cpu("stale", "4k")
    stage.report("stale", "4", age_seconds=120)
    stage.expect_cpu("stale", None)
    assert "degradeTimeMinutes (1)" in stage.expect_event("DegradedMid", "stale", "default")
    stage.report("stale", "4")
    stage.expect_cpu("stale", "4k")
    stage.expect_event("MidRestored", "stale", "default")


@pytest.mark.usefixtures("manager")
def test_silence_degrades(stage: Stage) -> None:
    """When nothing arrives any more, the deadline alone takes Mid away: no event of the API server is needed."""
    stage.add_node("silent")
    stage.report("silent", "4", age_seconds=50)
    stage.expect_cpu("silent", "4k")
    stage.expect_cpu("silent", None)


@pytest.mark.usefixtures("manager")
def test_running_mid_pod_keeps_floor(stage: Stage) -> None:
    """While a Mid pod is bound, the Node offers at least what it bought, even degraded; then nothing."""
    stage.add_node("floor")
    stage.report("floor", "4")
    stage.expect_cpu("floor", "4k")
    amounts = {"kubernetes.io/mid-cpu": "2500", "kubernetes.io/mid-memory": "1Gi"}
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mid", "namespace": NAMESPACE, "labels": {"koordinator.sh/priority-class": "koord-mid"}},
        "spec": {"nodeName": "floor", "containers": [container]},
    }
    stage.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    stage.report("floor", "1")
    stage.expect_cpu("floor", "2500")
    stage.expect_event("MidDeficit", "floor", "default")
    stage.report("floor", "1", age_seconds=120)
    stage.expect_event("DegradedMid", "floor", "default")
    stage.expect_cpu("floor", "2500")
    stage.cluster.kubectl("delete", "pod", "mid", "-n", NAMESPACE, "--force", "--grace-period=0")
    stage.expect_cpu("floor", None)


def test_bad_config_keeps_last_good(stage: Stage, manager: Manager) -> None:
    """A bad ConfigMap changes nothing but an event with every fault, not even over a restart; its repair applies."""
    stage.add_node("config")
    stage.report("config", "4")
    stage.expect_cpu("config", "4k")

    def kept() -> bool:
        return bool(stage.get("configmap", "headroom-last-good-config", "-n", NAMESPACE))

    eventually(kept, "the good configuration is kept")
    stage.configure({"enabl": False, "degradeTimeMinutes": 0})
    note = stage.expect_event("ColocationConfigInvalid", CONFIG_MAP)
    assert "enabl: unknown field: did you mean enable?" in note
    assert "degradeTimeMinutes: must be 1 to 10080, got 0" in note
    assert manager.stop() == 0
    manager.start()
    stage.report("config", "3")
    stage.expect_cpu("config", "3k")
    stage.configure({"enable": False})
    stage.expect_event("ColocationConfigApplied", CONFIG_MAP)
    stage.expect_cpu("config", None)


@pytest.mark.usefixtures("manager")
def test_deleted_config_means_defaults(stage: Stage) -> None:
    """Without a ConfigMap nothing is sold, and an event says so."""
    stage.add_node("deleted")
    stage.report("deleted", "4")
    stage.expect_cpu("deleted", "4k")
    stage.cluster.kubectl("delete", "configmap", CONFIG_MAP, "-n", NAMESPACE)
    stage.expect_cpu("deleted", None)
    stage.expect_event("ColocationConfigDeleted", CONFIG_MAP)


def test_api_server_may_go_away(stage: Stage, manager: Manager) -> None:
    """An API server that is away is waited for, and what happened meanwhile is taken up."""
    stage.add_node("away")
    stage.report("away", "4")
    stage.expect_cpu("away", "4k")
    stage.cluster.apiserver.stop()
    eventually(lambda: "cannot be reached" in manager.said(), "the outage is noticed")
    assert manager.healthy()
    stage.cluster.apiserver.start()

    def reported() -> bool:
        try:
            stage.report("away", "2")
        except CommandError:  # the API server is still warming up
            return False
        return True

    eventually(reported, "the API server takes writes again")
    stage.expect_cpu("away", "2k")
    stage.add_node("after")


def test_second_replica_takes_over(stage: Stage, manager: Manager, kubeconfig: Path, tmp_path: Path) -> None:
    """Of two replicas one writes; when it ends, the other one goes on at once."""
    stage.add_node("twins")
    stage.report("twins", "4")
    stage.expect_cpu("twins", "4k")
    second = Manager(kubeconfig, tmp_path / "second.log")
    second.start()
    try:
        assert "Leading" not in second.said()
        assert manager.stop() == 0
        stage.report("twins", "2")
        stage.expect_cpu("twins", "2k")
        assert "Leading" in second.said()
    finally:
        assert second.stop() == 0

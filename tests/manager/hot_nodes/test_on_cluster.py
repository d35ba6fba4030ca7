"""The taint of hot nodes on a real API server, with the rights and the admission policy of the chart."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from crds.names import TAINT_HOT
from tests.charts.test_api_server import ask
from tests.manager.stage import METRICS, NODES, Manager, Stage, prepared, rendered
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "hot-nodes-test"
ENABLED: Final = "manager.hotNodes.enabled=true"
TEMPLATES: Final = ("manager-rbac.yaml", "node-status-policy.yaml", "hooks/uninstall-rbac.yaml")
GPU: Final = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
HOT: Final = {"key": TAINT_HOT, "effect": "NoSchedule"}
WRITERS, TAINTS_EACH = 4, 15

Json = dict[str, Any]


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with prepared(cluster, NAMESPACE) as stage:
        made = [yaml.safe_dump_all(rendered(cluster, NAMESPACE, part, ENABLED)) for part in TEMPLATES]
        for text in made:
            cluster.kubectl("apply", "-f", "-", stdin=text)
        yield stage
        for text in made[1:]:  # the manager's rights go with the stage
            cluster.kubectl("delete", "-f", "-", stdin=text)


@pytest.fixture
def path(cluster: Cluster) -> Iterator[str]:
    """A node that is Ready, so that Kubernetes taints it with nothing of its own."""
    path = f"{NODES}/{cluster.kwok.names[0]}"
    yield path
    cluster.api.merge(path, {"spec": {"taints": None}})


@pytest.fixture
def manager(stage: Stage, tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(stage.login(tmp_path / "kubeconfig"), tmp_path / "manager.log", NAMESPACE)
    manager.start()
    yield manager
    assert manager.stop() == 0
    assert "Traceback" not in manager.log_text()


def _taints(stage: Stage, node: str) -> list[Json]:
    taints: list[Json] = stage.cluster.api.get(f"{NODES}/{node}")["spec"].get("taints", [])
    return taints


REFUSED: Final[Json] = {
    "another taint": {"spec": {"taints": [GPU, {"key": "other", "effect": "NoSchedule"}]}},
    "another's taint gone": {"spec": {"taints": [HOT]}},
    "another's taint changed": {"spec": {"taints": [{**GPU, "effect": "NoExecute"}, HOT]}},
    "a taint that evicts": {"spec": {"taints": [GPU, {**HOT, "effect": "NoExecute"}]}},
    "a value": {"spec": {"taints": [GPU, {**HOT, "value": "x"}]}},
    "a cordon": {"spec": {"unschedulable": True}},
    "a cordon beside our taint": {"spec": {"unschedulable": True, "taints": [GPU, HOT]}},
    "a provider": {"spec": {"providerID": "x://y"}},
    "a label": {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
    "an annotation": {"metadata": {"annotations": {"node.koordinator.sh/raw-allocatable": "{}"}}},
}
ALLOWED: Final[dict[str, list[Json]]] = {
    "our taint": [GPU, HOT],
    "the other effect": [GPU, {**HOT, "effect": "PreferNoSchedule"}],
    "none of ours": [GPU],
    "both effects, in front": [HOT, {**HOT, "effect": "PreferNoSchedule"}, GPU],
    "gone": [GPU],
}


@pytest.mark.parametrize("account", ["headroom-manager", "headroom-uninstall"])
def test_token_can_set_this_taint_alone(stage: Stage, path: str, account: str) -> None:
    """With the account's own token the taint of hot nodes can be set and removed, and nothing else of a Node."""
    cluster = stage.cluster
    token = cluster.kubectl("-n", NAMESPACE, "create", "token", account).strip()
    cluster.api.merge(path, {"spec": {"taints": [GPU]}})
    body = {"spec": {"taints": [GPU, HOT]}}
    eventually(lambda: ask(cluster, token, "PATCH", path, body).status == 200, "the account may write")
    value, dry = REFUSED["a value"], f"{path}?dryRun=All"  # the policy permits a value that is stored already
    eventually(lambda: ask(cluster, token, "PATCH", dry, value).status == 403, "the policy is in force")
    answers = {name: ask(cluster, token, "PATCH", path, body) for name, body in REFUSED.items()}
    assert {name: answer.status for name, answer in answers.items() if answer.status != 403} == {}
    assert all("headroom-node-status" in answer.message for answer in answers.values())
    for name, taints in ALLOWED.items():
        assert ask(cluster, token, "PATCH", path, {"spec": {"taints": taints}}).status == 200, name
        assert cluster.api.get(path)["spec"]["taints"] == taints, name


def test_strange_own_taint_blocks_no_write(stage: Stage, path: str) -> None:
    """A taint with our key that someone else set in another form stops no write of Mid resources."""
    cluster = stage.cluster
    cluster.api.merge(path, {"spec": {"taints": [{**HOT, "value": "by-hand"}]}})
    token = cluster.kubectl("-n", NAMESPACE, "create", "token", "headroom-manager").strip()
    amounts = {"kubernetes.io/mid-cpu": "7"}
    body = {"status": {"capacity": amounts, "allocatable": amounts}}
    assert ask(cluster, token, "PATCH", f"{path}/status", body).status == 200


def _daemon_set(stage: Stage, image: str) -> None:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    metadata = {"name": "d", "namespace": NAMESPACE}
    stage.cluster.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})


def _images(stage: Stage, path: str) -> list[str]:
    """The images of the DaemonSet's pods on a node."""
    pods = stage.get("pods", "-n", NAMESPACE, "-l", "app=d").get("items", [])
    here = [pod["spec"] for pod in pods if pod["spec"].get("nodeName") == path.rpartition("/")[2]]
    return [spec["containers"][0]["image"] for spec in here]


def test_daemon_sets_wait_on_tainted_nodes(stage: Stage, path: str) -> None:
    """As the page describes: a rollout deletes the running pod, which comes back when the taint allows it."""
    _daemon_set(stage, "old")
    eventually(lambda: _images(stage, path) == ["old"], "the pod is there")
    stage.cluster.api.merge(path, {"spec": {"taints": [HOT]}})
    _daemon_set(stage, "new")
    eventually(lambda: _images(stage, path) == [], "the rollout deletes the pod")
    stage.cluster.api.merge(path, {"spec": {"taints": [{**HOT, "effect": "PreferNoSchedule"}]}})
    eventually(lambda: _images(stage, path) == ["new"], "under PreferNoSchedule it starts")
    stage.cluster.kubectl("delete", "daemonset", "d", "-n", NAMESPACE)


def _report(stage: Stage, node: str, cpu: str) -> None:
    usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}}
    status = {"updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "nodeMetric": usage}
    stage.cluster.api.merge(f"{METRICS}/{node}/status", {"status": status})


def _configure(stage: Stage, mode: str) -> None:
    entry = {"name": "ours", "nodeSelector": {"matchLabels": stage.pool}}
    stage.configure({"nodeConfigs": [{**entry, "hotNodes": {"mode": mode, "afterSeconds": 0}}]})


def _reason(stage: Stage, node: str) -> str:
    conditions = stage.found(f"{METRICS}/{node}").get("status", {}).get("conditions", [])
    return next((entry["reason"] for entry in conditions if entry["type"] == "NodeHot"), "")


def _add_taints(stage: Stage, node: str, writer: int) -> None:
    """Add taints one by one, as another controller does: read, write with the version that was read, repeat."""
    for number in range(TAINTS_EACH):
        while True:
            read = stage.cluster.api.get(f"{NODES}/{node}")
            taints = [*read["spec"].get("taints", []), {"key": f"w{writer}-{number}", "effect": "PreferNoSchedule"}]
            body = {"metadata": {"resourceVersion": read["metadata"]["resourceVersion"]}, "spec": {"taints": taints}}
            try:
                stage.cluster.api.merge(f"{NODES}/{node}", body)
                break
            except ApiError as error:
                if error.status != 409:
                    raise


def test_taint_comes_and_goes_among_other_writers(stage: Stage, manager: Manager) -> None:
    """While others add taints at the same time, no taint of theirs is lost, and ours is set and removed."""
    _configure(stage, "noSchedule")
    stage.add_node("hot-a")
    threads = [threading.Thread(target=_add_taints, args=(stage, "hot-a", writer)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    _report(stage, "hot-a", "14")
    eventually(lambda: HOT in _taints(stage, "hot-a"), lambda: f"the taint is set; {manager.log_text()}")
    _report(stage, "hot-a", "1")
    eventually(lambda: HOT not in _taints(stage, "hot-a"), "the taint is removed")
    for thread in threads:
        thread.join(timeout=120)
    keys = {taint["key"] for taint in _taints(stage, "hot-a")}
    wanted = {f"w{writer}-{number}" for writer in range(WRITERS) for number in range(TAINTS_EACH)}
    assert wanted <= keys
    assert TAINT_HOT not in keys
    assert "orbidden" not in manager.log_text()


def test_off_and_report_of_an_event(stage: Stage, manager: Manager) -> None:
    """An event and the condition have the numbers, and mode off removes taint and condition."""
    _configure(stage, "prefer")
    stage.add_node("hot-b")
    _report(stage, "hot-b", "14")
    eventually(lambda: _reason(stage, "hot-b") == "Tainted", lambda: f"the condition is set; {manager.log_text()}")
    assert {"key": TAINT_HOT, "effect": "PreferNoSchedule"} in _taints(stage, "hot-b")
    assert "CPU 88 % of allocatable (threshold 65 %)" in stage.expect_event("HotTaintSet", "hot-b", "default")
    _configure(stage, "off")
    eventually(lambda: TAINT_HOT not in {taint["key"] for taint in _taints(stage, "hot-b")}, "the taint is removed")
    eventually(lambda: _reason(stage, "hot-b") == "", "the condition is removed")

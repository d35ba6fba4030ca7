"""The manager as a process, with exactly the rights that the chart gives it, against a real API server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.manager.stage import CONFIG_MAP, DEGRADE_SECONDS, METRICS, NAMESPACE, Manager, Stage, prepared
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

pytestmark = pytest.mark.cluster

Json = dict[str, Any]


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with prepared(cluster, NAMESPACE) as stage:
        yield stage


@pytest.fixture(scope="module")
def kubeconfig(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stage.login(tmp_path_factory.mktemp("manager") / "kubeconfig")


@pytest.fixture
def manager(stage: Stage, kubeconfig: Path, tmp_path: Path) -> Iterator[Manager]:
    """A manager with a good configuration; it must end in order, and have said nothing of tracebacks or rights."""
    stage.configure(stage.config)
    manager = Manager(kubeconfig, tmp_path / "manager.log", NAMESPACE)
    manager.start()
    try:
        yield manager
    finally:
        code = manager.stop()
    assert code == 0, manager.log_text()
    assert "Traceback" not in manager.log_text()
    if "cannot be reached" not in manager.log_text():  # an API server that has just come back refuses for a moment
        assert "orbidden" not in manager.log_text()


@pytest.mark.usefixtures("manager")
def test_node_metric_lives_with_node(stage: Stage) -> None:
    stage.add_node("life")
    metric = stage.get("nodemetric", "life")
    assert metric["spec"]["predictPolicy"]["model"] == "coincidence"
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
    stage.configure({"nodeConfigs": [{**stage.config["nodeConfigs"][0], "metricReportIntervalSeconds": 30}]})
    eventually(lambda: interval() == 30, "the spec follows the configuration")
    stage.cluster.kubectl("delete", "node", "life")
    eventually(lambda: not stage.get("nodemetric", "life"), "the NodeMetric goes with the Node")


@pytest.mark.usefixtures("manager")
def test_report_becomes_resources(stage: Stage) -> None:
    stage.add_node("publishes")
    before = stage.get("node", "publishes")["metadata"]
    stage.report("publishes", "4")
    stage.expect_cpu("publishes", "4k")
    assert stage.published("publishes")["kubernetes.io/mid-memory"] in {"10Gi", "10737418240"}
    stage.report("publishes", "3")
    stage.expect_cpu("publishes", "3k")
    stage.report("publishes", "5")
    stage.expect_cpu("publishes", "5k")
    for kind, name in (("node", "publishes"), ("nodemetric", "publishes")):
        metadata = stage.get(kind, name)["metadata"]
        assert "finalizers" not in metadata
        assert not any("kopf" in key or "headroom" in key for key in metadata.get("annotations", {}))
    assert _annotations(stage.get("node", "publishes")["metadata"]) == _annotations(before)
    config_map = stage.get("configmap", CONFIG_MAP, "-n", NAMESPACE)["metadata"]
    assert "finalizers" not in config_map
    assert set(config_map.get("annotations", {})) <= {"headroom.dev/config-state"}


def _annotations(metadata: Json) -> Json:
    """Annotations but for those that Kubernetes' own controllers write to every new Node, sooner or later."""
    result = metadata.get("annotations", {})
    return {name: text for name, text in result.items() if not name.startswith("node.alpha.kubernetes.io/")}


@pytest.mark.long
@pytest.mark.usefixtures("manager")
def test_silence_degrades(stage: Stage) -> None:
    """Without any event the deadline alone removes Mid."""
    stage.add_node("silent")
    stage.report("silent", "4", age_seconds=DEGRADE_SECONDS - 30)
    stage.expect_cpu("silent", "4k")
    stage.expect_cpu("silent", None)


def test_bad_config_keeps_last_good(stage: Stage, manager: Manager) -> None:
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
    stage.add_node("deleted")
    stage.report("deleted", "4")
    stage.expect_cpu("deleted", "4k")
    stage.cluster.kubectl("delete", "configmap", CONFIG_MAP, "-n", NAMESPACE)
    stage.expect_cpu("deleted", None)
    stage.expect_event("ColocationConfigDeleted", CONFIG_MAP)


def test_second_start_writes_nothing(stage: Stage, manager: Manager) -> None:
    stage.add_node("again")
    stage.report("again", "4")
    stage.expect_cpu("again", "4k")
    eventually(
        lambda: len(stage.found(f"{METRICS}/again")["status"].get("conditions", [])) == 3, "nothing is left to do"
    )
    assert manager.stop() == 0
    began = datetime.now(UTC)
    manager.start()
    stage.add_node("sees-all")
    stage.report("sees-all", "4")
    stage.expect_cpu("sees-all", "4k")  # the Nodes of before were reconciled first
    assert manager.stop() == 0
    written = [
        request for request in stage.requests() if request.at > began and request.writes and request.name == "again"
    ]
    assert written == []
    manager.start()


def test_api_server_may_go_away(stage: Stage, manager: Manager) -> None:
    stage.add_node("away")
    stage.report("away", "4")
    stage.expect_cpu("away", "4k")
    stage.cluster.apiserver.stop()
    eventually(lambda: "cannot be reached" in manager.log_text(), "the outage is noticed")
    assert manager.healthy()
    stage.cluster.apiserver.start()

    def reported() -> bool:
        try:
            stage.report("away", "2")
        except (ApiError, OSError):  # the API server is still warming up
            return False
        return True

    eventually(reported, "the API server takes writes again")
    stage.expect_cpu("away", "2k")
    stage.add_node("after")

"""The definition of NodeMetric is missing, comes, goes and comes back: the manager works all the time."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manager.stage import CPU, METRICS, ROOT, Manager, Stage, prepared
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

pytestmark = [pytest.mark.cluster, pytest.mark.long]

MANIFEST = ROOT / "crds/node_metric.yaml"
NODE = "undefined"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A namespace of our own. Other tests share the cluster, so the definition is put back."""
    with prepared(cluster, "definition-test") as stage:
        stage.configure(stage.config)
        try:
            yield stage
        finally:
            cluster.define(MANIFEST)


@pytest.fixture
def manager(stage: Stage, tmp_path: Path) -> Iterator[Manager]:
    """A manager that has not started."""
    manager = Manager(stage.login(tmp_path / "kubeconfig"), tmp_path / "manager.log", stage.namespace)
    yield manager
    assert manager.stop() == 0
    assert "Traceback" not in manager.said()


def _take_away(stage: Stage) -> None:
    stage.cluster.kubectl("delete", "-f", MANIFEST)
    eventually(lambda: _is_unknown(stage), "NodeMetric is not served")


def _is_unknown(stage: Stage) -> bool:
    try:
        return not stage.found(METRICS)
    except ApiError:  # while a definition goes, there are other answers than that
        return False


def _bind_mid_pod(stage: Stage) -> None:
    amounts = {CPU: "2500", "kubernetes.io/mid-memory": "1Gi"}
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {"name": "mid", "namespace": stage.namespace, "labels": {"koordinator.sh/priority-class": "koord-mid"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": NODE, "tolerations": [{"operator": "Exists"}], "containers": [container]},
    }
    stage.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    stage.admit("mid")


def _defined(manager: Manager) -> bool:
    return "headroom_manager_nodemetric_defined 1.0" in manager.page("/metrics")[1]


def test_definition_may_come_and_go(stage: Stage, manager: Manager) -> None:
    """Without the definition nodes offer no more than runs, which is said once; when it comes back, so does Mid."""
    _take_away(stage)
    manager.start(wait=False)
    eventually(manager.is_leader, "the manager leads")
    unready = "[-] nodemetrics: the API server does not know NodeMetric"
    eventually(lambda: unready in manager.page("/readyz")[1], "the page says what is missing")
    assert manager.page("/readyz")[0] == 503
    assert manager.healthy()
    eventually(lambda: not _defined(manager), "the metric tells")

    stage.cluster.define(MANIFEST)
    stage.add_node(NODE)
    eventually(lambda: manager.page("/readyz")[0] == 200, "the manager is ready")
    stage.report(NODE, "4")
    stage.expect_cpu(NODE, "4k")
    eventually(lambda: _defined(manager), "the metric tells")
    _bind_mid_pod(stage)

    _take_away(stage)
    stage.expect_cpu(NODE, "2500")
    eventually(lambda: not _defined(manager), "the metric tells")
    assert manager.page("/readyz")[0] == 200
    told = "NodeMetric: the API server does not know"
    eventually(lambda: told in manager.page("/readyz?verbose")[1], "the page says what is missing")

    stage.cluster.define(MANIFEST)
    eventually(lambda: bool(stage.found(f"{METRICS}/{NODE}")), "the node has a NodeMetric again")
    stage.report(NODE, "4")
    stage.expect_cpu(NODE, "4k")
    lines = [line for line in manager.said().splitlines() if "Cannot watch" in line and "nodemetrics" in line]
    assert len(lines) == 2, manager.said()
    assert all("is the definition (CRD) of that kind installed?" in line for line in lines)

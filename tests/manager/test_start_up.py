"""Starting and ending with many nodes, and while the API server is away."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.manager.stage import CPU, METRICS, NODES, Manager, Stage, prepared
from tests.support.waiting import eventually
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAMES = [f"many-{number:03}" for number in range(300)]


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A namespace of our own."""
    with prepared(cluster, "start-test") as stage:
        stage.config["nodeConfigs"][0]["degradeTimeMinutes"] = 60
        stage.configure(stage.config)
        yield stage


@pytest.fixture(scope="module")
def kubeconfig(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A login as the manager's service account."""
    return stage.login(tmp_path_factory.mktemp("manager") / "kubeconfig")


@pytest.fixture
def manager(stage: Stage, kubeconfig: Path, tmp_path: Path) -> Iterator[Manager]:
    """A manager that has not started."""
    manager = Manager(kubeconfig, tmp_path / "manager.log", stage.namespace)
    yield manager
    assert manager.stop() == 0
    assert "Traceback" not in manager.said()


@pytest.fixture(scope="module")
def crowd(stage: Stage) -> None:
    """Many nodes."""
    stage.make_nodes(*NAMES)


def _with_metric(stage: Stage) -> set[str]:
    found = {each["metadata"]["name"] for each in stage.found(METRICS)["items"]}
    return found.intersection(NAMES)


def _publishing(stage: Stage) -> set[str]:
    items = stage.found(f"{NODES}?labelSelector=pool={stage.namespace}")["items"]
    return {each["metadata"]["name"] for each in items if CPU in each["status"]["allocatable"]}


def _figure(manager: Manager, name: str) -> float:
    found = re.search(rf"^headroom_manager_{name} (.*)$", manager.page("/metrics")[1], re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.usefixtures("crowd")
def test_stop_in_the_middle_of_work(stage: Stage, manager: Manager) -> None:
    """A manager that has hundreds of nodes to write to ends in order when it is told to."""
    manager.start()
    eventually(lambda: len(_with_metric(stage)) > 10, "the work has begun")
    began = time.monotonic()
    assert manager.stop() == 0
    print(f"SIGTERM with {len(_with_metric(stage))} of {len(NAMES)} NodeMetrics made: {time.monotonic() - began:.1f} s")
    assert manager.said().splitlines()[-1].endswith("Stopped")


@pytest.mark.usefixtures("crowd")
def test_second_start_writes_nothing(stage: Stage, manager: Manager) -> None:
    """A manager that finds everything as it should be writes nothing at its start but its Lease."""
    manager.start()
    eventually(lambda: _with_metric(stage) == set(NAMES), "every node has a NodeMetric")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: stage.report(name, "4"), NAMES))
    eventually(lambda: _publishing(stage) == set(NAMES), "every node publishes")
    eventually(lambda: _figure(manager, "queue_nodes") == 0, "nothing is left to do")
    assert manager.stop() == 0
    began = datetime.now(UTC)
    manager.start()

    def looked_at_all() -> bool:
        return _figure(manager, "reconcile_seconds_count") >= len(NAMES) and _figure(manager, "queue_nodes") == 0

    eventually(looked_at_all, "every node has been looked at")
    assert manager.is_leader()
    assert manager.stop() == 0
    asked = [each for each in stage.requests() if each.at > began]
    assert not [each for each in asked if each.writes and each.resource != "leases"]
    print(f"second start with {len(NAMES)} nodes: {len(asked)} requests, no write but to the Lease")


def test_start_without_server(stage: Stage, manager: Manager) -> None:
    """A manager that starts while the API server is away says so once, waits, and then does its work."""
    stage.cluster.apiserver.stop()
    try:
        manager.start(wait=False)
        eventually(lambda: "cannot be reached" in manager.page("/readyz")[1], "the page says what is missing")
        assert manager.healthy()
    finally:
        stage.cluster.apiserver.start()
    eventually(lambda: manager.page("/readyz")[0] == 200, "the manager is ready")
    stage.add_node("late")
    stage.report("late", "4")
    stage.expect_cpu("late", "4k")
    assert len([line for line in manager.said().splitlines() if "Waiting for the API server" in line]) <= 2

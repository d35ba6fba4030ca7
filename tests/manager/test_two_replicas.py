"""Two managers, of which one writes: killed, frozen, ended in order. What each wrote is read from the audit log."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.manager.stage import Manager, Request, Stage, prepared
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with prepared(cluster, "replicas-test") as stage:
        stage.configure(stage.config)
        yield stage


@pytest.fixture
def nodes(stage: Stage, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Names of nodes, different for each test: leftovers of a deleted one would disturb."""
    names = [f"{request.function.__name__.replace('_', '-')}-{number}" for number in range(6)]
    yield names
    stage.wipe(*names)


@pytest.fixture
def replicas(stage: Stage, nodes: list[str], tmp_path: Path) -> Iterator[tuple[Manager, Manager]]:
    kubeconfig = stage.login(tmp_path / "kubeconfig")
    made = [Manager(kubeconfig, tmp_path / f"{name}.log", stage.namespace, name=name) for name in ("one", "two")]
    leader, standby = made
    try:
        leader.start()
        eventually(leader.is_leader, "the first one leads")
        standby.start()
        assert not standby.is_leader()
        for node in nodes:
            stage.add_node(node)
            stage.report(node, "4")
            stage.expect_cpu(node, "4k")
        yield leader, standby
    finally:
        for entry in made:
            entry.send(signal.SIGCONT)
            entry.stop(signal.SIGKILL)
    for made_object in made:
        assert "Traceback" not in made_object.log_text()


@contextmanager
def load(stage: Stage, nodes: list[str]) -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        amount = 4.0
        while not ended.is_set():
            amount = 4.0 if amount < 1.0 else amount - 0.1
            for node in nodes:
                with suppress(ApiError, OSError):
                    stage.report(node, f"{round(amount * 1000)}m")
            ended.wait(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _writes(stage: Stage, replica: Manager) -> list[Request]:
    named = [request for request in stage.requests() if request.writes and f"({replica.name}_" in request.agent]
    return [entry for entry in named if entry.resource != "leases" and entry.code < 400]


def _wrote(stage: Stage, replica: Manager, after: datetime) -> Callable[[], bool]:
    return lambda: any(write.at > after for write in _writes(stage, replica))


def _expect_hand_over(stage: Stage, old: Manager, new: Manager, since: datetime) -> float:
    """No write of the old one comes after the first one of the new one. [s from `since` to that]"""
    first = min(write.at for write in _writes(stage, new) if write.at > since)
    before = _writes(stage, old)
    assert before
    late = [entry for entry in before if entry.at >= first]
    assert not late, late
    return (first - since).total_seconds()


def test_killed_leader_is_replaced(stage: Stage, nodes: list[str], replicas: tuple[Manager, Manager]) -> None:
    leader, standby = replicas
    with load(stage, nodes):
        eventually(_wrote(stage, leader, datetime.now(UTC)), "the leader writes")
        killed = datetime.now(UTC)
        assert leader.stop(signal.SIGKILL) == -signal.SIGKILL
        eventually(_wrote(stage, standby, killed), "the standby writes")
    seconds = _expect_hand_over(stage, leader, standby, killed)
    print(f"kill -9 of the leader: the standby's first write came after {seconds:.1f} s (allowed: 15 s)")


@pytest.mark.long
def test_frozen_leader_stops_writing(stage: Stage, nodes: list[str], replicas: tuple[Manager, Manager]) -> None:
    leader, standby = replicas
    with load(stage, nodes):
        eventually(_wrote(stage, leader, datetime.now(UTC)), "the leader writes")
        frozen = datetime.now(UTC)
        leader.send(signal.SIGSTOP)
        eventually(_wrote(stage, standby, frozen), "the standby writes")
        leader.send(signal.SIGCONT)
        eventually(lambda: "is a standby of two" in leader.page("/readyz?verbose")[1], "the old leader is a standby")
        thawed = datetime.now(UTC)
        eventually(_wrote(stage, standby, thawed), "the standby goes on writing")
    seconds = _expect_hand_over(stage, leader, standby, frozen)
    print(f"SIGSTOP of the leader: the standby's first write came after {seconds:.1f} s")
    assert leader.page("/readyz")[0] == 200


@pytest.mark.long
def test_leader_hands_over(stage: Stage, nodes: list[str], replicas: tuple[Manager, Manager]) -> None:
    leader, standby = replicas
    with load(stage, nodes):
        eventually(_wrote(stage, leader, datetime.now(UTC)), "the leader writes")
        requested, began = datetime.now(UTC), time.monotonic()
        assert leader.stop() == 0
        took = time.monotonic() - began
        eventually(_wrote(stage, standby, requested), "the standby writes")
    seconds = _expect_hand_over(stage, leader, standby, requested)
    print(f"SIGTERM of the leader: it ended after {took:.1f} s, the standby's first write came after {seconds:.1f} s")
    assert "Stopped" in leader.log_text().splitlines()[-1]

"""Pods and node from the API server's watch, or from the machine."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from agent.host.cgroup import CgroupTree, detect
from agent.host.procfs import HostPaths
from agent.host.reopening_files import Unreadable
from agent.sources.node import ApiNode, MachineNode, read_node
from agent.sources.pod import ApiPods, CgroupPods, ListedAndCgroupPods
from crds.priority import PriorityBand
from headroom import kube
from tests.agent.recorded import RecordedMachine

NO_SERVER: Any = None  # no request is sent in these tests


def _pod(uid: str, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "namespace": "n", "name": uid},
        "spec": {"containers": []},
        "status": {"phase": phase},
    }


def test_watch_keeps_pods_current() -> None:
    """A list replaces everything, changes add, replace and remove."""
    source = ApiPods(NO_SERVER, "worker")
    assert not source.synced
    source.apply(kube.Relisted([_pod("a"), _pod("b")]))
    source.apply(kube.Changed("ADDED", _pod("c", "Pending")))
    source.apply(kube.Changed("MODIFIED", _pod("a", "Succeeded")))
    source.apply(kube.Changed("DELETED", _pod("b")))
    assert {pod.uid: (pod.running, pod.terminal) for pod in source.pods()} == {"a": (False, True), "c": (False, False)}
    source.apply(kube.Relisted([_pod("d")]))
    assert [pod.uid for pod in source.pods()] == ["d"]


def test_unlisted_tree_keeps_its_pods(
    recorded: Callable[[str], RecordedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the cgroup tree cannot be listed, the pods that were there stay, and the source says why."""
    tree = CgroupTree(detect(HostPaths.under(recorded("v2-systemd").live).cgroup))
    tree.locate()
    source = CgroupPods(tree)
    before = source.pods()
    assert before
    with monkeypatch.context() as patch:
        patch.setattr(CgroupTree, "_in", _kept_from_us)
        assert source.pods() == before
        assert "kubepods: Permission denied" in source.problem
    assert source.pods() == before
    assert source.problem == ""


def _kept_from_us(*_: object) -> None:
    raise Unreadable(errno.EACCES, "kubepods: Permission denied")


def test_problem_of_the_watch() -> None:
    """While the watch is not up, the source says why; the pods stay."""
    source = ApiPods(NO_SERVER, "worker")
    source.apply(kube.Relisted([_pod("a")]))
    assert source.problem == ""
    source.health.problem = "pods is forbidden"
    assert source.problem == "the pods of this node cannot be watched: pods is forbidden"
    assert len(source.pods()) == 1


def test_bad_pod_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """One pod that cannot be read is said in one line, and the others are kept."""
    source = ApiPods(NO_SERVER, "worker")
    bad = _pod("bad")
    bad["spec"]["containers"] = [{"resources": {"requests": {"cpu": "lots"}}}]
    source.apply(kube.Relisted([bad, _pod("good")]))
    assert [pod.uid for pod in source.pods()] == ["good"]
    assert "lots" in caplog.text


def test_tree_alone_has_pods(recorded: Callable[[str], RecordedMachine]) -> None:
    """Without the API the cgroup tree says which pods there are."""
    machine = recorded("v2-systemd")
    tree = CgroupTree(detect(machine.live / "sys/fs/cgroup"))
    tree.locate()
    source = CgroupPods(tree)
    assert source.synced
    assert len(source.pods()) == 10


def test_unlisted_pods_are_prod(recorded: Callable[[str], RecordedMachine]) -> None:
    """What has a cgroup and is on no list is Prod without requests, from the list's first coming until it is listed."""
    machine = recorded("v2-systemd")
    tree = CgroupTree(detect(machine.live / "sys/fs/cgroup"))
    tree.locate()
    uids = sorted(tree.pods())
    listed, now = ApiPods(NO_SERVER, "worker"), 100.0
    source = ListedAndCgroupPods(listed, tree, lambda: now)
    assert list(source.pods()) == []  # unknown yet
    listed.health.synced = True
    listed.apply(kube.Relisted([_pod(uid, "Succeeded" if uid == uids[2] else "Running") for uid in uids[2:]]))
    known = source.pods()
    assert sorted(pod.uid for pod in known) == uids  # one that has ended is known, too
    others = [pod for pod in known if not pod.listed]
    assert [(pod.uid, pod.band, pod.requests, pod.created) for pod in others] == [
        (uid, PriorityBand.PROD, {}, 100.0) for uid in uids[:2]
    ]
    now = 200.0
    listed.apply(kube.Changed("ADDED", _pod(uids[0])))
    assert [(pod.uid, pod.created) for pod in source.pods() if not pod.listed] == [(uids[1], 100.0)]
    tree.latest = {}
    assert all(pod.listed for pod in source.pods())


def test_machine_is_a_node(recorded: Callable[[str], RecordedMachine]) -> None:
    """Without the API the node has the machine's CPUs and memory."""
    machine = recorded("v2-systemd")
    facts = MachineNode(HostPaths.under(machine.live)).resources
    assert facts.capacity == facts.allocatable == {"cpu": 2000, "memory": 1547177984}
    assert MachineNode(HostPaths.under("/nowhere")).resources.capacity == {}


def _node(**annotations: str) -> dict[str, Any]:
    names = {"raw": "node.koordinator.sh/raw-allocatable", "reservation": "node.koordinator.sh/reservation"}
    return {
        "metadata": {"annotations": {names[key]: value for key, value in annotations.items()}},
        "status": {
            "allocatable": {"cpu": "3900m", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "9Gi"},
        },
    }


def test_node_states_amounts() -> None:
    """Allocatable and capacity are read as milli-cores and bytes."""
    facts, problems, _ = read_node(_node())
    assert facts.allocatable == {"cpu": 3900, "memory": 8 << 30}
    assert facts.capacity == {"cpu": 4000, "memory": 9 << 30}
    assert facts.reservation == {}
    assert problems == ()


def test_raw_allocatable_wins() -> None:
    """Where resources are amplified, the amount before amplification counts; what it leaves out stays as stated."""
    facts, _, _ = read_node(_node(raw='{"cpu": "2"}'))
    assert facts.allocatable == {"cpu": 2000, "memory": 8 << 30}


def test_bad_raw_allocatable_is_ignored() -> None:
    """An annotation with an amount that is none counts as a whole as absent, and is named."""
    facts, problems, _ = read_node(_node(raw='{"cpu": "many", "memory": "1Gi"}'))
    assert facts.allocatable == {"cpu": 3900, "memory": 8 << 30}
    assert "raw-allocatable.cpu" in problems[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"resources": {"cpu": "1", "memory": "1Gi"}}', {"cpu": 1000, "memory": 1 << 30}),
        ('{"resources": {"cpu": "5", "memory": "10"}, "reservedCPUs": "0-1"}', {"cpu": 2000, "memory": 10}),
        ('{"reservedCPUs": "0-1,4"}', {"cpu": 3000}),
    ],
)
def test_reservation(text: str, expected: dict[str, int]) -> None:
    """Named CPUs count whole, and override the number."""
    facts, problems, _ = read_node(_node(reservation=text))
    assert facts.reservation == expected
    assert not problems


@pytest.mark.parametrize(
    "text", ["no json", "[]", '{"reservedCPUs": "x"}', '{"resources": {"cpu": "x"}}', "[" * 100_000]
)
def test_bad_annotation_is_ignored(text: str) -> None:
    """An annotation that cannot be used reserves nothing, and is said in one sentence."""
    facts, problems, _ = read_node(_node(reservation=text))
    assert facts.reservation == {}
    assert len(problems) == 1
    assert "it is ignored" in problems[0]


def test_node_states_kubelet(caplog: pytest.LogCaptureFixture) -> None:
    """The Node says where its kubelet listens; what it leaves out is the usual port, or unknown."""
    addresses = [{"type": "Hostname", "address": "worker"}, {"type": "InternalIP", "address": "10.0.0.7"}]
    assert read_node({"status": {"addresses": addresses}})[2] == ("10.0.0.7", 10250)
    port = {"kubeletEndpoint": {"Port": 1234}}
    assert read_node({"status": {"addresses": addresses, "daemonEndpoints": port}})[2] == ("10.0.0.7", 1234)
    assert read_node({"status": {"addresses": addresses[:1]}})[2] is None
    assert read_node({})[2] is None
    source = ApiNode(NO_SERVER, "worker")
    source.apply(kube.Relisted([{"status": {"addresses": addresses}}]))
    source.apply(kube.Relisted([]))  # a Node that registers anew is where it was
    assert source.kubelet == ("10.0.0.7", 10250)
    assert "there is no Node named worker" in caplog.text


def test_node_watch(caplog: pytest.LogCaptureFixture) -> None:
    """The node's facts follow its watch; a name that does not exist is said once."""
    source = ApiNode(NO_SERVER, "worker")
    assert source.resources.capacity == {}
    source.apply(kube.Relisted([]))
    source.apply(kube.Relisted([]))
    assert caplog.text.count("no Node named worker") == 1
    source.apply(kube.Changed("ADDED", _node()))
    assert source.resources.capacity["cpu"] == 4000
    source.apply(kube.Changed("DELETED", _node()))
    assert source.resources.capacity == {}

import asyncio
import errno
import json
from typing import Any

import pytest
from aiohttp import web

from agent.host.cgroup import CgroupTree, detect
from agent.host.procfs import HostPaths
from agent.host.reopening_files import Unreadable
from agent.settings import load
from agent.sources.node import ApiNode, MachineNode, read_node
from agent.sources.pod import ApiPods, CgroupPods, ListedAndCgroupPods
from agent.wiring import _pod_source
from crds.priority import PriorityBand
from headroom import kube
from headroom.cluster.typed_pod import undecoded
from tests.agent.recorded import RecordedMachine
from tests.headroom.kube.fake import serving

NO_SERVER: Any = None  # no request is sent in these tests


def _pod(uid: str, phase: str = "Running") -> dict[str, Any]:
    metadata = {"uid": uid, "namespace": "n", "name": uid}
    return {"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}}


@pytest.fixture
def tree(machine: RecordedMachine) -> CgroupTree:
    result = CgroupTree(detect(machine.live / "sys/fs/cgroup"))
    result.locate()
    return result


def sent(pod: object) -> dict[str, Any]:
    return undecoded(json.dumps(pod).encode())


def listed_in(source: ApiPods, *pods: object) -> kube.Relisted:
    return kube.Relisted([source._ref(sent(pod)) for pod in pods])


def test_list_replaces_and_changes_add_replace_and_remove(caplog: pytest.LogCaptureFixture) -> None:
    """A pod that cannot be read is named, and the others are kept; they stay while the watch is not up."""
    source = ApiPods(NO_SERVER, "worker")
    assert not source.synced
    bad = _pod("bad")
    bad["spec"]["containers"] = [{"resources": {"requests": {"cpu": "lots"}}}]
    source.apply(listed_in(source, _pod("a"), bad, _pod("b")))
    assert "lots" in caplog.text
    source.apply(kube.Changed("ADDED", sent(_pod("c", "Pending"))))
    source.apply(kube.Changed("MODIFIED", sent(_pod("a", "Succeeded"))))
    source.apply(kube.Changed("DELETED", sent(_pod("b"))))
    assert {pod.uid: (pod.running, pod.terminal) for pod in source.pods()} == {"a": (False, True), "c": (False, False)}
    source.apply(listed_in(source, _pod("d")))
    assert source.problem == ""
    source.health.problem = "pods is forbidden"
    assert source.problem == "the pods of this node cannot be watched: pods is forbidden"
    assert [pod.uid for pod in source.pods()] == ["d"]


def test_settings_add_labels_of_templates() -> None:
    """Labels of a setting name the template of pods that run once, besides the known ones."""
    settings = load(["--workload-labels", "example.com/pipeline+step, tool"], {})
    server: Any = object()
    source = _pod_source(settings, server, NO_SERVER)
    assert isinstance(source, ApiPods)
    labels = [{"example.com/pipeline": "app", "step": "lint"}, {"tool": "x"}, {"jenkins/label": "maven"}, {"step": "x"}]
    pods = [_pod(str(row)) for row in range(len(labels))]
    for pod, labels_of_pod in zip(pods, labels, strict=True):
        pod["metadata"]["labels"] = labels_of_pod
    source.apply(listed_in(source, *pods))
    workloads = ["n/example.com/pipeline/app/lint", "n/tool/x", "n/JenkinsAgent/maven", None]
    assert [pod.workload for pod in source.pods()] == workloads


def test_tree_has_the_pods_and_keeps_them_while_it_cannot_be_listed(
    tree: CgroupTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept_from_us(*_: object) -> None:
        raise Unreadable(errno.EACCES, "kubepods: Permission denied")

    source = CgroupPods(tree)
    before = source.pods()
    assert (source.synced, len(before)) == (True, 10)
    with monkeypatch.context() as patch:
        patch.setattr(CgroupTree, "_in", kept_from_us)
        assert source.pods() == before
        assert "kubepods: Permission denied" in source.problem
    assert (source.pods(), source.problem) == (before, "")


def test_pods_on_no_list_are_prod_without_requests(tree: CgroupTree) -> None:
    """From the list's first coming until they are listed."""
    uids, listed, now = sorted(tree.pods()), ApiPods(NO_SERVER, "worker"), 100.0
    source = ListedAndCgroupPods(listed, tree, lambda: now)
    assert list(source.pods()) == []  # unknown yet
    listed.health.synced = True
    listed.apply(listed_in(listed, *(_pod(uid, "Succeeded" if uid == uids[2] else "Running") for uid in uids[2:])))
    pods = source.pods()
    assert sorted(pod.uid for pod in pods) == uids  # one that has ended is known, too
    remaining = [(pod.uid, pod.band, pod.requests, pod.created) for pod in pods if not pod.listed]
    assert remaining == [(uid, PriorityBand.PROD, {}, 100.0) for uid in uids[:2]]
    now = 200.0
    listed.apply(kube.Changed("ADDED", sent(_pod(uids[0]))))
    assert [(pod.uid, pod.created) for pod in source.pods() if not pod.listed] == [(uids[1], 100.0)]
    tree.latest = {}
    assert all(pod.listed for pod in source.pods())


def test_machine_is_a_node_of_its_own_size(machine: RecordedMachine) -> None:
    result = MachineNode(HostPaths.under(machine.live)).resources
    assert result.capacity == result.allocatable == {"cpu": 2000, "memory": 1547177984}
    assert MachineNode(HostPaths.under("/nowhere")).resources.capacity == {}


RAW, RESERVATION = "node.koordinator.sh/raw-allocatable", "node.koordinator.sh/reservation"
GIB = 1 << 30


def _node(**annotations: str) -> dict[str, Any]:
    capacity = {"cpu": "4", "memory": "9Gi"}
    status = {"allocatable": {"cpu": "3900m", "memory": "8Gi", "pods": "110"}, "capacity": capacity}
    return {"metadata": {"annotations": annotations}, "status": status}


@pytest.mark.parametrize(
    ("annotations", "allocatable", "reservation"),
    [
        ({}, {"cpu": 3900, "memory": 8 * GIB}, {}),
        ({RAW: '{"cpu": "2"}'}, {"cpu": 2000, "memory": 8 * GIB}, {}),  # the amount before amplification
        (
            {RESERVATION: '{"resources": {"cpu": "1", "memory": "1Gi"}}'},
            {"cpu": 3900, "memory": 8 * GIB},
            {"cpu": 1000, "memory": GIB},
        ),
        (  # named CPUs count whole, and override the number
            {RESERVATION: '{"resources": {"cpu": "5", "memory": "10"}, "reservedCPUs": "0-1"}'},
            {"cpu": 3900, "memory": 8 * GIB},
            {"cpu": 2000, "memory": 10},
        ),
        ({RESERVATION: '{"reservedCPUs": "0-1,4"}'}, {"cpu": 3900, "memory": 8 * GIB}, {"cpu": 3000}),
    ],
)
def test_amounts_of_a_node(
    annotations: dict[str, str], allocatable: dict[str, int], reservation: dict[str, int]
) -> None:
    result, problems = read_node(_node(**annotations))
    assert (result.allocatable, result.reservation, problems) == (allocatable, reservation, ())
    assert result.capacity == {"cpu": 4000, "memory": 9 * GIB}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (RAW, '{"cpu": "many", "memory": "1Gi"}', "raw-allocatable.cpu"),
        *(
            (RESERVATION, text, "it is ignored")
            for text in ("no json", "[]", '{"reservedCPUs": "x"}', '{"resources": {"cpu": "x"}}', "[" * 100_000)
        ),
    ],
)
def test_annotation_that_cannot_be_used_is_ignored_as_a_whole_and_named(name: str, text: str, said: str) -> None:
    result, (problem,) = read_node(_node(**{name: text}))
    assert (result.allocatable, result.reservation) == ({"cpu": 3900, "memory": 8 * GIB}, {})
    assert said in problem


def test_node_follows_its_watch(caplog: pytest.LogCaptureFixture) -> None:
    """A name that does not exist is logged once."""
    source = ApiNode(NO_SERVER, "worker")
    assert source.resources.capacity == {}
    for _ in range(2):
        source.apply(kube.Relisted([]))
    assert caplog.text.count("there is no Node named worker") == 1
    source.apply(kube.Changed("ADDED", _node()))
    assert source.resources.capacity["cpu"] == 4000
    source.apply(kube.Changed("DELETED", _node()))
    assert source.resources.capacity == {}


@pytest.mark.parametrize(("source", "selector"), [(ApiPods, "spec.nodeName=worker"), (ApiNode, "metadata.name=worker")])
async def test_only_own_objects_are_listed(source: type[ApiPods | ApiNode], selector: str) -> None:
    """The agent requests this node's pods and its Node only."""
    listed = asyncio.Event()

    async def refuse(_: web.Request) -> web.Response:
        listed.set()
        return web.Response(status=503)

    async with serving() as (fake, api), asyncio.timeout(60):
        fake.add("list", refuse)
        task = asyncio.create_task(source(api, "worker").run())
        await listed.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [query["fieldSelector"] for query in fake.queries("list")] == [selector]

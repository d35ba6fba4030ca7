"""The agent goes on, whatever API server, kubelet and kernel say."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from agent.capture.recording import NotARecording
from agent.capture.replay import replay
from agent.collectors.base import Machine, resolve
from agent.host.cgroup import CgroupTree, detect
from agent.host.procfs import HostPaths
from agent.pods import PodRef
from agent.samples import CPU, MEMORY, NODE, REASONS
from agent.sources.node import ApiNode
from agent.sources.pod import ApiPods, CgroupPods
from agent.store_failover import StoreFailover
from agent.tsdb.tsdb import Tsdb
from headroom import kube
from headroom.kube.errors import ApiUnavailable
from headroom.kube.watch import _event, _Gone, _version
from tests.agent.made_pipeline import made_pipeline
from tests.agent.test_sources import listed_in, sent
from tests.fuzz import originals
from tests.fuzz.inputs import Json, any_json, damaged, kernel_texts, objects
from tests.fuzz.originals import POD, V1_MEMORY_STAT, V1_USAGE, V2_CPU_STAT, V2_MEMORY_STAT
from tests.fuzz.strength import answer_or_refusal, fuzz

NO_API: Any = None  # these tests send no request
LINE = json.dumps({"type": "MODIFIED", "object": {**POD, "metadata": {**POD["metadata"], "resourceVersion": "7"}}})
DEEP = st.integers(1, 100_000).map(lambda levels: "[" * levels)
START = 1_700_000_000.0
UIDS = ("0f7b5cd5-2f3a-44b2-9d4e-3c3a0a5f7c11", "9e0ea92a4b5cb3a9d4e3c3a0a5f7c11a")
V2_POD = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice"
CONTROLLERS = "sys/fs/cgroup/cgroup.controllers"
PROC = {"proc/stat": originals.STAT, "proc/meminfo": originals.MEMINFO, "proc/pressure/cpu": originals.PRESSURE}
V1 = PROC | {
    f"sys/fs/cgroup/{where.format(uid)}": text
    for uid in UIDS
    for where, text in (
        ("cpuacct/kubepods/burstable/pod{}/cpuacct.usage", V1_USAGE),
        ("memory/kubepods/burstable/pod{}/memory.stat", V1_MEMORY_STAT),
    )
}
V2 = {**PROC, CONTROLLERS: "cpu memory"} | {
    f"{V2_POD.format(uid.replace('-', '_'))}/{name}": text
    for uid in UIDS
    for name, text in (("cpu.stat", V2_CPU_STAT), ("memory.stat", V2_MEMORY_STAT))
}
CONTENTS = kernel_texts(*V1.values(), *V2.values()) | st.none()


def write(root: Path, files: dict[str, str]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def damage(path: Path, content: str | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(content, encoding="utf-8", errors="replace")


def tree_of(root: Path) -> CgroupTree:
    tree = CgroupTree(detect(HostPaths.under(root).cgroup))
    tree.locate()
    return tree


@fuzz(line=damaged(LINE) | any_json().map(json.dumps) | DEEP | st.text())
def test_watch_event_is_one_or_the_end_or_quoted(line: str) -> None:
    try:
        version = answer_or_refusal(
            lambda: _version(_event(line.encode(errors="replace")).object), ApiUnavailable, "not an event"
        )
    except _Gone:
        return
    assert version is None or isinstance(version, str)


@fuzz(
    kind=st.sampled_from(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "?")),
    pod=objects(POD),
    nodes=st.lists(objects(originals.NODE), max_size=2),
    pods=st.lists(objects(POD) | any_json()),
)
def test_watched_objects_leave_pods(kind: str, pod: Json, nodes: list[Json], pods: list[Json]) -> None:
    source, node = ApiPods(NO_API, "worker"), ApiNode(NO_API, "worker")
    refused: list[str] = []
    source.on_rejected = node.on_rejected = refused.append
    source.apply(listed_in(source, *pods))
    assert len(source.pods()) + refused.count("pod") <= len(pods)
    if isinstance(pod, dict) and isinstance(pod.get("metadata"), dict):  # else it was no event
        source.apply(kube.Changed(kind, sent(pod)))
    node.apply(kube.Relisted(nodes))
    assert all(isinstance(pod, PodRef) and isinstance(pod.uid, str) for pod in source.pods())


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> CgroupTree:
    root = tmp_path_factory.mktemp("host")
    write(root, {CONTROLLERS: "cpu memory", f"sys/fs/cgroup/kubepods/burstable/pod{UIDS[0]}/cpu.stat": ""})
    return tree_of(root)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folder") / "root"


@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
@fuzz(accidents=st.dictionaries(st.integers(0, 6), CONTENTS, min_size=1, max_size=4))
def test_each_value_is_a_sample_or_a_gap(folder: Path, files: dict[str, str], accidents: dict[int, str | None]) -> None:
    """After any accident to a machine's files, each gap has a known reason, and the tick is stored."""
    write(folder, files)
    tree, now = tree_of(folder), [0.0]
    machine = Machine(HostPaths.under(folder), tree, lambda: now[0], float(os.sysconf("SC_CLK_TCK")))
    steps = ("node", "pod", "pressure")
    pipeline = made_pipeline(StoreFailover(Tsdb.in_memory), resolve(steps, machine), CgroupPods(tree))
    pipeline.run_once(START)
    for which, content in accidents.items():
        damage(folder / sorted(files.keys() - {CONTROLLERS})[which], content)
    now[0] += 1.0
    pipeline.run_once(START + 1.0)
    assert pipeline.failing.keys() <= set(steps), pipeline.failing
    assert pipeline.last_tick == START + 1.0
    missing = {(gap.metric, gap.entity) for gap in pipeline.missing}
    assert {entry.reason for entry in pipeline.missing} <= REASONS.keys()
    for entity in (NODE, *UIDS):
        for metric in (CPU, MEMORY):
            values = pipeline.store.window(metric, entity, START, START + 1.0).values
            assert (len(values) == 1) != ((metric, entity) in missing), (metric, entity, pipeline.missing)
            assert all(0.0 <= value < 2.0**53 for value in values)
    pipeline.close(START + 2.0)


def test_replay_without_temporary_folder_names_the_way_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**V2, "capture.json": json.dumps({"monotonic_ns": 10**12, "boottime_ns": 10**12, "clk_tck": 100})}
    write(folder, {f"{instant}/{name}": text for instant in ("t000", "t001") for name, text in files.items()})
    monkeypatch.setattr("tempfile.tempdir", str(folder / "none"))
    with pytest.raises(NotARecording, match="TMPDIR"):
        replay(folder)

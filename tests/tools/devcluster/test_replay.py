"""Replayed machines: counters that only grow, figures that agree, loads as asked."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from agent.host import cgroup, cgroup_files, procfs
from tools.devcluster import traces
from tools.devcluster.errors import DevClusterError
from tools.devcluster.kwok import ANNOTATION, NodeTemplate
from tools.devcluster.replay import Replay, ReplaySettings
from tools.devcluster.replay_load import CPU, MEMORY, TRACE, amount, pod_load

MIB = 1 << 20
CORES, MEMORY_BYTES = 4, 16 << 30
STEP = 0.1


def _pod(
    name: str, annotations: dict[str, str], *, node: str = "one", phase: str = "Running", **resources: dict[str, str]
) -> dict[str, Any]:
    metadata = {
        "namespace": "shop",
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "annotations": annotations,
    }
    spec = {"nodeName": node, "containers": [{"name": "app", "resources": resources}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "qosClass": "Burstable"}}


def _node(name: str = "one", **annotations: str) -> dict[str, Any]:
    renamed = {f"replay.headroom.dev/{key}": value for key, value in annotations.items()}
    return NodeTemplate(cpu=str(CORES), memory="16Gi", annotations=renamed).node(name)


def _advance(replay: Replay, start: float, seconds: float) -> None:
    for step in range(int(seconds / STEP) + 1):
        replay.advance(start + step * STEP)


def _cpu_seconds(root: Path, group: str) -> float:
    text = (root / "one/sys/fs/cgroup" / group / "cpu.stat").read_text()
    return cgroup_files.cpu_usage_nanoseconds(text, 2) / 1e9


BURSTABLE = "kubepods/burstable"
REQUESTS = {"cpu": "500m", "memory": "1Gi"}


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """A replay of one version 2 machine without pods."""
    return Replay(ReplaySettings(tmp_path))


def test_asked_load_is_used(replay: Replay, tmp_path: Path) -> None:
    """A pod annotated with 80 % of its 500m uses 400 milli-cores, and half of its 1Gi in memory."""
    pod = _pod("app", {CPU: "80%", MEMORY: "50%"}, requests=REQUESTS)
    replay.follow([_node()], [pod])
    _advance(replay, 100.0, 30.0)
    group = f"{BURSTABLE}/poduid-app"
    assert _cpu_seconds(tmp_path, group) == pytest.approx(0.4 * 30, abs=1e-5)
    stat = (tmp_path / "one/sys/fs/cgroup" / group / "memory.stat").read_text()
    assert cgroup_files.memory_stat(stat, 2).used_bytes == 512 * MIB


def test_node_is_sum(replay: Replay, tmp_path: Path) -> None:
    """The machine's CPU time and memory are those of its pods and its system."""
    pods = [_pod("a", {CPU: "1", MEMORY: "1Gi"}), _pod("b", {CPU: "250m", MEMORY: "512Mi"}, requests=REQUESTS)]
    replay.follow([_node()], pods)
    _advance(replay, 0.0, 10.0)
    parts = _cpu_seconds(tmp_path, "kubepods") + _cpu_seconds(tmp_path, "system.slice")
    assert _cpu_seconds(tmp_path, "") == pytest.approx(parts, abs=1e-4)
    assert _cpu_seconds(tmp_path, "kubepods") == pytest.approx(12.5, abs=1e-4)
    ticks = procfs.busy_ticks((tmp_path / "one/proc/stat").read_text())
    assert ticks == pytest.approx(100 * parts, abs=2)
    memory = procfs.meminfo((tmp_path / "one/proc/meminfo").read_text())
    assert memory.total_bytes == MEMORY_BYTES
    # Pods and system, and 1 % for the kernel's own.
    assert memory.used_bytes == pytest.approx((1536 * MIB + 0.04 * MEMORY_BYTES) * 1.01, rel=1e-4)
    assert memory.used_with_page_cache_bytes > memory.used_bytes


def test_busy_and_idle_fill_time(replay: Replay, tmp_path: Path) -> None:
    """Busy and idle ticks of all CPUs add up to the time that has passed."""
    replay.follow([_node(cpu="85%")], [])
    _advance(replay, 0.0, 1.0)
    before = _ticks(tmp_path)
    _advance(replay, 1.0, 20.0)
    busy, every = (after - earlier for after, earlier in zip(_ticks(tmp_path), before, strict=True))
    assert every == pytest.approx(20 * CORES * 100, abs=4)
    assert busy == pytest.approx(0.85 * every, rel=0.01)


def _ticks(root: Path) -> tuple[int, int]:
    text = (root / "one/proc/stat").read_text()
    return procfs.busy_ticks(text), sum(map(int, text.split("\n", 1)[0].split()[1:]))


def test_cpu_is_not_invented(replay: Replay, tmp_path: Path) -> None:
    """Pods that want more than there is share what there is, and tasks of the machine and the pods are seen waiting."""
    replay.follow([_node()], [_pod("greedy", {CPU: "6"}), _pod("modest", {CPU: "2"})])
    _advance(replay, 0.0, 10.0)
    assert _cpu_seconds(tmp_path, "") == pytest.approx(CORES * 10, abs=1e-3)
    greedy, modest = (_cpu_seconds(tmp_path, f"{BURSTABLE}/poduid-{name}") for name in ("greedy", "modest"))
    assert greedy == pytest.approx(3 * modest)
    for file in ("proc/pressure/cpu", f"sys/fs/cgroup/{BURSTABLE}/poduid-modest/cpu.pressure"):
        stalled = procfs.pressure_totals((tmp_path / "one" / file).read_text())["some"]
        assert stalled == pytest.approx(10e6, rel=0.01)


def test_counters_never_go_back(replay: Replay, tmp_path: Path) -> None:
    """No counter falls while the load moves and pods come and go."""
    counters: list[list[int]] = []
    pods = [_pod("a", {}, requests=REQUESTS), _pod("b", {}, requests=REQUESTS)]
    for step in range(300):
        replay.follow([_node()], pods[: step // 50 % 3])
        replay.advance(step * 7.3)
        stat = (tmp_path / "one/proc/stat").read_text()
        per_line = [int(value) for line in stat.splitlines()[:5] for value in line.split()[1:]]
        group = (tmp_path / "one/sys/fs/cgroup/kubepods/cpu.stat").read_text().split()
        counters.append(per_line + [int(value) for value in group[1::2]])
    for earlier, later in itertools.pairwise(counters):
        assert all(new >= old for old, new in zip(earlier, later, strict=True))


def test_pods_come_and_go(replay: Replay, tmp_path: Path) -> None:
    """A pod's cgroup is there while it is bound and has not ended; one on another node is not."""
    folder = tmp_path / "one/sys/fs/cgroup" / BURSTABLE
    pods = [_pod("here", {}), _pod("ended", {}, phase="Succeeded"), _pod("elsewhere", {}, node="two")]
    replay.follow([_node()], pods)
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"poduid-here"}
    replay.follow([_node()], [])
    assert not [path for path in folder.iterdir() if path.is_dir()]


def test_nodes_come_and_go(replay: Replay, tmp_path: Path) -> None:
    """Only nodes with kwok's annotation get a tree, and only as long as they are there."""
    real = _node("real")
    del real["metadata"]["annotations"][ANNOTATION]
    replay.follow([_node("one"), _node("two"), real], [])
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
    replay.follow([_node("two")], [])
    assert {path.name for path in tmp_path.iterdir()} == {"two"}


def test_changed_annotation_counts(replay: Replay, tmp_path: Path) -> None:
    """A pod whose annotation changes goes on from its counters with the new load."""
    pod = _pod("app", {CPU: "1"})
    replay.follow([_node()], [pod])
    _advance(replay, 0.0, 10.0)
    changed = _pod("app", {CPU: "2"})
    changed["metadata"]["resourceVersion"] = "2"
    replay.follow([_node()], [changed])
    _advance(replay, 10.0, 10.0)
    assert _cpu_seconds(tmp_path, f"{BURSTABLE}/poduid-app") == pytest.approx(30.0, abs=1e-4)


def test_version_1_tree(tmp_path: Path) -> None:
    """A version 1 machine shows the same figures in hierarchies apart, which the agent recognises."""
    replay = Replay(ReplaySettings(tmp_path, cgroups="v1"))
    replay.follow([_node()], [_pod("app", {CPU: "1500m", MEMORY: "1Gi"})])
    _advance(replay, 0.0, 10.0)
    root = tmp_path / "one/sys/fs/cgroup"
    layout = cgroup.detect(root)
    assert (layout.cpu.version, layout.memory and layout.memory.version) == (1, 1)
    usage = (root / f"cpuacct/{BURSTABLE}/poduid-app/cpuacct.usage").read_text()
    assert cgroup_files.cpu_usage_nanoseconds(usage, 1) == pytest.approx(15e9, rel=1e-6)
    stat = (root / f"memory/{BURSTABLE}/poduid-app/memory.stat").read_text()
    assert cgroup_files.memory_stat(stat, 1).used_bytes == 1024 * MIB


def test_bad_annotation_is_said_once(replay: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    """An annotation that cannot be read is named with its pod, once, and the others go on."""
    for _ in range(2):
        replay.follow([_node(cpu="lots")], [_pod("odd", {CPU: "much"}), _pod("app", {CPU: "1"})])
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"node one: annotations {CPU} and {MEMORY}: 'lots' is not an amount such as 500m, 2 or 1Gi",
        f"pod shop/odd: annotations {CPU} and {MEMORY}: 'much' is not an amount such as 500m, 2 or 1Gi",
    ]


def test_unknown_trace_is_named() -> None:
    """A trace that is not there is named."""
    with pytest.raises(DevClusterError, match=r"pod shop/app: annotation .*trace: there is no series 'nasa-1'"):
        pod_load(_pod("app", {TRACE: "nasa-1"}))


def test_trace_scales_to_request() -> None:
    """A pod follows its series times its request, and stays at its limit."""
    series = traces.load()["bitbrains-46"]
    at = max(range(len(series.cpu)), key=series.cpu.__getitem__)
    seconds = at * traces.STEP_SECONDS
    free = pod_load(_pod("app", {TRACE: "bitbrains-46"}, requests={"cpu": "2"}))
    assert free.cpu(seconds) == pytest.approx(2 * series.cpu[at])
    held = pod_load(_pod("app", {TRACE: "bitbrains-46"}, requests={"cpu": "2"}, limits={"cpu": "100m"}))
    assert held.cpu(seconds) == pytest.approx(0.1)


def test_mid_pods_follow_their_request() -> None:
    """A pod that requests only Mid resources is scaled by them, milli-cores as they are."""
    pod = _pod("mid", {CPU: "50%"}, requests={"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"})
    assert pod_load(pod).cpu(0) == pytest.approx(0.5)


def test_series_are_shares() -> None:
    """Every series lies in 0..1, lasts a day at least, and starts again after its end."""
    loaded = traces.load()
    assert len(loaded) == 89
    for series in loaded.values():
        assert len(series.cpu) >= 288
        assert all(0 <= value <= 1 for value in (*series.cpu, *series.memory))
        assert series.cpu_share(len(series.cpu) * traces.STEP_SECONDS) == pytest.approx(series.cpu[0])


def test_choice_is_stable_and_spread() -> None:
    """The same pod always gets the same series; a hundred pods get many."""
    assert traces.choose("shop/app") == traces.choose("shop/app")
    assert len({traces.choose(f"shop/app-{number}")[0].name for number in range(100)}) > 20


@pytest.mark.parametrize(("text", "value"), [("500m", 0.5), ("2", 2), ("1Gi", 1 << 30), ("1.5k", 1500), ("0", 0)])
def test_amounts(text: str, value: float) -> None:
    """Quantities as Kubernetes writes them."""
    assert amount(text) == value

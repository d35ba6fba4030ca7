"""Collectors against recorded machines of every kind, with figures that were computed apart from them."""

import errno
import os
from dataclasses import replace

import pytest

from agent import derived
from agent.collectors.base import Collector, NoData, Tick, resolve
from agent.host.rates import Gap
from agent.host.reopening_files import ReopeningFile, unreadable
from agent.pods import PodRef
from agent.samples import (
    CPU,
    CPU_THROTTLED,
    ENDED,
    INPUT_MISSING,
    MEMORY,
    MEMORY_HELD_BACK,
    MEMORY_WITH_PAGE_CACHE,
    NO_CGROUP,
    NODE,
    SYS,
    VANISHED,
    CollectionResult,
    Missing,
)
from crds.priority import PriorityBand, QoS
from tests.agent.made_pipeline import START, made_pipeline
from tests.agent.recorded import KINDS, WITH_MEMORY, Make, RecordedMachine

PODS = ("g", "b1", "b2", "b3", "b6", "s1", "e1")


def _collect(collectors: dict[str, Collector], machine: RecordedMachine, *pods: PodRef) -> CollectionResult:
    collected = CollectionResult()
    for collector in collectors.values():
        collected.extend(collector.collect(Tick(machine.now, pods)))
    return collected


def _values(collected: CollectionResult, metric: str) -> dict[str, float]:
    return {sample.entity: sample.value for sample in collected.samples if sample.metric == metric}


@pytest.mark.parametrize("kind", KINDS)
def test_cpu_agrees_with_capture(kind: str, recorded: Make) -> None:
    """Every pod's and the node's CPU agree with figures computed from the same files by another formula's author."""
    machine = recorded(kind)
    collectors = resolve(["node", "pod"], machine.machine())
    for instant in ("t000", "t002"):
        machine.advance(instant)
        _collect(collectors, machine)
    machine.advance("t010")
    measured = _values(_collect(collectors, machine), CPU)
    expected = machine.expected["intervals"]["t002-t010"]
    for name in PODS:
        milli = expected["cgroups"][machine.pod_path(name)]["cpu_millicores"]
        assert measured[machine.uid(name)] * 1000 == pytest.approx(milli, rel=0.02, abs=0.5), name
    assert measured[NODE] * 1000 == pytest.approx(expected["node_cpu_millicores"], rel=0.02)
    # 250 + 30 and 150 milli-cores are the load, 50 is the quota
    assert measured[machine.uid("b1")] == pytest.approx(0.280, rel=0.05)
    assert measured[machine.uid("g")] == pytest.approx(0.150, rel=0.05)
    assert measured[machine.uid("b2")] == pytest.approx(0.050, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_the_node_with_page_cache_is_total_minus_free(kind: str, recorded: Make) -> None:
    machine = recorded(kind)
    collected = _collect(resolve(["node"], machine.machine()), machine)
    meminfo = (machine.live / "proc/meminfo").read_text()
    total, free = (int(meminfo.split(f"{name}:")[1].split()[0]) * 1024 for name in ("MemTotal", "MemFree"))
    assert _values(collected, MEMORY_WITH_PAGE_CACHE)[NODE] == total - free


@pytest.mark.parametrize("kind", KINDS)
def test_recreated_cgroup_has_no_cpu_for_a_tick_nor_has_the_system(kind: str, recorded: Make) -> None:
    machine = recorded(kind)
    collectors = resolve(["node", "pod"], machine.machine())
    machine.advance("t010", at=100.0)
    _collect(collectors, machine)
    machine.advance("t060", at=110.0)
    collected = _collect(collectors, machine)
    uid = machine.uid("b4")
    assert Missing(CPU, uid, Gap.RECREATED) in collected.missing
    assert uid not in _values(collected, CPU)
    assert Missing(CPU, SYS, "input-missing") in derived.system(collected, machine.now).missing


@pytest.mark.parametrize("kind", KINDS)
def test_departed_pod_is_one_gap(kind: str, recorded: Make) -> None:
    """A pod without a cgroup has no sample; its last usage is a gap once, and nothing from then on."""
    machine = recorded(kind)
    collectors = resolve(["node", "pod"], machine.machine())
    listed = _pod(machine.uid("b5"), machine.uid("b5"))
    _collect(collectors, machine, listed)
    machine.advance("t010")
    collected = _collect(collectors, machine, listed)
    gone = machine.uid("b5")
    assert gone not in _values(collected, CPU)
    assert {(gap.metric, gap.reason) for gap in collected.missing if gap.entity == gone} == {
        (metric, VANISHED) for metric in (CPU, MEMORY, MEMORY_WITH_PAGE_CACHE)
    }
    system = derived.system(collected, machine.now)
    assert Missing(CPU, SYS, INPUT_MISSING) in system.missing
    if kind in WITH_MEMORY:
        assert [sample.metric for sample in system.samples] == [MEMORY]
    machine.advance("t010", at=machine.now + 1)
    again = _collect(collectors, machine, listed)
    assert all(entry.entity != gone for entry in again.missing)
    assert CPU in {sample.metric for sample in derived.system(again, machine.now).samples}


@pytest.mark.parametrize("kind", KINDS)
def test_pod_without_memory_controller_has_cpu_and_a_gap_of_memory(kind: str, recorded: Make) -> None:
    machine = recorded(kind)
    root = machine.live / "sys/fs/cgroup"
    folder = (root / "memory" if kind.startswith("v1") else root) / machine.pod_path("g").lstrip("/")
    for file in folder.glob("memory.*"):
        file.unlink()
    collectors = resolve(["pod"], machine.machine())
    _collect(collectors, machine)
    machine.now += 1
    collected = _collect(collectors, machine)
    assert Missing(MEMORY, machine.uid("g"), Gap.NO_MEMORY_CONTROLLER) in collected.missing
    assert machine.uid("g") in _values(collected, CPU)


def test_known_pods_go_by_uid(recorded: Make) -> None:
    """A static pod's samples have the uid of the API's pod, not the config hash in its cgroup's name."""
    machine = recorded("v2-systemd")
    static = _pod("the-uid", machine.uid("s1"))
    collected = _collect(resolve(["pod"], machine.machine()), machine, static)
    assert "the-uid" in _values(collected, MEMORY)
    assert machine.uid("s1") not in _values(collected, MEMORY)


def test_running_pod_without_cgroup_is_a_gap_and_waiting_or_ended_one_is_not(recorded: Make) -> None:
    machine = recorded("v2-systemd")
    pods = [_pod("lost", "lost"), _pod("waits", "waits", running=False), _pod("ended", "ended", terminal=True)]
    collected = _collect(resolve(["pod"], machine.machine()), machine, *pods)
    gaps = {gap.entity for gap in collected.missing if gap.reason == NO_CGROUP}
    assert gaps == {"lost"}


def test_pod_made_again_under_its_name_is_another_pod(recorded: Make) -> None:
    machine = recorded("v2-systemd")
    collectors = resolve(["pod"], machine.machine())
    old, new = machine.uid("g"), machine.uid("g").replace("00a1", "00a2")
    _collect(collectors, machine, _pod(old, old))
    path = machine.live / "sys/fs/cgroup" / machine.pod_path("g").lstrip("/")
    path.rename(path.with_name(path.name.replace("00a1.slice", "00a2.slice")))
    machine.now += 1
    collected = _collect(collectors, machine, _pod(new, new))
    assert Missing(CPU, old, VANISHED) in collected.missing
    assert Missing(CPU, new, Gap.FIRST) in collected.missing
    assert {old, new} & _values(collected, CPU).keys() == set()
    machine.now += 1
    assert _values(_collect(collectors, machine, _pod(new, new)), CPU)[new] == 0


def test_ended_pod_is_skipped(recorded: Make) -> None:
    machine = recorded("v2-systemd")
    uid = machine.uid("g")
    ended, running = _pod(uid, uid, terminal=True), _pod(uid, uid)
    collectors = resolve(["pod", "pod-pressure"], machine.machine())
    assert uid in _values(_collect(collectors, machine, running), MEMORY)
    collected = _collect(collectors, machine, ended)
    assert uid not in _values(collected, MEMORY)
    assert [gap for gap in collected.missing if gap.entity == uid] == [Missing(CPU, uid, ENDED)]
    later = [_collect(collectors, machine, ended) for _ in range(10)]
    assert all(sample.entity != uid for collected in later for sample in collected.samples)
    assert all(entry.entity != uid for collected in later for entry in collected.missing)


@pytest.mark.parametrize(
    ("cgroup", "right", "others"),
    [
        # of two pods with one config hash, as when a static pod is made again, the one that runs
        ("s1", "new", {"terminal": True}),
        # a pod that claims another's cgroup, however they are listed
        ("g", None, {}),
        # one that calls itself the mirror of a static pod, and that no kubelet runs
        ("s1", "mirror", {"running": False}),
    ],
)
def test_claims_take_no_samples(cgroup: str, right: str | None, others: dict[str, bool], recorded: Make) -> None:
    """Of several pods that name one cgroup, the first in order is measured; the others make no gap."""
    machine = recorded("v2-systemd")
    uid = machine.uid(cgroup)
    owner = right or uid
    pods = [_pod("claims", uid, **others), _pod(owner, uid), _pod("claims too", uid, **others)]
    for order in (pods, pods[::-1]):
        collected = _collect(resolve(["pod"], machine.machine()), machine, *order)
        measured = _values(collected, MEMORY)
        assert owner in measured
        assert not {"claims", "claims too"} & (measured.keys() | {gap.entity for gap in collected.missing})


@pytest.mark.parametrize("kind", KINDS)
def test_throttling_is_measured(kind: str, recorded: Make) -> None:
    """A pod at its quota is throttled in the share of periods that the kernel counted; one without has no series."""
    machine = recorded(kind)
    collectors = resolve(["pod"], machine.machine())
    before = _periods(machine, "b2")
    _collect(collectors, machine)
    machine.advance("t010")
    throttled = _values(_collect(collectors, machine), CPU_THROTTLED)
    after = _periods(machine, "b2")
    assert throttled[machine.uid("b2")] == (after[1] - before[1]) / (after[0] - before[0])
    assert throttled[machine.uid("b2")] > 0.2
    assert machine.uid("e1") not in throttled


@pytest.mark.parametrize("kind", KINDS)
def test_node_pressure_is_the_growth_of_the_kernels_counter(kind: str, recorded: Make) -> None:
    machine = recorded(kind)
    collectors = resolve(["pressure"], machine.machine())
    machine.advance("t002")
    _collect(collectors, machine)
    machine.advance("t010")
    measured = _values(_collect(collectors, machine), "psi_cpu_some")[NODE]
    totals = [machine.expected["instants"][at]["node"]["psi_total_usec"]["cpu"]["some"] for at in ("t002", "t010")]
    seconds = machine.expected["intervals"]["t002-t010"]["seconds"]
    assert measured == pytest.approx((totals[1] - totals[0]) / 1e6 / seconds, rel=0.02)


@pytest.mark.parametrize("kind", ["v2-cgroupfs", "v2-systemd", "v2-cgroupfs-nomem"])
def test_pod_pressure_agrees_with_capture(kind: str, recorded: Make) -> None:
    """Each pod's pressure is read once in ten ticks, and is the growth of the kernel's counter since its last turn."""
    machine = recorded(kind)
    collectors = resolve(["pod", "pod-pressure"], machine.machine())
    machine.advance("t002")
    for _ in range(10):
        _collect(collectors, machine)
    before, began = _stalled(machine, "b2"), machine.now
    machine.advance("t010")
    observed = [_values(_collect(collectors, machine), "psi_cpu_some") for _ in range(10)]
    uid = machine.uid("b2")
    (measured,) = [values[uid] for values in observed if uid in values]
    assert measured == pytest.approx((_stalled(machine, "b2") - before) / 1e6 / (machine.now - began))
    assert 0 < measured < 1
    assert {entity for values in observed for entity in values} == {machine.uid(name) for name in (*PODS, "b4", "e2")}


def _held_back(collectors: dict[str, Collector], machine: RecordedMachine, *pods: PodRef) -> dict[str, float]:
    """The states of all pods, each of which is read once in ten ticks."""
    states: dict[str, float] = {}
    for _ in range(10):
        states |= _values(_collect(collectors, machine, *pods), MEMORY_HELD_BACK)
    return states


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_swapped_pod_is_held_back(kind: str, recorded: Make) -> None:
    """A pod with memory in swap is held back, in both versions; a few pages that an old shortage left are not."""
    machine = recorded(kind)
    collectors = resolve(["pod", "pod-held-back"], machine.machine())
    root = machine.machine().cgroups.layout.memory
    assert root is not None
    uid = machine.uid("b2")
    for swap, state in ((0, 0.0), (8 << 10, 0.0), (64 << 20, 1.0), (0, 0.0)):
        folder = root.root / machine.pod_path("b2").lstrip("/")
        if root.version == 1:
            used = int((folder / "memory.usage_in_bytes").read_text())
            (folder / "memory.memsw.usage_in_bytes").write_text(f"{used + swap}\n")
        else:
            (folder / "memory.swap.current").write_text(f"{swap}\n")
        assert _held_back(collectors, machine)[uid] == state


@pytest.mark.parametrize("kind", ["v2-cgroupfs", "v2-systemd"])
def test_throttled_memory_is_held_back(kind: str, recorded: Make) -> None:
    """A pod is held back while the kernel counts `high` events of it, and not because it counted some before."""
    machine = recorded(kind)
    collectors = resolve(["pod", "pod-held-back"], machine.machine())
    uid = machine.uid("b2")
    file = machine.live / "sys/fs/cgroup" / machine.pod_path("b2").lstrip("/") / "memory.events"
    for high, state in ((7, 0.0), (7, 0.0), (9, 1.0), (12, 1.0), (12, 0.0), (3, 0.0)):
        file.write_text(f"low 0\nhigh {high}\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n")
        assert _held_back(collectors, machine)[uid] == state
    assert uid not in _held_back(collectors, machine, _pod(uid, uid, terminal=True))
    file.write_text("low 0\n")
    missing = [
        gap for _ in range(10) for gap in _collect(collectors, machine).missing if gap.metric == MEMORY_HELD_BACK
    ]
    assert missing == [Missing(MEMORY_HELD_BACK, uid, Gap.MALFORMED)]


def test_nothing_about_reclaim_is_no_data(recorded: Make) -> None:
    """A kernel without the memory controller, without swap accounting and events, has no such series and no gaps."""
    machine = recorded("v2-cgroupfs-nomem")
    with pytest.raises(NoData, match="no memory controller"):
        _collect(resolve(["pod-held-back"], machine.machine()), machine)
    machine = recorded("v1-cgroupfs")
    for file in (machine.live / "sys/fs/cgroup").rglob("memory.memsw.usage_in_bytes"):
        file.unlink()
    collectors = resolve(["pod", "pod-held-back"], machine.machine())
    _collect(collectors, machine)
    machine.now += 1
    results = [_collect(collectors, machine) for _ in range(10)]
    assert all(gap.metric != MEMORY_HELD_BACK for result in results for gap in result.missing)
    assert all(_values(result, MEMORY_HELD_BACK) == {} for result in results)


@pytest.mark.parametrize("kind", ["v1-cgroupfs", "v1vm-systemd"])
def test_no_pod_pressure_is_no_data(kind: str, recorded: Make) -> None:
    machine = recorded(kind)
    with pytest.raises(NoData, match="per cgroup"):
        _collect(resolve(["pod", "pod-pressure"], machine.machine()), machine)


class Unsupported(ReopeningFile):
    """A file that the kernel shows and does not support (fake)."""

    def read(self) -> str:
        if self.path.endswith((".pressure", "pressure/cpu", "pressure/memory", "pressure/io")):
            raise unreadable(self.path, OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)))
        return super().read()


@pytest.mark.parametrize("collector", ["pressure", "pod-pressure"])
def test_pressure_that_is_off_is_no_data(collector: str, recorded: Make, caplog: pytest.LogCaptureFixture) -> None:
    """With psi=0 the files are there, and reading fails: no gap of any pod, and one line of the log."""
    machine = recorded("v2-systemd")
    parts = replace(machine.machine(), open_file=lambda path: Unsupported(path, lambda: machine.now))
    pipeline = made_pipeline(machine.live, resolve(["pod", collector], parts))
    with caplog.at_level("INFO", "agent.pipeline"):
        for second in range(20):
            pipeline.run_once(START + second)
            assert not [gap for gap in pipeline.missing if gap.metric.startswith("psi")]
    pipeline.close(START)
    assert pipeline.failing == {}
    (line,) = [message for message in caplog.messages if "has no data" in message]
    assert line.startswith(f"{collector} has no data: this kernel")


@pytest.mark.parametrize("absent", [("cpu",), ("io",), ("cpu", "memory", "io")])
def test_pod_without_a_pressure_file_has_no_gap_and_others_are_measured(
    absent: tuple[str, ...], recorded: Make
) -> None:
    """Pressure of one cgroup may be off (cgroup.pressure = 0), and then it has no files."""
    machine = recorded("v2-systemd")
    collectors = resolve(["pod", "pod-pressure"], machine.machine())
    off = machine.live / "sys/fs/cgroup" / machine.pod_path("g").lstrip("/")
    for _ in range(10):
        _collect(collectors, machine)
    for name in absent:
        (off / f"{name}.pressure").unlink()
    machine.now += 10
    rounds = [_collect(collectors, machine) for _ in range(10)]
    series = {(sample.metric, sample.entity) for collected in rounds for sample in collected.samples}
    for name in ("cpu", "memory", "io"):
        assert ((f"psi_{name}_some", machine.uid("g")) in series) == (name not in absent)
        assert (f"psi_{name}_some", machine.uid("b2")) in series
    assert not [gap for collected in rounds for gap in collected.missing if gap.metric.startswith("psi")]


def test_no_pressure_is_no_data(recorded: Make) -> None:
    machine = recorded("v2-systemd")
    for file in (machine.live / "proc/pressure").iterdir():
        file.unlink()
    with pytest.raises(NoData, match="no pressure"):
        _collect(resolve(["pressure"], machine.machine()), machine)


def _stalled(machine: RecordedMachine, name: str) -> int:
    """Time for which the pod's tasks waited for CPU so far, in microseconds."""
    text = (machine.live / "sys/fs/cgroup" / machine.pod_path(name).lstrip("/") / "cpu.pressure").read_text()
    return int(text.splitlines()[0].rpartition("total=")[2])


def _periods(machine: RecordedMachine, name: str) -> tuple[int, int]:
    root = machine.live / "sys/fs/cgroup"
    cpu = root / "cpu" if (root / "cpu").exists() else root
    words = (cpu / machine.pod_path(name).lstrip("/") / "cpu.stat").read_text().split()
    return int(words[words.index("nr_periods") + 1]), int(words[words.index("nr_throttled") + 1])


def _pod(uid: str, cgroup_uid: str, *, running: bool = True, terminal: bool = False) -> PodRef:
    return PodRef(
        uid, "shop", "cart", PriorityBand.PROD, QoS.LS, cgroup_uid=cgroup_uid, running=running, terminal=terminal
    )

"""Collectors against recorded machines of every kind, with figures that were computed apart from them."""

from collections.abc import Callable

import pytest

from agent import derived
from agent.collectors.base import Collector, NoData, Tick, resolve
from agent.host.rates import Gap
from agent.pods import PodRef
from agent.samples import CPU, CPU_THROTTLED, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, SYS, Harvest, Missing
from crds.priority import PriorityBand, QoS
from tests.agent.recorded import KINDS, WITH_MEMORY, RecordedMachine

Make = Callable[[str], RecordedMachine]
PODS = ("g", "b1", "b2", "b3", "b6", "s1", "e1")


def _collect(collectors: dict[str, Collector], machine: RecordedMachine, *pods: PodRef) -> Harvest:
    harvest = Harvest()
    for collector in collectors.values():
        found = collector.collect(Tick(machine.now, pods))
        harvest.samples += found.samples
        harvest.missing += found.missing
    return harvest


def _values(harvest: Harvest, metric: str) -> dict[str, float]:
    return {sample.entity: sample.value for sample in harvest.samples if sample.metric == metric}


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
    # 250 + 30 and 150 milli-cores were asked for, 50 is what the quota gives
    assert measured[machine.uid("b1")] == pytest.approx(0.280, rel=0.05)
    assert measured[machine.uid("g")] == pytest.approx(0.150, rel=0.05)
    assert measured[machine.uid("b2")] == pytest.approx(0.050, rel=0.05)


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_memory_agrees_with_capture(kind: str, recorded: Make) -> None:
    """Pods' memory is anonymous memory and tmpfs; with page cache, the files that they read are in it."""
    machine = recorded(kind)
    machine.advance("t010")
    harvest = _collect(resolve(["node", "pod"], machine.machine()), machine)
    memory, cached = _values(harvest, MEMORY), _values(harvest, MEMORY_WITH_PAGE_CACHE)
    instant = machine.expected["instants"]["t010"]
    for name in PODS:
        expected = instant["cgroups"][machine.pod_path(name)]["memory"]
        uid = machine.uid(name)
        assert memory[uid] == pytest.approx(expected["anon_plus_shmem_bytes"], abs=1 << 20), name
        files = expected["active_file_bytes"] + expected["inactive_file_bytes"]
        assert cached[uid] - memory[uid] == files, name
    assert memory[NODE] == instant["node"]["memory_used_bytes"]
    meminfo = (machine.live / "proc/meminfo").read_text()
    total, free = (int(meminfo.split(f"{name}:")[1].split()[0]) * 1024 for name in ("MemTotal", "MemFree"))
    assert cached[NODE] == total - free


@pytest.mark.parametrize("kind", KINDS)
def test_system_is_the_rest(kind: str, recorded: Make) -> None:
    """System CPU is what the node used beyond all pods, known to the API server or not."""
    machine = recorded(kind)
    collectors = resolve(["node", "pod"], machine.machine())
    _collect(collectors, machine)
    machine.advance("t002")
    harvest = _collect(collectors, machine)
    cpu = _values(harvest, CPU)
    system = _values(derived.system(harvest, machine.now), CPU)[SYS]
    assert system == pytest.approx(cpu[NODE] - sum(value for entity, value in cpu.items() if entity != NODE))
    assert 0 < system < cpu[NODE]


@pytest.mark.parametrize("kind", KINDS)
def test_recreated_pod_is_gap(kind: str, recorded: Make) -> None:
    """A cgroup that was removed and made again has no CPU for a tick, and system usage neither."""
    machine = recorded(kind)
    collectors = resolve(["node", "pod"], machine.machine())
    machine.advance("t010", at=100.0)
    _collect(collectors, machine)
    machine.advance("t060", at=110.0)
    harvest = _collect(collectors, machine)
    uid = machine.uid("b4")
    assert Missing(CPU, uid, Gap.RECREATED) in harvest.missing
    assert uid not in _values(harvest, CPU)
    assert Missing(CPU, SYS, "input-missing") in derived.system(harvest, machine.now).missing


@pytest.mark.parametrize("kind", KINDS)
def test_departed_pod_is_forgotten(kind: str, recorded: Make) -> None:
    """A pod whose cgroup is gone has no sample and no gap: it uses nothing."""
    machine = recorded(kind)
    collectors = resolve(["node", "pod"], machine.machine())
    _collect(collectors, machine)
    machine.advance("t010")
    harvest = _collect(collectors, machine)
    gone = machine.uid("b5")
    assert gone not in _values(harvest, CPU)
    assert all(one.entity != gone for one in harvest.missing)


def test_no_controller_is_gap(recorded: Make) -> None:
    """Without the memory controller CPU is still measured, and memory is missing for that reason."""
    machine = recorded("v2-cgroupfs-nomem")
    collectors = resolve(["node", "pod"], machine.machine())
    _collect(collectors, machine)
    machine.advance("t002")
    harvest = _collect(collectors, machine)
    uid = machine.uid("g")
    assert Missing(MEMORY, uid, "no-memory-controller") in harvest.missing
    assert uid in _values(harvest, CPU)
    system = derived.system(harvest, machine.now)
    assert [sample.metric for sample in system.samples] == [CPU]


def test_known_pods_go_by_uid(recorded: Make) -> None:
    """A static pod's samples bear the uid of the API's pod, not the config hash in its cgroup's name."""
    machine = recorded("v2-systemd")
    static = _pod("the-uid", machine.uid("s1"))
    harvest = _collect(resolve(["pod"], machine.machine()), machine, static)
    assert "the-uid" in _values(harvest, MEMORY)
    assert machine.uid("s1") not in _values(harvest, MEMORY)


def test_running_pod_needs_cgroup(recorded: Make) -> None:
    """A running pod without a cgroup is a gap; one that waits or has ended is not."""
    machine = recorded("v2-systemd")
    pods = [_pod("lost", "lost"), _pod("waits", "waits", running=False), _pod("ended", "ended", terminal=True)]
    harvest = _collect(resolve(["pod"], machine.machine()), machine, *pods)
    gaps = {one.entity for one in harvest.missing if one.reason == "no-cgroup"}
    assert gaps == {"lost"}


def test_ended_pod_is_skipped(recorded: Make) -> None:
    """A terminal pod is not measured, though its cgroup may linger."""
    machine = recorded("v2-systemd")
    ended = _pod(machine.uid("g"), machine.uid("g"), terminal=True)
    harvest = _collect(resolve(["pod"], machine.machine()), machine, ended)
    assert machine.uid("g") not in _values(harvest, MEMORY)


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
def test_pressure_is_a_share(kind: str, recorded: Make) -> None:
    """Node pressure agrees with the growth of the kernel's counter."""
    machine = recorded(kind)
    collectors = resolve(["pressure"], machine.machine())
    machine.advance("t002")
    _collect(collectors, machine)
    machine.advance("t010")
    measured = _values(_collect(collectors, machine), "psi_cpu_some")[NODE]
    totals = [machine.expected["instants"][one]["node"]["psi_total_usec"]["cpu"]["some"] for one in ("t002", "t010")]
    seconds = machine.expected["intervals"]["t002-t010"]["seconds"]
    assert measured == pytest.approx((totals[1] - totals[0]) / 1e6 / seconds, rel=0.02)


def test_no_pressure_is_no_data(recorded: Make) -> None:
    """A kernel without pressure files is no error."""
    machine = recorded("v2-systemd")
    for file in (machine.live / "proc/pressure").iterdir():
        file.unlink()
    with pytest.raises(NoData, match="no pressure"):
        _collect(resolve(["pressure"], machine.machine()), machine)


def _periods(machine: RecordedMachine, name: str) -> tuple[int, int]:
    root = machine.live / "sys/fs/cgroup"
    cpu = root / "cpu" if (root / "cpu").exists() else root
    words = (cpu / machine.pod_path(name).lstrip("/") / "cpu.stat").read_text().split()
    return int(words[words.index("nr_periods") + 1]), int(words[words.index("nr_throttled") + 1])


def _pod(uid: str, cgroup_uid: str, *, running: bool = True, terminal: bool = False) -> PodRef:
    return PodRef(
        uid, "shop", "cart", PriorityBand.PROD, QoS.LS, cgroup_uid=cgroup_uid, running=running, terminal=terminal
    )

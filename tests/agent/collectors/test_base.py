"""Collectors by name, and what they do with files that are not what they should be."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.collectors import COLLECTORS
from agent.collectors.base import Tick, resolve
from agent.host.rates import Gap
from agent.samples import CPU, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, REASONS, Missing
from tests.agent.recorded import RecordedMachine

Make = Callable[[str], RecordedMachine]


def test_names_are_resolved_in_order(recorded: Make) -> None:
    """Collectors come in the order of their names; an unknown name lists the known ones."""
    machine = recorded("v2-cgroupfs").machine()
    assert list(resolve(["pressure", "node"], machine)) == ["pressure", "node"]
    with pytest.raises(ValueError, match=f"no collector named gpu; there are: {', '.join(COLLECTORS)}"):
        resolve(["node", "gpu"], machine)


@pytest.mark.parametrize(("content", "reason"), [("MemTotal: 12 kB\n", Gap.MALFORMED), (None, Gap.UNREADABLE)])
def test_bad_meminfo_is_gap(recorded: Make, content: str | None, reason: Gap) -> None:
    """A short read of /proc/meminfo, or none, is a gap of the node's memory and is named; CPU goes on."""
    machine = recorded("v2-cgroupfs")
    collector = resolve(["node"], machine.machine())["node"]
    collector.collect(Tick(0.0, ()))
    machine.advance("t002")
    file = machine.live / "proc/meminfo"
    file.unlink() if content is None else file.write_text(content)
    collected = collector.collect(Tick(0.0, ()))
    assert collected.missing == [Missing(metric, NODE, reason) for metric in (MEMORY, MEMORY_WITH_PAGE_CACHE)]
    assert "meminfo" in collected.problem
    assert [sample.metric for sample in collected.samples] == [CPU]


def test_missing_stat_is_named(recorded: Make) -> None:
    """When /proc/stat is gone, CPU is a gap and the file is named; memory goes on."""
    machine = recorded("v2-cgroupfs")
    collector = resolve(["node"], machine.machine())["node"]
    (machine.live / "proc/stat").unlink()
    collected = collector.collect(Tick(0.0, ()))
    assert Missing(CPU, NODE, Gap.UNREADABLE) in collected.missing
    assert "proc/stat: No such file" in collected.problem
    assert [sample.metric for sample in collected.samples] == [MEMORY, MEMORY_WITH_PAGE_CACHE]


def test_node_counter_may_not_fall(recorded: Make) -> None:
    """Node ticks that went back, or ran faster than the CPUs can, are a gap."""
    machine = recorded("v2-cgroupfs")
    collector = resolve(["node"], machine.machine())["node"]
    stat = machine.live / "proc/stat"
    gaps = []
    for number, ticks in enumerate((1000, 1100, 900, 1000, 9000)):
        machine.now = float(number)
        stat.write_text(f"cpu  {ticks} 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0\n")
        gaps.append(collector.collect(Tick(0.0, ())).missing)
    first, reset, fast = (Missing(CPU, NODE, reason) for reason in (Gap.FIRST, Gap.RESET, Gap.IMPLAUSIBLE))
    assert gaps == [[first], [], [reset], [], [fast]]


@pytest.mark.parametrize(("content", "reason"), [("", "malformed"), ("half a li", "malformed"), (None, "unreadable")])
def test_torn_pod_file_is_gap(recorded: Make, content: str | None, reason: str) -> None:
    """A pod's file that is short or gone is a gap of that value; its other values and other pods are kept."""
    machine = recorded("v2-cgroupfs")
    file = machine.live / "sys/fs/cgroup" / machine.pod_path("b1").lstrip("/") / "memory.stat"
    file.unlink() if content is None else file.write_text(content)
    collector = resolve(["pod"], machine.machine())["pod"]
    collector.collect(Tick(0.0, ()))
    machine.now += 1
    collected = collector.collect(Tick(1.0, ()))
    uid = machine.uid("b1")
    assert Missing(MEMORY, uid, reason) in collected.missing
    measured = {(one.metric, one.entity) for one in collected.samples}
    assert (CPU, uid) in measured
    assert (MEMORY, uid) not in measured
    assert (MEMORY, machine.uid("g")) in measured


def test_unlisted_pods_are_gaps(recorded: Make) -> None:
    """When the cgroup file system is gone, every pod is a gap, and it is unknown which there are."""
    machine = recorded("v2-cgroupfs")
    collector = resolve(["pod"], machine.machine())["pod"]
    assert collector.collect(Tick(0.0, ())).pods_listed
    loop = machine.live / "sys/fs/cgroup/kubepods/burstable"
    loop.rename(loop.with_name("away"))
    loop.symlink_to(loop)
    collected = collector.collect(Tick(1.0, ()))
    assert not collected.pods_listed
    assert collected.samples == []
    assert len(collected.missing) == 3 * 10
    assert "burstable: Too many levels" in collected.problem


def test_suspension_leaves_no_rate(recorded: Make) -> None:
    """Over a suspension of the machine no CPU is measured, of the node or a pod; memory is."""
    machine = recorded("v2-cgroupfs")
    slept = 0.0
    made = replace(machine.machine(), slept=lambda: slept)
    collectors = resolve(["node", "pod", "pressure"], made).values()
    for collector in collectors:
        collector.collect(Tick(0.0, ()))
    machine.advance("t002")
    slept = 600.0
    harvests = [collector.collect(Tick(1.0, ())) for collector in collectors]
    cpu = {one.reason for collected in harvests for one in collected.missing if one.metric in (CPU, "psi_cpu_some")}
    assert cpu == {Gap.SUSPENDED}
    assert {one.metric for collected in harvests for one in collected.samples} >= {MEMORY, MEMORY_WITH_PAGE_CACHE}
    assert CPU not in {one.metric for collected in harvests for one in collected.samples}


def test_reasons_are_in_docs() -> None:
    """Each reason for a gap has a sentence, and the user's table of reasons is that of the code."""
    assert {str(gap) for gap in Gap} <= REASONS.keys()
    lines = (Path(__file__).parents[3] / "docs/capture.md").read_text().splitlines()
    documented = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.count("|") == 3]
    assert [row for row in documented if row[1].endswith(".")] == list(REASONS.items())

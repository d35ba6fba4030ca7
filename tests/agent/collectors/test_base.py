from dataclasses import replace
from pathlib import Path

import pytest

from agent.collectors import COLLECTORS
from agent.collectors.base import Tick, resolve
from agent.host.rates import Gap
from agent.samples import CPU, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, REASONS, Missing
from tests.agent.recorded import Make


def test_collectors_come_in_order_of_their_names_and_unknown_one_lists_the_known(recorded: Make) -> None:
    machine = recorded("v2-cgroupfs").machine()
    assert list(resolve(["pressure", "node"], machine)) == ["pressure", "node"]
    with pytest.raises(ValueError, match=f"no collector named gpu; there are: {', '.join(COLLECTORS)}"):
        resolve(["node", "gpu"], machine)


@pytest.mark.parametrize(("content", "reason"), [("MemTotal: 12 kB\n", Gap.MALFORMED), (None, Gap.UNREADABLE)])
def test_bad_meminfo_is_a_named_gap_of_memory_and_cpu_goes_on(recorded: Make, content: str | None, reason: Gap) -> None:
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


def test_arcstats_change_memory_alone(recorded: Make) -> None:
    """Memory is without the ARC above its minimum; a torn file of ZFS is a named gap of memory, and CPU goes on."""
    machine = recorded("v2-cgroupfs")
    collector = resolve(["node"], machine.machine())["node"]
    before = {sample.metric: sample.value for sample in collector.collect(Tick(0.0, ())).samples}
    file = machine.live / "proc/spl/kstat/zfs/arcstats"
    file.parent.mkdir(parents=True)
    file.write_text(f"size 4 {40 << 20}\nc_min 4 {8 << 20}\n")
    after = {sample.metric: sample.value for sample in collector.collect(Tick(1.0, ())).samples}
    assert [before[metric] - after[metric] for metric in (MEMORY, MEMORY_WITH_PAGE_CACHE)] == [32 << 20] * 2
    file.write_text("size 4 12\n")
    machine.now += 1
    collected = collector.collect(Tick(2.0, ()))
    assert [gap.reason for gap in collected.missing if gap.metric != CPU] == [Gap.MALFORMED] * 2
    assert collected.problem == "ZFS's arcstats has no c_min"


def test_missing_stat_is_a_named_gap_of_cpu_and_memory_goes_on(recorded: Make) -> None:
    machine = recorded("v2-cgroupfs")
    collector = resolve(["node"], machine.machine())["node"]
    (machine.live / "proc/stat").unlink()
    collected = collector.collect(Tick(0.0, ()))
    assert Missing(CPU, NODE, Gap.UNREADABLE) in collected.missing
    assert "proc/stat: No such file" in collected.problem
    assert [sample.metric for sample in collected.samples] == [MEMORY, MEMORY_WITH_PAGE_CACHE]


def test_node_ticks_that_fall_or_run_too_fast_are_a_gap(recorded: Make) -> None:
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
def test_torn_file_of_a_pod_is_a_gap_of_its_value_alone(recorded: Make, content: str | None, reason: str) -> None:
    machine = recorded("v2-cgroupfs")
    file = machine.live / "sys/fs/cgroup" / machine.pod_path("b1").lstrip("/") / "memory.stat"
    file.unlink() if content is None else file.write_text(content)
    collector = resolve(["pod"], machine.machine())["pod"]
    collector.collect(Tick(0.0, ()))
    machine.now += 1
    collected = collector.collect(Tick(1.0, ()))
    uid = machine.uid("b1")
    assert Missing(MEMORY, uid, reason) in collected.missing
    measured = {(sample.metric, sample.entity) for sample in collected.samples}
    assert (CPU, uid) in measured
    assert (MEMORY, uid) not in measured
    assert (MEMORY, machine.uid("g")) in measured


def test_pods_that_cannot_be_listed_are_gaps_and_unknown(recorded: Make) -> None:
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


def test_suspension_leaves_memory_and_no_cpu_of_node_and_pods(recorded: Make) -> None:
    machine = recorded("v2-cgroupfs")
    slept = 0.0
    made = replace(machine.machine(), slept=lambda: slept)
    collectors = resolve(["node", "pod", "pressure"], made).values()
    for collector in collectors:
        collector.collect(Tick(0.0, ()))
    machine.advance("t002")
    slept = 600.0
    harvests = [collector.collect(Tick(1.0, ())) for collector in collectors]
    cpu = {gap.reason for collected in harvests for gap in collected.missing if gap.metric in (CPU, "psi_cpu_some")}
    assert cpu == {Gap.SUSPENDED}
    assert {sample.metric for collected in harvests for sample in collected.samples} >= {MEMORY, MEMORY_WITH_PAGE_CACHE}
    assert CPU not in {sample.metric for collected in harvests for sample in collected.samples}


def test_reasons_for_gaps_have_a_sentence_and_are_in_the_docs() -> None:
    assert {str(gap) for gap in Gap} <= REASONS.keys()
    lines = (Path(__file__).parents[3] / "docs/capture.md").read_text().splitlines()
    documented = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.count("|") == 3]
    assert [row for row in documented if row[1].endswith(".")] == list(REASONS.items())

"""Collectors by name, and what they do with files that are not what they should be."""

from collections.abc import Callable

import pytest

from agent.collectors import COLLECTORS
from agent.collectors.base import Tick, resolve
from agent.host.files import Unreadable
from agent.host.procfs import Malformed
from agent.host.rates import Gap
from agent.samples import CPU, MEMORY, NODE, Missing
from tests.agent.recorded import RecordedMachine

Make = Callable[[str], RecordedMachine]


def test_names_are_resolved_in_order(recorded: Make) -> None:
    """Collectors come in the order of their names; an unknown name lists the known ones."""
    machine = recorded("v2-cgroupfs").machine()
    assert list(resolve(["pressure", "node"], machine)) == ["pressure", "node"]
    with pytest.raises(ValueError, match=f"no collector named gpu; there are: {', '.join(COLLECTORS)}"):
        resolve(["node", "gpu"], machine)


def test_short_meminfo_is_no_number(recorded: Make) -> None:
    """A short read of /proc/meminfo is an error of the tick."""
    machine = recorded("v2-cgroupfs")
    (machine.live / "proc/meminfo").write_text("MemTotal: 12 kB\n")
    with pytest.raises(Malformed, match="MemAvailable"):
        resolve(["node"], machine.machine())["node"].collect(Tick(0.0, ()))


def test_missing_stat_is_named(recorded: Make) -> None:
    """A file of /proc that is gone is named."""
    machine = recorded("v2-cgroupfs")
    collector = resolve(["node"], machine.machine())["node"]
    (machine.live / "proc/stat").unlink()
    with pytest.raises(Unreadable, match="proc/stat"):
        collector.collect(Tick(0.0, ()))


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
    harvest = collector.collect(Tick(1.0, ()))
    uid = machine.uid("b1")
    assert Missing(MEMORY, uid, reason) in harvest.missing
    measured = {(one.metric, one.entity) for one in harvest.samples}
    assert (CPU, uid) in measured
    assert (MEMORY, uid) not in measured
    assert (MEMORY, machine.uid("g")) in measured

"""A whole machine with damaged files, through the whole tick: each lost value is counted under a name."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import strategies as st

from agent.collectors.base import Machine, resolve
from agent.host.cgroup import CgroupTree, detect
from agent.host.procfs import HostPaths
from agent.pipeline import Pipeline
from agent.samples import CPU, MEMORY, NODE, REASONS
from agent.sources.pod import CgroupPods
from agent.store_failover import StoreFailover
from agent.tsdb.tsdb import Tsdb
from tests.agent.made_pipeline import made_pipeline
from tests.fuzz.inputs import kernel_texts
from tests.fuzz.originals import MEMINFO, PRESSURE, STAT, V1_MEMORY_STAT, V1_USAGE, V2_CPU_STAT, V2_MEMORY_STAT
from tests.fuzz.strength import fuzz

START = 1_700_000_000.0
UIDS = ("0f7b5cd5-2f3a-44b2-9d4e-3c3a0a5f7c11", "9e0ea92a4b5cb3a9d4e3c3a0a5f7c11a")
V2_POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice"
PROC = {"proc/stat": STAT, "proc/meminfo": MEMINFO, "proc/pressure/cpu": PRESSURE}
V1 = {
    **PROC,
    **{f"sys/fs/cgroup/cpuacct/kubepods/burstable/pod{uid}/cpuacct.usage": V1_USAGE for uid in UIDS},
    **{f"sys/fs/cgroup/memory/kubepods/burstable/pod{uid}/memory.stat": V1_MEMORY_STAT for uid in UIDS},
}
V2 = {
    **PROC,
    "sys/fs/cgroup/cgroup.controllers": "cpu memory",
    **{f"sys/fs/cgroup/{V2_POD.format(uid.replace('-', '_'))}/cpu.stat": V2_CPU_STAT for uid in UIDS},
    **{f"sys/fs/cgroup/{V2_POD.format(uid.replace('-', '_'))}/memory.stat": V2_MEMORY_STAT for uid in UIDS},
}
Write = Callable[[Path], object]


@dataclass
class FakeMachine:
    """A tree of files, and a clock that ticks."""

    root: Path
    files: dict[str, str]
    now: float = 0.0
    touched: list[str] = field(default_factory=list)

    def restore(self) -> None:
        """Make all files sound."""
        shutil.rmtree(self.root, ignore_errors=True)
        for name, text in self.files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def pipeline(self) -> Pipeline:
        """An agent that looks at it."""
        paths = HostPaths.under(self.root)
        tree = CgroupTree(detect(paths.cgroup))
        tree.locate()
        machine = Machine(paths, tree, lambda: self.now, float(os.sysconf("SC_CLK_TCK")))
        collectors = resolve(("node", "pod", "pressure"), machine)
        return made_pipeline(StoreFailover(Tsdb.in_memory), collectors, CgroupPods(tree))


@pytest.fixture(scope="module", params=[V1, V2], ids=["v1", "v2"])
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FakeMachine:
    """A machine of each version, with two pods."""
    return FakeMachine(tmp_path_factory.mktemp("machine") / "root", request.param)


def _damage(path: Path, content: str | bytes | None) -> None:
    if content is None:
        path.unlink()
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8", errors="replace")
    else:
        path.write_bytes(content)


CONTENTS = kernel_texts(*V1.values(), *V2.values()) | st.binary() | st.none()


@fuzz(accidents=st.lists(st.tuples(st.integers(0, 6), CONTENTS), min_size=1, max_size=4, unique_by=lambda one: one[0]))
def test_machine(machine: FakeMachine, accidents: list[tuple[int, str | bytes | None]]) -> None:
    """After any accident to its files each value is a sample or a gap with a known reason, and the tick is stored."""
    machine.restore()
    pipeline = machine.pipeline()
    pipeline.run_once(START)
    names = sorted(machine.files)
    for which, content in accidents:
        if names[which % len(names)] != "sys/fs/cgroup/cgroup.controllers":
            _damage(machine.root / names[which % len(names)], content)
    machine.now += 1.0
    pipeline.run_once(START + 1.0)
    assert not pipeline.failing.keys() - {"node", "pod", "pressure"}, pipeline.failing
    assert pipeline.last_tick == START + 1.0
    missing = {(one.metric, one.entity) for one in pipeline.missing}
    assert {one.reason for one in pipeline.missing} <= REASONS.keys()
    for entity in (NODE, *UIDS):
        for metric in (CPU, MEMORY):
            values = pipeline.store.window(metric, entity, START, START + 1.0).values
            assert (len(values) == 1) != ((metric, entity) in missing), (metric, entity, pipeline.missing)
            assert all(0.0 <= value < 2.0**53 for value in values)
    pipeline.close(START + 2.0)

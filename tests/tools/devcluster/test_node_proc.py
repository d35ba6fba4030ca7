"""/proc/stat and /proc/meminfo of a real node: made from its cgroup tree, and read by the agent's own parsers."""

from pathlib import Path

import pytest

from agent.host import procfs
from tools.devcluster.cgroups import Hierarchy
from tools.devcluster.node_proc import Tree, Usage, find, meminfo, stat

STAT = "cpu  900 10 20 30 40 0 0 0 0 0\ncpu0 450 5 10 15 20 0 0 0 0 0\ncpu1 450 5 10 15 20 0 0 0 0 0\nbtime 17\n"
MEMINFO = "MemTotal:        1000000 kB\nMemFree:             100 kB\nMemAvailable:        200 kB\nSlab:  7 kB\n"
USAGE = Usage(cpu_seconds=5.0, memory_bytes=300_000 * 1024, evictable_bytes=200_000 * 1024)


def test_stat_has_tree_usage() -> None:
    """The CPUs were busy for the tree's 5 s of 100 s each, half of it on each CPU; other lines stay."""
    text = stat(STAT, USAGE, uptime_seconds=100.0)
    assert procfs.busy_ticks(text) == 500
    assert procfs.busy_ticks_per_cpu(text) == {0: 250, 1: 250}
    assert text.startswith("cpu  500 0 0 19500 0 ")
    assert text.endswith("btime 17\n")


def test_meminfo_has_tree_usage() -> None:
    """The tree's 300 MB are in use, 100 MB of them without page cache, in a file of the same length."""
    memory = procfs.meminfo(meminfo(MEMINFO, USAGE))
    assert memory.total_bytes == 1_000_000 * 1024
    assert memory.used_with_page_cache_bytes == 300_000 * 1024
    assert memory.used_bytes == 100_000 * 1024
    assert len(meminfo(MEMINFO, USAGE)) == len(MEMINFO)


@pytest.mark.parametrize("version", [1, 2])
def test_tree_is_read(version: int, tmp_path: Path) -> None:
    files = {"cpuacct.usage": "5000000000\n", "memory.usage_in_bytes": "90\n"}
    files["memory.stat"] = "active_file 1\ninactive_file 1\ntotal_active_file 30\ntotal_inactive_file 10\n"
    if version == 2:
        files = {"cpu.stat": "usage_usec 5000000\nnr_periods 0\n", "memory.current": "90\n"}
        files["memory.stat"] = "active_file 30\ninactive_file 10\n"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    v1 = [Hierarchy(tmp_path, "cgroup", "cpu,cpuacct"), Hierarchy(tmp_path, "cgroup", "memory")]
    tree = find(v1 if version == 1 else [Hierarchy(tmp_path, "cgroup2", "")])
    assert tree.read() == Usage(cpu_seconds=5.0, memory_bytes=90, evictable_bytes=40)


def test_memory_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 1000000\n")
    tree = find([Hierarchy(tmp_path, "cgroup2", "")])
    assert tree == Tree(Hierarchy(tmp_path, "cgroup2", ""), None)
    assert tree.read() == Usage(1.0, 0, 0)

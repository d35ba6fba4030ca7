"""The node's /proc/stat and /proc/meminfo: usage of its own cgroup tree, whatever else this machine runs.

`show` covers the machine's two files in the node's mount namespace. Run as a program of the node, this module updates
them. Standard library only.
"""

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.cgroups import Hierarchy, mounted

FOLDER = Path("/run/proc")
"""The folder, in the node, of the files that cover those of the machine."""
PAUSE_SECONDS = 0.05
"""Age of the oldest figures: an agent that reads them every second measures a rate within 5 %."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """The usage of a cgroup tree."""

    cpu_seconds: float  # CPU time so far
    memory_bytes: int  # memory in use with page cache
    evictable_bytes: int  # the page cache in it


@dataclass(frozen=True)
class Tree:
    """The cgroup tree of the node: the files that hold its usage."""

    cpu: Hierarchy
    memory: Hierarchy | None  # None: the kernel has no memory controller here

    def read(self) -> Usage:
        """Read the usage of the whole tree."""
        cpu = self.cpu.mount_point
        if self.cpu.is_v2:
            cpu_seconds = _pairs(cpu / "cpu.stat")["usage_usec"] / 1e6
        else:
            cpu_seconds = int((cpu / "cpuacct.usage").read_text()) / 1e9
        if self.memory is None:
            return Usage(cpu_seconds, 0, 0)
        memory, prefix = self.memory.mount_point, "" if self.memory.is_v2 else "total_"
        current = memory / ("memory.current" if self.memory.is_v2 else "memory.usage_in_bytes")
        stat = _pairs(memory / "memory.stat")
        evictable = stat[f"{prefix}active_file"] + stat[f"{prefix}inactive_file"]
        return Usage(cpu_seconds, int(current.read_text()), evictable)


def find(trees: Sequence[Hierarchy]) -> Tree:
    """Find the hierarchies with CPU time and with memory, version 1 first."""
    v2 = [tree for tree in trees if tree.is_v2]
    cpu = [tree for tree in trees if "cpuacct" in tree.options.split(",")]
    memory = [tree for tree in trees if "memory" in tree.options.split(",")]
    memory += [tree for tree in v2 if (tree.mount_point / "memory.current").exists()]
    return Tree((cpu + v2)[0], memory[0] if memory else None)


def _pairs(file: Path) -> dict[str, int]:
    return {name: int(number) for name, number in map(str.split, file.read_text().splitlines())}


def stat(machine: str, usage: Usage, uptime_seconds: float) -> str:
    """Return /proc/stat with the tree's CPU time as user time, an equal part of it on each CPU."""
    cpus = len(re.findall(r"^cpu\d", machine, re.MULTILINE))

    def line(found: re.Match[str]) -> str:
        part = cpus if found[1] == "cpu" else 1
        busy, up = usage.cpu_seconds * part / cpus, uptime_seconds * part
        idle = max(0.0, up - busy)
        name = "cpu " if found[1] == "cpu" else found[1]
        return f"{name} {int(busy * TICKS_PER_SECOND)} 0 0 {int(idle * TICKS_PER_SECOND)} 0 0 0 0 0 0"

    return re.sub(r"^(cpu\d*) .*$", line, machine, flags=re.MULTILINE)


def meminfo(machine: str, usage: Usage) -> str:
    """Return /proc/meminfo with all memory free that the tree does not use, and its page cache available."""
    total = int(re.findall(r"^MemTotal: *(\d+) kB$", machine, re.MULTILINE)[0])
    free = max(0, total - usage.memory_bytes // 1024)
    amounts = {"MemFree": free, "MemAvailable": min(total, free + usage.evictable_bytes // 1024)}

    def line(found: re.Match[str]) -> str:
        return f"{found[1] + ':':<16}{amounts[found[1]]:>8} kB"

    return re.sub(r"^(MemFree|MemAvailable): .*$", line, machine, flags=re.MULTILINE)


def write(tree: Tree) -> None:
    """Write the files in place: their readers keep them open."""
    usage = tree.read()
    for name in ("stat", "meminfo"):
        file = FOLDER / name
        if not file.exists():
            continue
        before = file.read_text()
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        data = (stat(before, usage, uptime) if name == "stat" else meminfo(before, usage)).encode()
        with file.open("rb+", buffering=0) as opened:
            opened.write(data)
            if len(data) < len(before):
                opened.truncate()


def show() -> list[tuple[str, str]]:
    """Write the first files. Returns each with the file of the machine that it is to cover."""
    tree = find(mounted())
    FOLDER.mkdir()
    names = ("stat", "meminfo") if tree.memory else ("stat",)
    for name in names:
        (FOLDER / name).write_text(Path("/proc", name).read_text())
    write(tree)
    return [(str(FOLDER / name), f"/proc/{name}") for name in names]


def main() -> None:
    """Update the files until the node ends."""
    tree = find(mounted())
    while True:
        write(tree)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()

"""Texts of the files that a replayed machine shows: /proc, and cgroups of version 2 and 1. Pure but for `make`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tools.devcluster.replay_load import Load

TICKS_PER_SECOND = 100
CACHE_SHARE = 0.1  # page cache of a cgroup, as a share of its other memory; three quarters of it inactive
KERNEL_SHARE = 0.01
ACTIVE_ANON_SHARE = 0.4
FREE_CACHE_SHARE = 0.05  # page cache of the machine that belongs to no cgroup, as a share of its memory
USER_SHARE = 0.8
QUOTA_PERIOD_MICROSECONDS = 100_000
V1_NO_LIMIT = 0x7FFFFFFFFFFFF000
V2_OTHER_MEMORY = (
    "kernel_stack pagetables sec_pagetables percpu sock vmalloc zswap zswapped file_mapped file_dirty file_writeback "
    "swapcached anon_thp file_thp shmem_thp slab_reclaimable slab_unreclaimable slab workingset_refault_anon "
    "workingset_refault_file workingset_activate_anon workingset_activate_file workingset_restore_anon "
    "workingset_restore_file workingset_nodereclaim pgfault pgmajfault pgrefill pgscan pgsteal pgscan_kswapd "
    "pgscan_direct pgsteal_kswapd pgsteal_direct pgactivate pgdeactivate pglazyfree pglazyfreed thp_fault_alloc "
    "thp_collapse_alloc"
)
"""What a kernel has in memory.stat beside what is replayed: a reader has to get through it too."""
V1_MEMORY_KEYS = ("inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable")


@dataclass(frozen=True)
class Memory:
    """What a cgroup has in memory. [bytes]"""

    anon: int = 0  # without page cache

    @property
    def file(self) -> int:
        """Page cache."""
        return int(self.anon * CACHE_SHARE)

    @property
    def kernel(self) -> int:
        """The kernel's own for it."""
        return int(self.anon * KERNEL_SHARE)

    @property
    def total(self) -> int:
        """All of it."""
        return self.anon + self.file + self.kernel

    def stat(self) -> dict[str, int]:
        """The lines of memory.stat that have to do with it."""
        active_anon, active_file = int(self.anon * ACTIVE_ANON_SHARE), self.file // 4
        return {
            "anon": self.anon,
            "file": self.file,
            "kernel": self.kernel,
            "shmem": 0,
            "inactive_anon": self.anon - active_anon,
            "active_anon": active_anon,
            "inactive_file": self.file - active_file,
            "active_file": active_file,
            "unevictable": 0,
        }


NOTHING = Load(lambda _: 0.0, lambda _: 0.0)


@dataclass
class Group:
    """A cgroup: where it is, and what it has used so far."""

    path: str  # below the root of every hierarchy; empty for the root
    load: Load = NOTHING  # what it uses by itself
    cpu_limit: float = 0.0  # CPU quota [cores]; 0: none
    memory_limit: int = 0  # memory limit [bytes]; 0: none
    cpu_seconds: float = 0.0  # CPU time so far, with what is below it
    memory: Memory = field(default_factory=Memory)  # memory now, with what is below it
    stalled_seconds: float = 0.0  # for how long some of its tasks waited for a CPU, so far


class Layout(Protocol):
    """How a version of cgroups lays its files out below `sys/fs/cgroup`."""

    def make(self, root: Path) -> None:
        """Make what is there without any group."""

    def files(self, group: Group) -> dict[str, str]:
        """Path below `sys/fs/cgroup` and contents of every file of a group."""

    def folders(self, group: Group) -> list[str]:
        """The folders of a group, below `sys/fs/cgroup`."""


def lines(values: dict[str, int]) -> str:
    """Names and numbers, one pair a line."""
    return "".join(f"{name} {value}\n" for name, value in values.items())


class CgroupV2:
    """One unified hierarchy."""

    def make(self, root: Path) -> None:
        """The controllers."""
        (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")

    def folders(self, group: Group) -> list[str]:
        """One folder."""
        return [group.path]

    def files(self, group: Group) -> dict[str, str]:
        """cpu.stat and memory.stat everywhere; what the root does not have, below it."""
        used = group.cpu_seconds * 1e6
        user, system = int(used * USER_SHARE), int(used * (1 - USER_SHARE))
        cpu = {"usage_usec": int(used), "user_usec": user, "system_usec": system}
        cpu |= {"nr_periods": 0, "nr_throttled": 0, "throttled_usec": 0}
        memory = lines({**group.memory.stat(), **dict.fromkeys(V2_OTHER_MEMORY.split(), 0)})
        files = {"cpu.stat": lines(cpu), "memory.stat": memory}
        if group.path:
            quota = int(group.cpu_limit * QUOTA_PERIOD_MICROSECONDS)
            files["cpu.max"] = f"{quota or 'max'} {QUOTA_PERIOD_MICROSECONDS}\n"
            files["memory.current"] = f"{group.memory.total}\n"
            files["memory.max"] = f"{group.memory_limit or 'max'}\n"
            for resource in ("cpu", "memory", "io"):
                files[f"{resource}.pressure"] = pressure(group.stalled_seconds if resource == "cpu" else 0.0)
        return {f"{group.path}/{name}".lstrip("/"): text for name, text in files.items()}


class CgroupV1:
    """Hierarchies apart: cpu, cpuacct, memory."""

    def make(self, root: Path) -> None:
        """The roots of the hierarchies."""
        for hierarchy in ("cpu", "cpuacct", "memory"):
            (root / hierarchy).mkdir(exist_ok=True)

    def folders(self, group: Group) -> list[str]:
        """One folder in each hierarchy."""
        return [f"{hierarchy}/{group.path}" for hierarchy in ("cpu", "cpuacct", "memory")]

    def files(self, group: Group) -> dict[str, str]:
        """The same figures under the names of version 1; memory.stat has the sums in its `total_` lines."""
        quota = int(group.cpu_limit * QUOTA_PERIOD_MICROSECONDS)
        stat = group.memory.stat()
        own = {"cache": stat["file"], "rss": stat["anon"], **{key: stat[key] for key in V1_MEMORY_KEYS}}
        memory = {**own, **{f"total_{key}": value for key, value in own.items()}}
        return {
            f"cpuacct/{group.path}/cpuacct.usage": f"{int(group.cpu_seconds * 1e9)}\n",
            f"cpu/{group.path}/cpu.stat": lines({"nr_periods": 0, "nr_throttled": 0, "throttled_time": 0}),
            f"cpu/{group.path}/cpu.cfs_quota_us": f"{quota or -1}\n",
            f"cpu/{group.path}/cpu.cfs_period_us": f"{QUOTA_PERIOD_MICROSECONDS}\n",
            f"cpu/{group.path}/cpu.shares": "1024\n",
            f"memory/{group.path}/memory.usage_in_bytes": f"{group.memory.total}\n",
            f"memory/{group.path}/memory.limit_in_bytes": f"{group.memory_limit or V1_NO_LIMIT}\n",
            f"memory/{group.path}/memory.stat": lines(memory),
        }


def stat(busy_seconds: float, uptime_seconds: float, cpus: int) -> str:
    """/proc/stat: the machine's line, and one for each CPU with an equal part of it."""

    def line(name: str, busy: float, idle: float) -> str:
        # Each rounded by itself, so that neither goes back when time goes on.
        user, system = int(busy * USER_SHARE * TICKS_PER_SECOND), int(busy * (1 - USER_SHARE) * TICKS_PER_SECOND)
        return f"{name} {user} 0 {system} {int(idle * TICKS_PER_SECOND)} 0 0 0 0 0 0\n"

    idle = max(0.0, uptime_seconds * cpus - busy_seconds)
    each = "".join(line(f"cpu{number}", busy_seconds / cpus, idle / cpus) for number in range(cpus))
    return f"{line('cpu ', busy_seconds, idle)}{each}ctxt 0\nbtime 1700000000\nprocesses 100\nprocs_running 1\n"


def meminfo(total_bytes: int, used: Memory) -> str:
    """/proc/meminfo: available = total - what is in use without page cache; free = available - page cache."""
    cache = used.file + int(total_bytes * FREE_CACHE_SHARE)
    available = total_bytes - used.anon - used.kernel
    values = {
        "MemTotal": total_bytes,
        "MemFree": max(0, available - cache),
        "MemAvailable": available,
        "Buffers": 0,
        "Cached": cache,
        "SwapTotal": 0,
        "SwapFree": 0,
        "AnonPages": used.anon,
        "Shmem": 0,
        "Slab": used.kernel,
    }
    return "".join(f"{name + ':':<16}{value // 1024:>8} kB\n" for name, value in values.items())


def pressure(stalled_seconds: float) -> str:
    """A file of /proc/pressure, or of a cgroup, with this time that some tasks waited; all of them never did."""
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {averages} total={int(stalled_seconds * 1e6)}\nfull {averages} total=0\n"

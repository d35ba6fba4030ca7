"""A replayed machine: a folder with `proc` and `sys/fs/cgroup` (v2) like a host's, advanced in time.

Counters only grow, and what belongs together agrees: the node's CPU and memory are the sums of system and pods. Files
are rewritten in place, as their readers keep them open.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.replay_load import NOTHING, Load

LARGEST_MEMORY_SHARE = 0.85  # what may be in use without page cache, as a share of the machine's memory
PRESSURE_FROM = 0.6  # CPU use from which tasks wait for a CPU, as a share of the capacity
TICKS_PER_SECOND = 100
CACHE_SHARE = 0.1  # page cache of a cgroup, as a share of its other memory; three quarters of it inactive
KERNEL_SHARE = 0.01
ACTIVE_ANON_SHARE = 0.4
FREE_CACHE_SHARE = 0.05  # page cache of the machine that belongs to no cgroup, as a share of its memory
USER_SHARE = 0.8
QUOTA_PERIOD_MICROSECONDS = 100_000
OTHER_MEMORY = (
    "kernel_stack pagetables sec_pagetables percpu sock vmalloc zswap zswapped file_mapped file_dirty file_writeback "
    "swapcached anon_thp file_thp shmem_thp slab_reclaimable slab_unreclaimable slab workingset_refault_anon "
    "workingset_refault_file workingset_activate_anon workingset_activate_file workingset_restore_anon "
    "workingset_restore_file workingset_nodereclaim pgfault pgmajfault pgrefill pgscan pgsteal pgscan_kswapd "
    "pgscan_direct pgsteal_kswapd pgsteal_direct pgactivate pgdeactivate pglazyfree pglazyfreed thp_fault_alloc "
    "thp_collapse_alloc"
)
"""Further lines of a kernel's memory.stat: a reader has to parse them, too."""


@dataclass
class Group:
    """A cgroup: its path, and its usage so far, descendants included."""

    path: str  # below the root; empty for the root
    load: Load = NOTHING  # its usage without descendants
    cpu_limit: float = 0.0  # CPU quota [cores]; 0: none
    memory_limit: int = 0  # memory limit [bytes]; 0: none
    cpu_seconds: float = 0.0  # CPU time so far
    anon: int = 0  # memory now, without page cache and the kernel's own [bytes]
    stalled_seconds: float = 0.0  # for how long some of its tasks waited for a CPU, so far

    def files(self) -> dict[str, str]:
        """Path below `sys/fs/cgroup` and contents of each of its files; files that only child cgroups have."""
        used = self.cpu_seconds * 1e6
        user, system = int(used * USER_SHARE), int(used * (1 - USER_SHARE))
        cpu = {"usage_usec": int(used), "user_usec": user, "system_usec": system}
        cpu |= {"nr_periods": 0, "nr_throttled": 0, "throttled_usec": 0}
        cache, kernel = _cache(self.anon), _kernel(self.anon)
        active_anon, active_cache = int(self.anon * ACTIVE_ANON_SHARE), cache // 4
        memory = {
            "anon": self.anon,
            "file": cache,
            "kernel": kernel,
            "shmem": 0,
            "inactive_anon": self.anon - active_anon,
            "active_anon": active_anon,
            "inactive_file": cache - active_cache,
            "active_file": active_cache,
            "unevictable": 0,
        }
        files = {"cpu.stat": _lines(cpu), "memory.stat": _lines(memory | dict.fromkeys(OTHER_MEMORY.split(), 0))}
        if self.path:
            quota = int(self.cpu_limit * QUOTA_PERIOD_MICROSECONDS)
            files["cpu.max"] = f"{quota or 'max'} {QUOTA_PERIOD_MICROSECONDS}\n"
            files["memory.current"] = f"{self.anon + cache + kernel}\n"
            files["memory.max"] = f"{self.memory_limit or 'max'}\n"
            for resource in ("cpu", "memory", "io"):
                files[f"{resource}.pressure"] = _pressure(self.stalled_seconds if resource == "cpu" else 0.0)
        return {f"{self.path}/{name}".lstrip("/"): text for name, text in files.items()}


@dataclass
class Machine:
    """A replayed machine. `advance` moves its time and writes its files."""

    directory: Path  # the host root: `proc` and `sys/fs/cgroup` lie below it
    cpu_cores: int  # number of CPUs
    memory_bytes: int  # MemTotal
    system: Load  # what runs beside pods
    floor: Load  # the least usage of the machine; the system makes up the rest
    seconds: float = 0.0  # time in the replay
    uptime_seconds: float = 1000.0  # time since its boot

    def __post_init__(self) -> None:
        self.root_group, self.system_group = Group(""), Group("system.slice")
        self._parents = [Group(name) for name in ("kubepods", "kubepods/burstable", "kubepods/besteffort")]
        self._pods: dict[str, Group] = {}
        self._written: dict[str, bytes] = {}  # path below the directory -> contents
        self._stalled_seconds = 0.0
        (self.directory / "proc/pressure").mkdir(parents=True, exist_ok=True)
        for group in (self.root_group, self.system_group, *self._parents):
            self._folder(group).mkdir(parents=True, exist_ok=True)
        (self._folder(self.root_group) / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        self.advance(0.0)

    def _folder(self, group: Group) -> Path:
        return self.directory / "sys/fs/cgroup" / group.path

    def move(self, directory: Path) -> None:
        """Rename the whole host root."""
        self.directory.rename(directory)
        self.directory = directory

    def set_pods(self, pods: Mapping[str, Group]) -> None:
        """Say which pods run: by uid, with their cgroup path and load. New ones start at zero, others go on."""
        for uid in set(self._pods) - set(pods):
            gone = self._pods.pop(uid)
            shutil.rmtree(self._folder(gone), ignore_errors=True)
            for path in gone.files():
                self._written.pop(f"sys/fs/cgroup/{path}", None)
        for uid, group in pods.items():
            old = self._pods.get(uid)
            if old is None:
                self._pods[uid] = group
                self._folder(group).mkdir(parents=True, exist_ok=True)
                self._write_group(group)
            else:
                old.load, old.cpu_limit, old.memory_limit = group.load, group.cpu_limit, group.memory_limit

    def advance(self, elapsed_seconds: float) -> None:
        """Let time pass and write all files."""
        middle = self.seconds + elapsed_seconds / 2
        self.seconds += elapsed_seconds
        self.uptime_seconds += elapsed_seconds
        cores = {uid: group.load.cpu(middle) for uid, group in self._pods.items()}
        pods_cores = sum(cores.values())
        system_cores = max(self.system.cpu(middle), self.floor.cpu(middle) - pods_cores)
        # More than there are CPUs cannot run: every process gets less.
        squeeze = min(1.0, self.cpu_cores / max(pods_cores + system_cores, 1e-9))
        for uid, wanted in cores.items():
            self._spend(self._pods[uid], wanted * squeeze * elapsed_seconds)
        self._spend(self.system_group, system_cores * squeeze * elapsed_seconds)
        busy = (pods_cores + system_cores) * squeeze / self.cpu_cores
        # On a busy machine tasks wait, those of every pod alike.
        stalled = max(0.0, (busy - PRESSURE_FROM) / (1 - PRESSURE_FROM)) ** 2 * elapsed_seconds
        self._stalled_seconds += stalled
        for group in (self.system_group, *self._parents, *self._pods.values()):
            group.stalled_seconds += stalled
        self._fill_memory()
        self._write()

    def _spend(self, group: Group, cpu_seconds: float) -> None:
        """Count CPU time for a group and all above it. What ended pods have used stays counted there."""
        above = [parent for parent in self._parents if group.path.startswith(f"{parent.path}/")]
        for entry in (group, *above, self.root_group):
            entry.cpu_seconds += cpu_seconds

    def _fill_memory(self) -> None:
        wanted = {uid: group.load.memory(self.seconds) for uid, group in self._pods.items()}
        # There is no more than the machine has: without an out-of-memory killer every process gets less.
        most = self.memory_bytes * LARGEST_MEMORY_SHARE
        squeeze = min(1.0, most / max(sum(wanted.values()), 1.0))
        for uid, amount in wanted.items():
            self._pods[uid].anon = int(amount * squeeze)
        pods = sum(group.anon for group in self._pods.values())
        system = max(self.system.memory(self.seconds), self.floor.memory(self.seconds) - pods)
        self.system_group.anon = int(max(0.0, min(system, most - pods)))
        for parent in self._parents:
            parent.anon = sum(pod.anon for pod in self._pods.values() if pod.path.startswith(f"{parent.path}/"))
        self.root_group.anon = pods + self.system_group.anon

    def _write(self) -> None:
        for group in (self.root_group, self.system_group, *self._parents, *self._pods.values()):
            self._write_group(group)
        self._put("proc/stat", _stat(self.root_group.cpu_seconds, self.uptime_seconds, self.cpu_cores))
        self._put("proc/meminfo", _meminfo(self.memory_bytes, self.root_group.anon))
        self._put("proc/uptime", f"{self.uptime_seconds:.2f} 0.00\n")
        for resource in ("cpu", "memory", "io"):
            self._put(f"proc/pressure/{resource}", _pressure(self._stalled_seconds if resource == "cpu" else 0.0))

    def _write_group(self, group: Group) -> None:
        for path, text in group.files().items():
            self._put(f"sys/fs/cgroup/{path}", text)

    def _put(self, path: str, text: str) -> None:
        """Write a file in place in one call if it changed; a shorter text is filled up, so that no old tail is read."""
        before = self._written.get(path, b"")
        data = text.encode().ljust(len(before), b"\n")
        if data == before:
            return
        self._written[path] = data
        descriptor = os.open(f"{self.directory}/{path}", os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, data, 0)
        finally:
            os.close(descriptor)


def _cache(anon: int) -> int:
    return int(anon * CACHE_SHARE)


def _kernel(anon: int) -> int:
    return int(anon * KERNEL_SHARE)


def _lines(values: Mapping[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())


def _stat(busy_seconds: float, uptime_seconds: float, cpus: int) -> str:
    """/proc/stat: the machine's line, and one for each CPU with an equal part of it."""

    def line(name: str, busy: float, idle: float) -> str:
        # Each rounded by itself, so that neither goes back when time goes on.
        user, system = int(busy * USER_SHARE * TICKS_PER_SECOND), int(busy * (1 - USER_SHARE) * TICKS_PER_SECOND)
        return f"{name} {user} 0 {system} {int(idle * TICKS_PER_SECOND)} 0 0 0 0 0 0\n"

    idle = max(0.0, uptime_seconds * cpus - busy_seconds)
    each = "".join(line(f"cpu{number}", busy_seconds / cpus, idle / cpus) for number in range(cpus))
    return f"{line('cpu ', busy_seconds, idle)}{each}ctxt 0\nbtime 1700000000\nprocesses 100\nprocs_running 1\n"


def _meminfo(total: int, anon: int) -> str:
    """/proc/meminfo: available = total - usage without page cache; free = available - page cache."""
    cache = _cache(anon) + int(total * FREE_CACHE_SHARE)
    available = total - anon - _kernel(anon)
    values = {
        "MemTotal": total,
        "MemFree": max(0, available - cache),
        "MemAvailable": available,
        "Buffers": 0,
        "Cached": cache,
        "SwapTotal": 0,
        "SwapFree": 0,
        "AnonPages": anon,
        "Shmem": 0,
        "Slab": _kernel(anon),
    }
    return "".join(f"{name + ':':<16}{value // 1024:>8} kB\n" for name, value in values.items())


def _pressure(stalled_seconds: float) -> str:
    """A file of /proc/pressure, or of a cgroup, with this time that some tasks waited; all of them never did."""
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {averages} total={int(stalled_seconds * 1e6)}\nfull {averages} total=0\n"

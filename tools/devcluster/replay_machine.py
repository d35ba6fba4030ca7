"""One replayed machine: a folder with `proc` and `sys/fs/cgroup` like a host's, advanced in time.

Counters only grow, and what belongs together agrees: the node's CPU and memory are the sums of system and pods. Files
are rewritten in place, as their readers keep them open.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster import replay_files
from tools.devcluster.replay_files import Group, Layout, Memory
from tools.devcluster.replay_load import Load

LARGEST_MEMORY_SHARE = 0.85  # what may be in use without page cache, as a share of the machine's memory
PRESSURE_FROM = 0.6  # CPU use from which tasks wait for a CPU, as a share of the capacity


@dataclass
class Machine:
    """A replayed machine. `advance` moves its time and writes its files."""

    directory: Path  # the host root: `proc` and `sys/fs/cgroup` lie below it
    cpu_cores: int  # number of CPUs
    memory_bytes: int  # MemTotal
    system: Load  # what runs beside pods
    floor: Load  # what the whole machine uses at least; the system makes up the rest
    layout: Layout  # version of its cgroups
    seconds: float = 0.0  # time in the replay
    uptime_seconds: float = 1000.0  # time since its boot

    def __post_init__(self) -> None:
        self.root_group, self.system_group = Group(""), Group("system.slice")
        self._parents = [Group(name) for name in ("kubepods", "kubepods/burstable", "kubepods/besteffort")]
        self._pods: dict[str, Group] = {}
        self._written: dict[str, bytes] = {}
        self._stalled_seconds = 0.0
        self._cgroups = self.directory / "sys/fs/cgroup"
        self._proc = self.directory / "proc"
        (self._proc / "pressure").mkdir(parents=True, exist_ok=True)
        self._cgroups.mkdir(parents=True, exist_ok=True)
        self.layout.make(self._cgroups)
        for group in (self.system_group, *self._parents):
            self._make(group)
        self.advance(0.0)

    def move(self, directory: Path) -> None:
        """Rename the whole host root."""
        self.directory.rename(directory)
        before = len(str(self.directory))
        self._written = {f"{directory}{path[before:]}": data for path, data in self._written.items()}
        self.directory = directory
        self._cgroups, self._proc = directory / "sys/fs/cgroup", directory / "proc"

    def set_pods(self, pods: dict[str, Group]) -> None:
        """Say which pods run: by uid, with their cgroup path and load. New ones start at zero, others go on."""
        for uid in set(self._pods) - set(pods):
            gone = self._pods.pop(uid)
            for folder in self.layout.folders(gone):
                shutil.rmtree(self._cgroups / folder, ignore_errors=True)
            for path in self.layout.files(gone):
                self._written.pop(f"{self._cgroups}/{path}", None)
        for uid, group in pods.items():
            old = self._pods.get(uid)
            if old is None:
                self._pods[uid] = group
                self._make(group)
                self._write_group(group)
            else:
                old.load, old.cpu_limit, old.memory_limit = group.load, group.cpu_limit, group.memory_limit

    def advance(self, elapsed_seconds: float, speed: float = 1.0) -> None:
        """Let time pass and write all files.

        Args:
            elapsed_seconds: by the readers' clock: counters grow by load times this.
            speed: how much faster the time in the trace passes.
        """
        middle = self.seconds + elapsed_seconds * speed / 2
        self.seconds += elapsed_seconds * speed
        self.uptime_seconds += elapsed_seconds
        cores = {uid: group.load.cpu(middle) for uid, group in self._pods.items()}
        pods_cores = sum(cores.values())
        system_cores = max(self.system.cpu(middle), self.floor.cpu(middle) - pods_cores)
        # More than there are CPUs cannot run: everybody gets less.
        squeeze = min(1.0, self.cpu_cores / max(pods_cores + system_cores, 1e-9))
        for uid, wanted in cores.items():
            self._spend(self._pods[uid], wanted * squeeze * elapsed_seconds)
        self._spend(self.system_group, system_cores * squeeze * elapsed_seconds)
        busy = (pods_cores + system_cores) * squeeze / self.cpu_cores
        self._stall(max(0.0, (busy - PRESSURE_FROM) / (1 - PRESSURE_FROM)) ** 2 * elapsed_seconds)
        self._fill_memory()
        self._write()

    def _spend(self, group: Group, cpu_seconds: float) -> None:
        """Count CPU time for a group and all above it. What ended pods have used stays counted there."""
        for one in (group, *self._above(group), self.root_group):
            one.cpu_seconds += cpu_seconds

    def _stall(self, seconds: float) -> None:
        """Count time in which tasks waited: on a busy machine those of every pod wait alike."""
        self._stalled_seconds += seconds
        for group in (self.system_group, *self._parents, *self._pods.values()):
            group.stalled_seconds += seconds

    def _above(self, group: Group) -> list[Group]:
        return [parent for parent in self._parents if group.path.startswith(f"{parent.path}/")]

    def _fill_memory(self) -> None:
        wanted = {uid: group.load.memory(self.seconds) for uid, group in self._pods.items()}
        # There is no more than the machine has: without an out-of-memory killer everybody gets less.
        most = self.memory_bytes * LARGEST_MEMORY_SHARE
        squeeze = min(1.0, most / max(sum(wanted.values()), 1.0))
        for uid, amount in wanted.items():
            self._pods[uid].memory = Memory(int(amount * squeeze))
        pods = sum(group.memory.anon for group in self._pods.values())
        system = max(self.system.memory(self.seconds), self.floor.memory(self.seconds) - pods)
        self.system_group.memory = Memory(int(max(0.0, min(system, most - pods))))
        for parent in self._parents:
            below = (pod.memory.anon for pod in self._pods.values() if pod.path.startswith(f"{parent.path}/"))
            parent.memory = Memory(sum(below))
        self.root_group.memory = Memory(pods + self.system_group.memory.anon)

    def _make(self, group: Group) -> None:
        for folder in self.layout.folders(group):
            (self._cgroups / folder).mkdir(parents=True, exist_ok=True)

    def _write(self) -> None:
        for group in (self.root_group, self.system_group, *self._parents, *self._pods.values()):
            self._write_group(group)
        busy, memory = self.root_group.cpu_seconds, self.root_group.memory
        self._put(f"{self._proc}/stat", replay_files.stat(busy, self.uptime_seconds, self.cpu_cores))
        self._put(f"{self._proc}/meminfo", replay_files.meminfo(self.memory_bytes, memory))
        self._put(f"{self._proc}/uptime", f"{self.uptime_seconds:.2f} 0.00\n")
        for resource in ("cpu", "memory", "io"):
            stalled = self._stalled_seconds if resource == "cpu" else 0.0
            self._put(f"{self._proc}/pressure/{resource}", replay_files.pressure(stalled))

    def _write_group(self, group: Group) -> None:
        for path, text in self.layout.files(group).items():
            self._put(f"{self._cgroups}/{path}", text)

    def _put(self, path: str, text: str) -> None:
        """Write a file in place in one call if it changed; a shorter text is filled up, so that no old tail is read."""
        before = self._written.get(path, b"")
        data = text.encode().ljust(len(before), b"\n")
        if data == before:
            return
        self._written[path] = data
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, data, 0)
        finally:
            os.close(descriptor)

"""Which cgroup hierarchies this machine has, and where kubelet keeps its pods in them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent.host import cgroup_names
from agent.host.cgroup_names import BEST_EFFORT, BURSTABLE, GUARANTEED, KUBEPODS, Driver

_DEPTH = 4  # how far below the root the folder of all pods may sit


class NoCgroups(Exception):  # noqa: N818 - a state of the machine
    """There is no usable cgroup hierarchy; the message names the folder and the way out."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted tree of cgroups that has a controller that we read."""

    root: Path
    """Where it is mounted."""
    version: int
    """1 or 2."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The hierarchies of this machine; a controller that it lacks is None."""

    cpu: Hierarchy
    """Has CPU time per cgroup."""
    throttling: Hierarchy | None
    """Has the counters of CPU quotas."""
    memory: Hierarchy | None
    """Has memory per cgroup. None where the kernel was booted without it."""

    @property
    def description(self) -> str:
        """One line for people."""
        if self.cpu.version == 2:  # noqa: PLR2004 - cgroup v2
            return "cgroup v2" + ("" if self.memory else " without the memory controller")
        joined = self.throttling is not None and os.path.realpath(self.throttling.root) == os.path.realpath(
            self.cpu.root
        )
        memory = "none" if self.memory is None else f"v{self.memory.version}"
        return f"cgroup v1 (cpu and cpuacct {'joined' if joined else 'apart'}, memory {memory})"


@dataclass(frozen=True, slots=True)
class PodCgroup:
    """A pod's cgroup."""

    uid: str
    """The uid in its name; the config hash for a static pod."""
    path: str
    """Its path below the root of every hierarchy."""
    qos: str
    """Kubernetes QoS class by the folder that it sits in."""


@dataclass(frozen=True, slots=True)
class Kubepods:
    """A folder that holds all pods of a kubelet."""

    path: str
    """Its path below the root of every hierarchy."""
    driver: Driver
    """The driver that named it."""


@dataclass(slots=True)
class CgroupTree:
    """The pods in the cgroup file system."""

    layout: Layout
    """The hierarchies."""
    kubepods: list[Kubepods] = field(default_factory=list)
    """Where pods were found at the last `locate`."""

    def locate(self) -> bool:
        """Look for the folders that hold all pods; several kubelets may share a machine.

        Returns:
            Whether they changed.
        """
        found = [Kubepods(path, cgroup_names.driver_of([name]) or "cgroupfs") for path, name in self._candidates()]
        changed = found != self.kubepods
        self.kubepods = found
        return changed

    def pods(self) -> dict[str, PodCgroup]:
        """All pods' cgroups by uid, as the folders are named now."""
        found = {}
        for top in self.kubepods:
            for qos in (GUARANTEED, BURSTABLE, BEST_EFFORT):
                parent = cgroup_names.qos_dir(top.driver, qos, top.path)
                for name in _folders(self.layout.cpu.root / parent):
                    uid = cgroup_names.pod_uid(name, top.driver)
                    if uid is not None:
                        found[uid] = PodCgroup(uid, f"{parent}/{name}", qos)
        return found

    def _candidates(self) -> Iterator[tuple[str, str]]:
        level = [""]
        for _ in range(_DEPTH):
            deeper = []
            for parent in level:
                for name in sorted(_folders(self.layout.cpu.root / parent)):
                    path = f"{parent}/{name}".lstrip("/")
                    if KUBEPODS.fullmatch(name):
                        yield path, name
                    else:
                        deeper.append(path)
            level = deeper


def detect(root: Path) -> Layout:
    """Find the hierarchies below the mount point of cgroups, by what they hold, else by what they are called.

    Version 1 may have ``cpu`` and ``cpuacct`` in one hierarchy or in two, and a version 2 hierarchy beside them.

    Raises:
        NoCgroups: There is none with CPU time, or the folder cannot be read.
    """
    if (root / "cgroup.controllers").exists():
        unified = Hierarchy(root, 2)
        return Layout(unified, unified, unified if _has_memory(root) else None)
    try:
        folders = [root / name for name in sorted(_entries(root))]
    except OSError as error:
        raise NoCgroups(
            f"cannot read the cgroup folder {root}: {error.strerror}; mount the host's /sys/fs/cgroup there, "
            "or give the right --host-root"
        ) from error
    second = [Hierarchy(folder, 2) for folder in folders if (folder / "cgroup.controllers").exists()]
    usage = _with_controller(folders, "cpuacct", "cpuacct.usage")
    cpu = _with_controller(folders, "cpu", "cpu.shares")
    memory = _with_controller(folders, "memory", "memory.usage_in_bytes")
    if usage is None:
        if second:
            return Layout(second[0], second[0], second[0] if _has_memory(second[0].root) else None)
        raise NoCgroups(
            f"no cgroup hierarchy with CPU time in {root}: mount the host's /sys/fs/cgroup there, "
            "or give the right --host-root"
        )
    on_second = next((one for one in second if _has_memory(one.root)), None)
    return Layout(
        cpu=Hierarchy(usage, 1),
        throttling=None if cpu is None else Hierarchy(cpu, 1),
        memory=on_second if memory is None else Hierarchy(memory, 1),
    )


def _has_memory(root: Path) -> bool:
    """Whether a version 2 hierarchy has the memory controller; its root has no memory.current to look for."""
    try:
        return "memory" in (root / "cgroup.controllers").read_text().split()
    except OSError:
        return False


def _with_controller(folders: list[Path], controller: str, file: str) -> Path | None:
    holding = [folder for folder in folders if (folder / file).exists()]
    named = [folder for folder in folders if controller in folder.name.split(",")]
    return next(iter(holding + named), None)


def _entries(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir()]


def _folders(folder: Path) -> list[str]:
    """Names of the folders in a folder; none when it is gone."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []

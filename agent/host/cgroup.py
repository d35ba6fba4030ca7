"""Which cgroup hierarchies this machine has, and where kubelet keeps its pods in them."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent.host import cgroup_names
from agent.host.cgroup_names import BEST_EFFORT, BURSTABLE, CGROUPFS, GUARANTEED, SYSTEMD, Driver
from agent.host.reopening_files import Unreadable, unreadable

_DEPTH = 12  # how far below the root the folder of all pods may sit: rootless containers are deep
_MOST_FOLDERS = 4000  # so many folders are searched, the upper levels first
_SHOWN_DEPTH = 2
_SHOWN_CHARACTERS = 400


class NoCgroups(Exception):  # noqa: N818 - a state of the machine
    """There is no usable cgroup hierarchy; the message names the folder and the way out."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted tree of cgroups that has a controller that we read."""

    root: Path  # where it is mounted
    version: int  # 1 or 2


@dataclass(frozen=True, slots=True)
class Layout:
    """The hierarchies of this machine; a controller that it lacks is None."""

    cpu: Hierarchy  # has CPU time per cgroup
    throttling: Hierarchy | None  # has the counters of CPU quotas
    memory: Hierarchy | None  # has memory per cgroup. None where the kernel was booted without it.
    beside: Hierarchy | None = None  # the hierarchy of version 2 that is mounted beside those of version 1, or None
    hybrid: bool = False  # whether hierarchies of both versions are mounted
    cpuset: Hierarchy | None = None  # has the CPUs that a cgroup may use

    @property
    def pressure(self) -> Hierarchy:
        """Has pressure per cgroup, if any has: version 2, with or without controllers."""
        return self.beside or self.cpu

    @property
    def kind(self) -> str:
        """v1, v2, or hybrid."""
        return "hybrid" if self.hybrid else f"v{self.cpu.version}"

    @property
    def description(self) -> str:
        if self.cpu.version == 1:
            memory = "none" if self.memory is None else f"v{self.memory.version}"
            second = ", with version 2 as well" if self.hybrid else ""
            return f"cgroup v1 (cpu and cpuacct {self.arrangement}, memory {memory}{second})"
        lacking = "" if self.memory else " without the memory controller"
        return "cgroup v2" + lacking + (", with version 1 as well" if self.hybrid else "")

    @property
    def arrangement(self) -> str:
        """Return whether CPU time and CPU quotas are in one hierarchy: joined or apart."""
        if self.throttling is None:
            return "apart"
        joined = os.path.realpath(self.throttling.root) == os.path.realpath(self.cpu.root)
        return "joined" if joined else "apart"


@dataclass(frozen=True, slots=True)
class PodCgroup:
    """A pod's cgroup."""

    uid: str  # the uid in its name; the config hash for a static pod
    path: str  # its path below the root of every hierarchy
    qos: str  # Kubernetes QoS class by the folder that it sits in


@dataclass(frozen=True, slots=True)
class Kubepods:
    """A folder that holds all pods of a kubelet."""

    path: str  # its path below the root of every hierarchy
    driver: Driver  # the driver that named it


@dataclass(frozen=True, slots=True)
class ExclusiveCpus:
    """CPUs that kubelet's static CPU manager gave to containers for themselves."""

    cpus: frozenset[int] = frozenset()  # their numbers
    pods: frozenset[str] = frozenset()  # the pods of these containers, by uid


@dataclass(slots=True)
class CgroupTree:
    """The pods in the cgroup file system."""

    layout: Layout  # the hierarchies
    kubepods: list[Kubepods] = field(default_factory=list)
    """Where pods were found at the last `locate`, folders of the systemd driver first."""
    latest: dict[str, PodCgroup] = field(default_factory=dict)  # what `pods` answered last
    exclusive: ExclusiveCpus | None = None  # the last known ones; None while they are unknown
    upper_levels: str = ""  # names of the folders near the root at the last `locate`, for messages

    def locate(self) -> bool:
        """Look for the folders that hold all pods; several kubelets may share a machine.

        This walks the upper levels of the tree: call it now and then, `pods` every tick.

        Returns whether they changed. Raises Unreadable: the hierarchy is not there, or may not be listed.
        """
        result = list(self._search())
        result.sort(key=lambda top: top.driver != SYSTEMD)
        changed = result != self.kubepods
        self.kubepods = result
        return changed

    @property
    def driver(self) -> Driver | None:
        """The driver that made the pods' folders: systemd where both did; None while there is no folder for pods."""
        drivers = {top.driver for top in self.kubepods}
        with contextlib.suppress(Unreadable):
            drivers = {top.driver for top in self.kubepods if any(self._in(top))} or drivers
        if not drivers:
            return None
        return SYSTEMD if SYSTEMD in drivers else CGROUPFS

    @property
    def detected(self) -> dict[str, str]:
        memory = self.layout.memory
        return {
            "cgroup": self.layout.kind,
            "driver": self.driver or "none",
            "memory": "none" if memory is None else f"v{memory.version}",
            "pods_in": ",".join(top.path for top in self.kubepods),
        }

    def pods(self) -> dict[str, PodCgroup]:
        """All pods' cgroups by uid, as the folders are named now.

        A uid that has two folders (one was left behind when the driver changed) goes with the one that has containers.

        Raises Unreadable: A folder may not be listed, so the pods are unknown.
        """
        result: dict[str, PodCgroup] = {}
        for top in self.kubepods:
            for cgroup in self._in(top):
                before = result.setdefault(cgroup.uid, cgroup)
                if before is not cgroup and not self._has_containers(before) and self._has_containers(cgroup):
                    result[cgroup.uid] = cgroup
        self.latest = result
        return result

    def _in(self, top: Kubepods) -> Iterator[PodCgroup]:
        for qos in (GUARANTEED, BURSTABLE, BEST_EFFORT):
            parent = cgroup_names.qos_dir(top.driver, qos, top.path)
            for name in folders(self.layout.cpu.root / parent):
                uid = cgroup_names.pod_uid(name, top.driver)
                if uid is not None:
                    yield PodCgroup(uid, f"{parent}/{name}", qos)

    def _has_containers(self, cgroup: PodCgroup) -> bool:
        return bool(folders(self.layout.cpu.root / cgroup.path))

    def _search(self) -> Iterator[Kubepods]:
        try:
            level = sorted(_entries(self.layout.cpu.root))
        except OSError as error:
            raise unreadable(self.layout.cpu.root, error) from error
        shown, folders_left = list[str](), _MOST_FOLDERS
        for depth in range(_DEPTH):
            shown += level if depth < _SHOWN_DEPTH else []
            level, between = [], level[:folders_left]
            folders_left -= len(between)
            for path in between:
                name, below = path.rpartition("/")[2], [f"{path}/{name}" for name in self._below(path)]
                if driver := cgroup_names.driver_of([name]):
                    yield Kubepods(path, driver)
                    system = cgroup_names.system_dir(driver, path)
                    yield from [Kubepods(system, driver)] if system in below else []
                    shown += below if depth + 1 < _SHOWN_DEPTH else []
                else:
                    level += below
        names = (", ".join(shown) or "no folder").encode("ascii", "backslashreplace").decode()
        self.upper_levels = names if len(names) <= _SHOWN_CHARACTERS else f"{names[:_SHOWN_CHARACTERS]}…"

    def _below(self, path: str) -> list[str]:
        try:
            return sorted(folders(self.layout.cpu.root / path))
        except Unreadable:  # not a folder for pods: those can be listed, or nothing works
            return []


def detect(root: Path) -> Layout:
    """Find the hierarchies below the mount point of cgroups, by their files, else by their names.

    Version 1 may have ``cpu`` and ``cpuacct`` in one hierarchy or in two, and a version 2 hierarchy beside them.

    Raises NoCgroups: there is none with CPU time, or the folder cannot be read.
    """
    try:
        if (root / "cgroup.controllers").exists():
            return _unified(Hierarchy(root, 2))
        layout = _mounted([root / name for name in sorted(_entries(root))])
        if layout is None and (root / "cpu.stat").exists():
            layout = _unified(Hierarchy(root, 2))
    except OSError as error:
        raise NoCgroups(
            f"cannot read the cgroup folder {root}: {error.strerror}; mount the host's /sys/fs/cgroup there, "
            "or give the right --host-root"
        ) from error
    if layout is None:
        raise NoCgroups(
            f"no cgroup hierarchy with CPU time in {root}: mount the host's /sys/fs/cgroup there, "
            "or give the right --host-root"
        )
    return layout


def _unified(hierarchy: Hierarchy) -> Layout:
    return Layout(hierarchy, hierarchy, hierarchy if _has_memory(hierarchy.root) else None, cpuset=hierarchy)


def _mounted(folders: list[Path]) -> Layout | None:
    """The hierarchies that are mounted in a folder each; None when none of them has CPU time."""
    second = [Hierarchy(folder, 2) for folder in folders if (folder / "cgroup.controllers").exists()]
    usage = _first_version(folders, "cpuacct", "cpuacct.usage")
    cpu = _first_version(folders, "cpu", "cpu.shares")
    memory = _first_version(folders, "memory", "memory.usage_in_bytes")
    cpuset = _first_version(folders, "cpuset", "cpuset.cpus") or next(iter(second), None)
    on_second = next((tree for tree in second if _has_memory(tree.root)), None)
    hybrid = bool(second) and any((usage, cpu, memory))
    if usage is not None:
        return Layout(usage, cpu, memory or on_second, next(iter(second), None), hybrid, cpuset)
    return Layout(second[0], second[0], on_second or memory, None, hybrid, cpuset) if second else None


def _has_memory(root: Path) -> bool:
    """Return whether a version 2 hierarchy has the memory controller; its root has no memory.current to look for."""
    try:
        return "memory" in (root / "cgroup.controllers").read_text(encoding="ascii", errors="replace").split()
    except OSError:  # reading the cgroups themselves will show it
        return True


def _first_version(folders: list[Path], controller: str, file: str) -> Hierarchy | None:
    holding = [folder for folder in folders if (folder / file).exists()]
    named = [folder for folder in folders if controller in folder.name.split(",")]
    return next((Hierarchy(folder, 1) for folder in holding + named), None)


def _entries(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir()]


def folders(folder: Path) -> list[str]:
    """Names of the folders in a folder; none when it is gone. Raises Unreadable: it may not be listed."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        result = unreadable(folder, error)
        if result.gone:
            return []
        raise result from error

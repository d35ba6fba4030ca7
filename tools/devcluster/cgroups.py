"""The cgroups of one real node: made before it starts, removed after its last process has ended.

Each node gets one cgroup `hr-<name>-<hex>` at the top of every hierarchy and sees nothing above it (cgroup namespace),
so that inside the node the kubelet's `kubepods` is at the top, as on any machine, and several nodes do not meet.
Runs as a script too (`cgroups.py NAME`): the clean-up of a cluster whose user was killed. Standard library only.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")
INHERITED = ("cpuset.cpus", "cpuset.mems")  # empty in a new v1 cpuset, and no process may enter before they are set
NEEDED = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
"""Controllers that the kubelet wants on v2, where the host has them."""
REMOVE_SECONDS = 30.0
PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted cgroup hierarchy."""

    mount_point: Path
    kind: str  # `cgroup` (v1) or `cgroup2`
    options: str  # mount options that say which hierarchy it is: `cpu,cpuacct`, `none,name=systemd`; empty for v2

    @property
    def is_v2(self) -> bool:
        """Return whether this is the unified hierarchy."""
        return self.kind == "cgroup2"


def hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Every cgroup hierarchy in the text of `/proc/<pid>/mountinfo`, each once, in the order of mounting."""
    result: dict[str, Hierarchy] = {}
    for line in mountinfo.splitlines():
        mount, _, filesystem = line.partition(" - ")
        kind, _, super_options = filesystem.split(" ")[:3]
        if kind not in {"cgroup", "cgroup2"}:
            continue
        options = "" if kind == "cgroup2" else _identity(super_options)
        result.setdefault(kind + options, Hierarchy(Path(mount.split(" ")[4]), kind, options))
    return list(result.values())


def _identity(super_options: str) -> str:
    words = [word for word in super_options.split(",") if word not in {"rw", "ro", "xattr", "clone_children"}]
    words = [word for word in words if not word.startswith("release_agent=")]
    return ",".join(["none", *words] if all(word.startswith("name=") for word in words) else words)


def mounted() -> list[Hierarchy]:
    """The hierarchies of this machine."""
    return hierarchies(MOUNTINFO.read_text())


def create(name: str, trees: Sequence[Hierarchy]) -> None:
    """Make the node's cgroup in every hierarchy, ready to be entered."""
    for tree in trees:
        if tree.is_v2:
            _enable_controllers(tree.mount_point)
        directory = tree.mount_point / name
        directory.mkdir()
        for file in INHERITED:
            if not tree.is_v2 and (tree.mount_point / file).exists():
                (directory / file).write_text((tree.mount_point / file).read_text())


def _enable_controllers(directory: Path) -> None:
    """Let the children of a v2 cgroup use the controllers that the kubelet needs; those in use elsewhere stay there."""
    available = (directory / "cgroup.controllers").read_text().split()
    enabled = (directory / "cgroup.subtree_control").read_text().split()
    for controller in NEEDED:
        if controller in available and controller not in enabled:
            (directory / "cgroup.subtree_control").write_text(f"+{controller}")


def enter(name: str, trees: Sequence[Hierarchy]) -> None:
    """Move this process into the node's cgroup of every hierarchy; the children it starts are born there."""
    for tree in trees:
        (tree.mount_point / name / "cgroup.procs").write_text("0")


def free_hierarchy(mount_point: Path) -> None:
    """On v2, move this process from the namespace's top into a leaf.

    Only a cgroup without processes may hand controllers to its children.
    """
    leaf = mount_point / "init"
    leaf.mkdir()
    (leaf / "cgroup.procs").write_text("0")
    _enable_controllers(mount_point)


def leftovers(name: str, trees: Sequence[Hierarchy]) -> Iterator[Path]:
    """Every cgroup of the node, children before parents."""
    for tree in trees:
        for directory, _, _ in os.walk(tree.mount_point / name, topdown=False):
            yield Path(directory)


def remove(name: str, trees: Sequence[Hierarchy], timeout_seconds: float = REMOVE_SECONDS) -> list[Path]:
    """Remove the node's cgroups, depth first; waits for processes that are just ending."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        for directory in leftovers(name, trees):
            with contextlib.suppress(OSError):  # busy while the last process is ending, or gone already
                directory.rmdir()
        left = list(leftovers(name, trees))
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(PAUSE_SECONDS)


def main() -> None:
    """Remove the cgroups of the node that is named on the command line."""
    left = remove(sys.argv[1], mounted())
    if left:
        sys.exit(f"processes still live in {left[0]}, so it was not removed")


if __name__ == "__main__":
    main()

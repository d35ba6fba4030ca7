"""The first process of a real node: prepares the node's view of the machine, then owns the node's processes.

Runs as process 1 of a PID namespace, in a mount namespace of its own; when it ends, however it ends, the kernel ends
all processes of the node and drops all of its mounts. Started by `sandbox.py` with one argument, the `View` as JSON.
Standard library only.
"""

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster import cgroups, node_proc, supervisor

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWCGROUP = 0x02000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SHARED = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x100000
MNT_DETACH = 0x2

COVERED = ("/run", "/var/lib", "/var/log", "/tmp")  # noqa: S108 - a fresh one for the node
"""Folders where kubelet, containerd, CNI and hostPath volumes write: the node gets empty ones in memory."""
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""The kernel settings that kubelet requires. It reads these values, so it changes nothing."""


@dataclass(frozen=True, slots=True)
class View:
    """The node's view."""

    cgroup: str  # name of its cgroup, made already; empty: it stays where its starter is
    kept: Sequence[str]  # folders that stay visible below those that are covered
    binds: dict[str, str]  # path in the node -> folder of the machine that it shows


def mount(source: str, target: str | Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """The mount system call."""
    words = [word.encode() for word in (source, str(target), kind)]
    if LIBC.mount(*words, ctypes.c_ulong(flags), data.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or source}: {os.strerror(number)}", str(target))


def cover_folders(view: View) -> None:
    """Put empty folders in memory over those where node programs write, and show the kept ones in them again."""
    descriptors = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in view.kept}
    sources = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in view.binds.values()}
    for folder in COVERED:
        mode = "1777" if folder == "/tmp" else "755"  # noqa: S108
        mount("tmpfs", os.path.realpath(folder), "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
    for path, descriptor in sorted(descriptors.items()):  # parents first
        Path(path).mkdir(parents=True, exist_ok=True)
        if not os.path.samestat(Path(path).stat(), os.fstat(descriptor)):
            mount(f"/proc/self/fd/{descriptor}", path, flags=MS_BIND | MS_REC)
    for path, source in view.binds.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{sources[source]}", path, flags=MS_BIND)
    for descriptor in (*descriptors.values(), *sources.values()):
        os.close(descriptor)


def enter_cgroups(name: str) -> None:
    """Go into the node's cgroup and show the hierarchies as if it were their top."""
    trees = cgroups.mounted()
    links = {path: path.readlink() for path in Path("/sys/fs/cgroup").iterdir() if path.is_symlink()}
    cgroups.enter(name, trees)
    if LIBC.unshare(CLONE_NEWCGROUP) != 0:
        raise OSError(ctypes.get_errno(), "no cgroup namespace: the kernel must have CONFIG_CGROUPS")
    # Without the old ones there is one mount of each hierarchy to be found, and no way up.
    if LIBC.umount2(b"/sys", MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), "cannot unmount /sys in the node's mount namespace")
    harmless = MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount("sysfs", "/sys", "sysfs", harmless)  # shows this network namespace's links
    if not any(tree.is_v2 and tree.mount_point == Path("/sys/fs/cgroup") for tree in trees):
        mount("tmpfs", "/sys/fs/cgroup", "tmpfs", harmless, "mode=755")
    for tree in trees:
        tree.mount_point.mkdir(exist_ok=True)
        mount(tree.kind, tree.mount_point, tree.kind, harmless, tree.options)
    for path, target in links.items():
        path.symlink_to(target)
    for tree in trees:
        if tree.is_v2:
            cgroups.free_hierarchy(tree.mount_point)


def show_sysctls() -> None:
    """Show the kubelet the kernel settings that it wants, without setting them."""
    shown = Path("/run/sysctls")
    shown.mkdir()
    for index, (name, value) in enumerate(SYSCTLS.items()):
        target = Path("/proc/sys", name)
        if target.exists():
            file = shown / str(index)
            file.write_text(f"{value}\n")
            mount(str(file), target, flags=MS_BIND)


def show_usage() -> None:
    """Show CPU and memory of the node's cgroups in place of the machine's."""
    for file, target in node_proc.show():
        mount(file, target, flags=MS_BIND)


def prepare(view: View) -> None:
    """Build the node's view of the machine."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if view.cgroup:
        enter_cgroups(view.cgroup)
    cover_folders(view)
    show_sysctls()
    if view.cgroup:
        show_usage()
    mount("", "/", flags=MS_REC | MS_SHARED)  # mounts of the kubelet and containerd must reach each other's


def reap_orphans(children: supervisor.Children) -> None:
    """Collect ended processes without a parent: process 1 inherits them."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        if not children.collect(ended.si_pid):
            os.waitpid(ended.si_pid, 0)


def main() -> None:
    """Prepare the view, then start, watch and stop programs on request."""
    prepare(View(**json.loads(sys.argv[1])))
    supervisor.run(parent_pid=0, between=reap_orphans)


if __name__ == "__main__":
    main()

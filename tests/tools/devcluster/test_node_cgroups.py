"""The node's cgroups: which hierarchies there are, how the node's are made, and that only they are removed."""

from pathlib import Path

import pytest

from tools.devcluster import cgroups
from tools.devcluster.cgroups import Hierarchy

V1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,clone_children
34 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd
35 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


@pytest.mark.parametrize(
    ("mountinfo", "expected"),
    [
        (
            V1,
            [
                ("/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"),
                ("/sys/fs/cgroup/cpuset", "cpuset"),  # a flag of the mount is no controller
                ("/sys/fs/cgroup/systemd", "none,name=systemd"),  # a hierarchy without controllers
                ("/sys/fs/cgroup/unified", ""),
            ],
        ),
        (V2, [("/sys/fs/cgroup", "")]),
        (V2 + V2, [("/sys/fs/cgroup", "")]),  # mounted twice, once is enough
        ("22 27 0:21 / /proc rw - proc proc rw\n", []),
    ],
)
def test_hierarchies_are_recognised(mountinfo: str, expected: list[tuple[str, str]]) -> None:
    """Each hierarchy is found once, with the options that mount the same one again."""
    found = cgroups.hierarchies(mountinfo)
    assert [(str(tree.mount_point), tree.options) for tree in found] == expected
    assert [tree.is_v2 for tree in found] == [not options for _, options in expected]


def _v1(folder: Path) -> Hierarchy:
    folder.mkdir()
    (folder / "cpuset.cpus").write_text("0-3\n")
    (folder / "cpuset.mems").write_text("0\n")
    return Hierarchy(folder, "cgroup", "cpuset")


def test_new_cpuset_is_usable(tmp_path: Path) -> None:
    """A cpuset without processors could not be entered, so it gets those of the machine."""
    tree = _v1(tmp_path / "cpuset")
    cgroups.create("hr-a-1", [tree])
    assert (tree.mount_point / "hr-a-1" / "cpuset.cpus").read_text() == "0-3\n"
    assert (tree.mount_point / "hr-a-1" / "cpuset.mems").read_text() == "0\n"


def test_missing_controllers_are_enabled(tmp_path: Path) -> None:
    """On v2 the node may use the kubelet's controllers: those that are there and not yet enabled are."""
    tree = Hierarchy(tmp_path, "cgroup2", "")
    (tmp_path / "cgroup.controllers").write_text("cpu memory rdma pids\n")
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("cpu memory\n")
    cgroups.create("hr-a-1", [tree])
    assert control.read_text() == "+pids"
    assert (tmp_path / "hr-a-1").is_dir()


def test_only_own_are_removed(tmp_path: Path) -> None:
    """The node's cgroups go, deepest first; those of another node stay."""
    tree = Hierarchy(tmp_path, "cgroup", "pids")
    for name in ("hr-a-1", "hr-b-1"):
        (tmp_path / name / "kubepods" / "burstable" / "pod1").mkdir(parents=True)
    assert cgroups.remove("hr-a-1", [tree]) == []
    assert [path.name for path in tmp_path.iterdir()] == ["hr-b-1"]


def test_inhabited_is_named(tmp_path: Path) -> None:
    """A cgroup that cannot be removed, because a process lives there, is what comes back."""
    tree = Hierarchy(tmp_path, "cgroup", "pids")
    inhabited = tmp_path / "hr-a-1" / "kubepods"
    inhabited.mkdir(parents=True)
    (inhabited / "file").touch()  # keeps the folder from being removed, as a process would
    assert cgroups.remove("hr-a-1", [tree], timeout_seconds=0) == [inhabited, inhabited.parent]

"""Finding hierarchies and pods."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.host.cgroup import CgroupTree, Kubepods, NoCgroups, detect
from tests.agent.recorded import KINDS, RecordedMachine

UID = "0a1b2c3d-0001-4000-8000-0000000000b1"


def _make(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return root


@pytest.mark.parametrize(
    ("kind", "description", "folder"),
    [
        ("v1-cgroupfs", "cgroup v1 (cpu and cpuacct apart, memory v1)", Kubepods("kubepods", "cgroupfs")),
        ("v1vm-systemd", "cgroup v1 (cpu and cpuacct joined, memory v1)", Kubepods("kubepods.slice", "systemd")),
        ("v2-cgroupfs", "cgroup v2", Kubepods("kubepods", "cgroupfs")),
        ("v2-cgroupfs-nomem", "cgroup v2 without the memory controller", Kubepods("kubepods", "cgroupfs")),
        ("v2-systemd", "cgroup v2", Kubepods("kubepods.slice", "systemd")),
    ],
)
def test_machines_are_recognised(
    kind: str, description: str, folder: Kubepods, recorded: Callable[[str], RecordedMachine]
) -> None:
    """Version, mounts, controllers, driver and pods of every recorded machine are found by what is there."""
    machine = recorded(kind)
    tree = CgroupTree(detect(machine.live / "sys/fs/cgroup"))
    assert tree.locate()
    assert tree.layout.description == description
    assert tree.kubepods == [folder]
    assert len(tree.pods()) == 10
    qos = {name: tree.pods()[machine.uid(name)].qos for name in ("g", "b1", "s1", "e2")}
    assert qos == {"g": "Guaranteed", "b1": "Burstable", "s1": "Burstable", "e2": "BestEffort"}


def test_kinds_are_all_covered() -> None:
    """No archive lies unused."""
    assert len(KINDS) == 5


@pytest.mark.parametrize("parent", ["kubelet", "prod", "docker/0123abcd"])
def test_pods_below_parent(parent: str, tmp_path: Path) -> None:
    """The folder of all pods may sit below a parent."""
    root = _make(tmp_path, "cgroup.controllers", f"{parent}/kubepods/burstable/pod{UID}/cpu.stat")
    tree = CgroupTree(detect(root))
    tree.locate()
    assert tree.pods()[UID].path == f"{parent}/kubepods/burstable/pod{UID}"


def test_systemd_parent_is_in_names(tmp_path: Path) -> None:
    """The systemd driver repeats a parent in every name below it."""
    path = f"prod.slice/prod-kubepods.slice/prod-kubepods-pod{UID.replace('-', '_')}.slice"
    tree = CgroupTree(detect(_make(tmp_path, "cgroup.controllers", f"{path}/cpu.stat")))
    tree.locate()
    assert tree.pods()[UID].path == path


def test_several_kubelets_share_machine(tmp_path: Path) -> None:
    """Pods of every kubelet are found; one inside a pod is part of that pod."""
    files = ["one/kubepods/poda/cpu.stat", "two/kubepods/podb/cpu.stat", "one/kubepods/poda/x/kubepods/podc/cpu.stat"]
    tree = CgroupTree(detect(_make(tmp_path, "cgroup.controllers", *files)))
    tree.locate()
    assert set(tree.pods()) == {"a", "b"}
    assert not tree.locate()  # nothing has changed since


def test_memory_beside_version_one(tmp_path: Path) -> None:
    """A hybrid machine may have CPU in version 1 and memory in version 2."""
    root = _make(tmp_path, "cpuacct/cpuacct.usage", "cpu/cpu.shares", "unified/cgroup.controllers")
    (root / "unified/cgroup.controllers").write_text("memory io")
    layout = detect(root)
    assert layout.cpu.version == 1
    assert layout.memory is not None
    assert (layout.memory.version, layout.memory.root) == (2, root / "unified")


@pytest.mark.parametrize("files", [[], ["memory/memory.usage_in_bytes"]])
def test_no_cpu_is_one_line(files: list[str], tmp_path: Path) -> None:
    """A folder without CPU time names itself and the way out."""
    with pytest.raises(NoCgroups, match=rf"{tmp_path}: mount the host's /sys/fs/cgroup there"):
        detect(_make(tmp_path, *files))


def test_missing_root_is_one_line(tmp_path: Path) -> None:
    """A root that is not there names itself and the way out."""
    with pytest.raises(NoCgroups, match=r"No such file.*--host-root"):
        detect(tmp_path / "nowhere")

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host import cgroup_names as names
from agent.host.cgroup import CgroupTree, Kubepods, NoCgroups, detect
from agent.host.reopening_files import Unreadable
from tests.agent.recorded import Make

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
        (
            "v1vm-systemd",
            "cgroup v1 (cpu and cpuacct joined, memory v1, with version 2 as well)",
            Kubepods("kubepods.slice", "systemd"),
        ),
        ("v2-cgroupfs", "cgroup v2", Kubepods("kubepods", "cgroupfs")),
        ("v2-cgroupfs-nomem", "cgroup v2 without the memory controller", Kubepods("kubepods", "cgroupfs")),
        ("v2-systemd", "cgroup v2", Kubepods("kubepods.slice", "systemd")),
    ],
)
def test_machines_are_recognised(kind: str, description: str, folder: Kubepods, recorded: Make) -> None:
    machine = recorded(kind)
    tree = CgroupTree(detect(machine.live / "sys/fs/cgroup"))
    assert tree.locate()
    assert tree.layout.description == description
    assert tree.kubepods == [folder]
    assert len(tree.pods()) == 10
    assert tree.driver == folder.driver
    qos = {name: tree.pods()[machine.uid(name)].qos for name in ("g", "b1", "s1", "e2")}
    assert qos == {"g": "Guaranteed", "b1": "Burstable", "s1": "Burstable", "e2": "BestEffort"}


@pytest.mark.parametrize("parent", ["kubelet", "prod", "docker/0123abcd"])
def test_pods_below_parent(parent: str, tmp_path: Path) -> None:
    root = _make(tmp_path, "cgroup.controllers", f"{parent}/kubepods/burstable/pod{UID}/cpu.stat")
    tree = CgroupTree(detect(root))
    tree.locate()
    assert tree.pods()[UID].path == f"{parent}/kubepods/burstable/pod{UID}"


SLICE_UID = UID.replace("-", "_")
USER = "user.slice/user-1000.slice/user@1000.service"
KIND = "kubelet.slice/kubelet-kubepods.slice"
IN_KIND = f"{KIND}/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{SLICE_UID}.slice"
SYSTEM = "kubepods.slice/kubepods-system.slice"


@pytest.mark.parametrize(
    ("path", "qos"),
    [
        (f"kubepods/pod{UID}", "Guaranteed"),  # Talos, k0s, MicroK8s, k3s
        (f"kubepods/besteffort/pod{UID}", "BestEffort"),
        (f"kubepods.slice/kubepods-pod{SLICE_UID}.slice", "Guaranteed"),  # Bottlerocket, OpenShift, kubeadm
        (f"kubepods/system/pod{UID}", "Guaranteed"),  # the system partition of Kubernetes 1.37
        (f"kubepods/system/burstable/pod{UID}", "Burstable"),
        (f"{SYSTEM}/kubepods-system-pod{SLICE_UID}.slice", "Guaranteed"),
        (f"{SYSTEM}/kubepods-system-burstable.slice/kubepods-system-burstable-pod{SLICE_UID}.slice", "Burstable"),
        (f"{KIND}/kubelet-kubepods-system.slice/kubelet-kubepods-system-pod{SLICE_UID}.slice", "Guaranteed"),
        (f"docker/0a1b/kubelet/kubepods/burstable/pod{UID}", "Burstable"),  # kind, k3d, minikube in docker
        (f"docker/0a1b/kubepods/pod{UID}", "Guaranteed"),
        (f"system.slice/docker-0a1b.scope/{IN_KIND}", "Burstable"),
        (f"machine.slice/libpod-0a1b.scope/container/{IN_KIND}", "Burstable"),
        (IN_KIND, "Burstable"),
        (f"{USER}/user.slice/libpod-0a1b.scope/container/{IN_KIND}", "Burstable"),  # kind with rootless podman
        (f"{USER}/user.slice/user-libpod_pod_1.slice/libpod-0a1b.scope/container/{IN_KIND}", "Burstable"),
        (f"{USER}/app.slice/docker.service/0a1b/kubelet/kubepods/pod{UID}", "Guaranteed"),  # rootless docker
        (f"{USER}/app.slice/k3s-rootless.service/k3s_evac/kubepods/burstable/pod{UID}", "Burstable"),
        (f"{USER}/u7s/kubepods/pod{UID}", "Guaranteed"),  # usernetes
        (f"a/b/kubepods/pod{UID}", "Guaranteed"),  # --cgroup-root=/a/b
        (f"a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod{SLICE_UID}.slice", "Guaranteed"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_layouts(path: str, qos: str, version: int, tmp_path: Path) -> None:
    """Pods are found wherever kubelet's folder is, beside the folders of other services."""
    top, marker = ("", "cgroup.controllers") if version == 2 else ("cpuacct/", "cpuacct/cpuacct.usage")
    usual = (f"{top}{folder}/x" for folder in ("init.scope", "system.slice/containerd.service", "user.slice"))
    tree = CgroupTree(detect(_make(tmp_path, marker, *usual, f"{top}{path}/cpuacct.usage")))
    tree.locate()
    assert {uid: (cgroup.path, cgroup.qos) for uid, cgroup in tree.pods().items()} == {UID: (path, qos)}


def test_search_is_bounded_and_describes_the_upper_levels(tmp_path: Path) -> None:
    """A loop of folders ends; of many, the upper levels come first; the description has at most 400 characters."""
    deep = "/".join("d" * 40)
    files = [f"system.slice/{number}.service/x" for number in range(200)]
    root = _make(tmp_path, "cgroup.controllers", f"k8s.io/{UID}/x", f"{deep}/kubepods/pod{UID}/x", *files)
    tree = CgroupTree(detect(root))
    tree.locate()
    assert tree.pods() == {}
    assert tree.upper_levels.startswith(f"d, k8s.io, system.slice, d/d, k8s.io/{UID}, system.slice/0.service, ")
    assert len(tree.upper_levels) == 401


def test_systemd_parent_is_in_names(tmp_path: Path) -> None:
    """The systemd driver repeats a parent in every name below it."""
    path = f"prod.slice/prod-kubepods.slice/prod-kubepods-pod{UID.replace('-', '_')}.slice"
    tree = CgroupTree(detect(_make(tmp_path, "cgroup.controllers", f"{path}/cpu.stat")))
    tree.locate()
    assert tree.pods()[UID].path == path


def test_pods_of_all_kubelets_are_listed_and_one_inside_a_pod_is_not(tmp_path: Path) -> None:
    files = ["one/kubepods/poda/cpu.stat", "two/kubepods/podb/cpu.stat", "one/kubepods/poda/x/kubepods/podc/cpu.stat"]
    tree = CgroupTree(detect(_make(tmp_path, "cgroup.controllers", *files)))
    tree.locate()
    assert set(tree.pods()) == {"a", "b"}
    assert not tree.locate()  # nothing has changed since


V1_FILES = ["cpuacct/cpuacct.usage", "cpu/cpu.shares", "unified/cgroup.controllers"]
V2_FILES = ["unified/cgroup.controllers", "memory/memory.usage_in_bytes"]
BESIDE_V1 = "cgroup v1 (cpu and cpuacct apart, memory v2, with version 2 as well)"


@pytest.mark.parametrize(
    ("files", "kind", "description", "cpu", "memory"),
    [
        (V1_FILES, "hybrid", BESIDE_V1, (1, "cpuacct"), (2, "unified")),
        (V2_FILES, "hybrid", "cgroup v2, with version 1 as well", (2, "unified"), (1, "memory")),
        (["cpu.stat", f"kubepods/pod{UID}/cpu.stat"], "v2", "cgroup v2", (2, ""), (2, "")),  # cgroups report memory
    ],
)
def test_cpu_and_memory_may_be_of_different_versions(
    files: list[str], kind: str, description: str, cpu: tuple[int, str], memory: tuple[int, str], tmp_path: Path
) -> None:
    root = _make(tmp_path, *files)
    if files is V1_FILES:
        (root / "unified/cgroup.controllers").write_text("memory io")
    layout = detect(root)
    assert layout.memory is not None
    assert (layout.kind, layout.description) == (kind, description)
    assert (layout.cpu.version, layout.cpu.root) == (cpu[0], root / cpu[1])
    assert (layout.memory.version, layout.memory.root) == (memory[0], root / memory[1])


def test_pods_of_both_drivers_are_listed_and_systemd_is_the_driver_where_both_have_some(tmp_path: Path) -> None:
    systemd = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope"
    root = _make(tmp_path, "cgroup.controllers", "kubepods/burstable/podb_1/c/cpu.stat", "kubepods.slice/cpu.stat")
    tree = CgroupTree(detect(root))
    tree.locate()
    assert (tree.driver, list(tree.pods())) == ("cgroupfs", ["b_1"])
    _make(tmp_path, f"{systemd}/cpu.stat")
    assert (tree.driver, set(tree.pods())) == ("systemd", {"b_1", UID})
    assert tree.detected == {
        "cgroup": "v2",
        "driver": "systemd",
        "memory": "none",
        "pods_in": "kubepods.slice,kubepods",
    }


@pytest.mark.parametrize("used", ["kubepods", "kubepods.slice"])
def test_pod_with_folders_of_both_drivers_is_the_one_with_containers(used: str, tmp_path: Path) -> None:
    paths = {
        "kubepods": f"kubepods/pod{UID}",
        "kubepods.slice": f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
    }
    root = _make(tmp_path, "cgroup.controllers", *(f"{path}/cpu.stat" for path in paths.values()))
    _make(tmp_path, f"{paths[used]}/container/cpu.stat")
    tree = CgroupTree(detect(root))
    tree.locate()
    assert tree.pods()[UID].path == paths[used]


def test_no_folder_no_driver(tmp_path: Path) -> None:
    tree = CgroupTree(detect(_make(tmp_path, "cgroup.controllers")))
    tree.locate()
    assert (tree.driver, tree.pods(), tree.upper_levels) == (None, {}, "no folder")


def test_lost_cgroup_mount_is_an_error_and_not_a_machine_without_pods(tmp_path: Path) -> None:
    tree = CgroupTree(detect(_make(tmp_path / "root", "cgroup.controllers")))
    (tmp_path / "root").rename(tmp_path / "gone")
    with pytest.raises(Unreadable, match=str(tmp_path / "root")):
        tree.locate()


def test_folder_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    tree = CgroupTree(detect(_make(tmp_path, "cgroup.controllers", "kubepods/poda/cpu.stat")))
    tree.locate()
    loop = tmp_path / "kubepods/burstable"
    loop.symlink_to(loop)
    with pytest.raises(Unreadable, match="burstable: Too many levels"):
        tree.pods()


@pytest.mark.parametrize("files", [[], ["memory/memory.usage_in_bytes"]])
def test_folder_without_cpu_time_is_named_with_the_way_out(files: list[str], tmp_path: Path) -> None:
    with pytest.raises(NoCgroups, match=rf"{tmp_path}: mount the host's /sys/fs/cgroup there"):
        detect(_make(tmp_path, *files))


def test_missing_root_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(NoCgroups, match=r"No such file.*--host-root"):
        detect(tmp_path / "nowhere")


@given(
    uid=st.uuids().map(str),
    driver=st.sampled_from(["systemd", "cgroupfs"]),
    qos=st.sampled_from(["Burstable", "Guaranteed"]),
)
def test_uid_survives_naming(uid: str, driver: names.Driver, qos: str) -> None:
    assert names.pod_uid(names.pod_dir(driver, qos, uid).rsplit("/", 1)[-1], driver) == uid


@pytest.mark.parametrize(
    "name", ["burstable", "kubepods-burstable.slice", "podlike", "pod", "system.slice", "user-pod1.slice", "pod\udcff"]
)
def test_other_names_have_no_uid(name: str) -> None:
    assert names.pod_uid(name, "systemd") is None
    assert names.pod_uid(name, "cgroupfs") in (None, "like")


@pytest.mark.parametrize(
    ("folders", "driver"),
    [([], None), (["proc", "cpu"], None), (["kubepods"], "cgroupfs"), (["kubepods", "kubepods.slice"], "systemd"),
     (["kubelet-kubepods.slice"], "systemd")],
)  # fmt: skip
def test_driver_is_known_by_its_folder_and_systemd_wins(folders: list[str], driver: str | None) -> None:
    assert names.driver_of(folders) == driver

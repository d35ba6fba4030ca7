"""Names of pods' and containers' cgroups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host import cgroup_names as names

UID = "0a1b2c3d-0001-4000-8000-0000000000b1"
UNDERSCORED = "0a1b2c3d_0001_4000_8000_0000000000b1"


@pytest.mark.parametrize(
    ("driver", "qos", "path"),
    [
        ("cgroupfs", "Guaranteed", f"kubepods/pod{UID}"),
        ("cgroupfs", "Burstable", f"kubepods/burstable/pod{UID}"),
        ("cgroupfs", "BestEffort", f"kubepods/besteffort/pod{UID}"),
        ("systemd", "Guaranteed", f"kubepods.slice/kubepods-pod{UNDERSCORED}.slice"),
        ("systemd", "Burstable", f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice"),
    ],
)
def test_pod_folders(driver: names.Driver, qos: str, path: str) -> None:
    """Guaranteed pods sit at the top, the others below their class; systemd repeats the path in the name."""
    assert names.pod_dir(driver, qos, UID) == path


def test_folders_below_parent() -> None:
    """A kubelet with its own root puts everything below it, and systemd puts that into the names too."""
    top = "prod.slice/prod-kubepods.slice"
    assert names.pod_dir("systemd", "Burstable", "a-b", top) == (
        f"{top}/prod-kubepods-burstable.slice/prod-kubepods-burstable-poda_b.slice"
    )
    assert names.pod_dir("cgroupfs", "BestEffort", "a-b", "prod/kubepods") == "prod/kubepods/besteffort/poda-b"


@given(
    uid=st.uuids().map(str),
    driver=st.sampled_from(["systemd", "cgroupfs"]),
    qos=st.sampled_from(["Burstable", "Guaranteed"]),
)
def test_uid_survives_naming(uid: str, driver: names.Driver, qos: str) -> None:
    """The uid that went into a name comes out of it."""
    assert names.pod_uid(names.pod_dir(driver, qos, uid).rsplit("/", 1)[-1], driver) == uid


@pytest.mark.parametrize(
    "name", ["burstable", "kubepods-burstable.slice", "podlike", "pod", "system.slice", "user-pod1.slice", "pod\udcff"]
)
def test_other_names_have_no_uid(name: str) -> None:
    """Folders that are no pod's have no uid."""
    assert names.pod_uid(name, "systemd") is None
    assert names.pod_uid(name, "cgroupfs") in (None, "like")


@pytest.mark.parametrize(
    ("container", "scope"),
    [
        ("containerd://4137", "cri-containerd-4137.scope"),
        ("docker://703b", "docker-703b.scope"),
        ("cri-o://testId", "crio-testId.scope"),
        ("pouch://abc", "pouch-abc.scope"),
    ],
)
def test_container_names(container: str, scope: str) -> None:
    """Systemd names a scope after the runtime, cgroupfs uses the id alone; both are read back."""
    identifier = container.partition("://")[2]
    assert names.container_name(container, "systemd") == scope
    assert names.container_name(container, "cgroupfs") == identifier
    assert names.container_id(scope, "systemd") == identifier


@pytest.mark.parametrize("container", ["crio://703b", "bad-format-id", "", "docker://", "docker://a/b"])
def test_unknown_runtimes_are_refused(container: str) -> None:
    """An id without a runtime that we know is an error that names it."""
    with pytest.raises(ValueError, match="container id"):
        names.container_name(container, "systemd")


def test_monitors_are_no_containers() -> None:
    """cri-o's monitor beside a container is not a container; cri-o's own folders have no ending."""
    assert names.container_id("crio-c89b12", "systemd") == "c89b12"
    assert names.container_id("crio-conmon-c89b12", "systemd") is None
    assert names.container_id("crio-conmon-c89b12.scope", "systemd") is None
    assert names.container_id("12345", "systemd") is None


@pytest.mark.parametrize(
    ("folders", "driver"),
    [([], None), (["proc", "cpu"], None), (["kubepods"], "cgroupfs"), (["kubepods", "kubepods.slice"], "systemd"),
     (["kubelet-kubepods.slice"], "systemd")],
)  # fmt: skip
def test_driver_by_folder(folders: list[str], driver: str | None) -> None:
    """The driver is known by the folder that it made; systemd wins when both are there."""
    assert names.driver_of(folders) == driver

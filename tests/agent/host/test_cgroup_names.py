"""Names of pods' and containers' cgroups."""

import pytest

from agent.host import cgroup_names as names

UID = "0a1b2c3d-0001-4000-8000-0000000000b1"
UNDERSCORED = "0a1b2c3d_0001_4000_8000_0000000000b1"


@pytest.mark.parametrize(
    ("driver", "qos", "top", "path", "name"),
    [
        ("cgroupfs", "Guaranteed", "", "kubepods", f"pod{UID}"),
        ("cgroupfs", "Burstable", "", "kubepods/burstable", f"pod{UID}"),
        ("cgroupfs", "BestEffort", "prod/kubepods", "prod/kubepods/besteffort", f"pod{UID}"),
        ("systemd", "Guaranteed", "", "kubepods.slice", f"kubepods-pod{UNDERSCORED}.slice"),
        (
            "systemd",
            "Burstable",
            "prod.slice/prod-kubepods.slice",
            "prod.slice/prod-kubepods.slice/prod-kubepods-burstable.slice",
            f"prod-kubepods-burstable-pod{UNDERSCORED}.slice",
        ),
    ],
)
def test_folders_of_pods(driver: names.Driver, qos: str, top: str, path: str, name: str) -> None:
    """Guaranteed pods sit at the top, the others below their class, all below a kubelet's own root.

    systemd repeats the path in the name; the uid that went into a name comes out of it.
    """
    assert names.qos_dir(driver, qos, top) == path
    assert names.pod_uid(name, driver) == UID


@pytest.mark.parametrize(
    "name", ["burstable", "kubepods-burstable.slice", "podlike", "pod", "system.slice", "user-pod1.slice", "pod\udcff"]
)
def test_other_names_have_no_uid(name: str) -> None:
    """Folders that are no pod's have no uid."""
    assert names.pod_uid(name, "systemd") is None
    assert names.pod_uid(name, "cgroupfs") in (None, "like")


@pytest.mark.parametrize(
    ("folders", "driver"),
    [([], None), (["proc", "cpu"], None), (["kubepods"], "cgroupfs"), (["kubepods", "kubepods.slice"], "systemd"),
     (["kubelet-kubepods.slice"], "systemd")],
)  # fmt: skip
def test_driver_by_folder(folders: list[str], driver: str | None) -> None:
    """The driver is known by the folder that it made; systemd wins when both are there."""
    assert names.driver_of(folders) == driver

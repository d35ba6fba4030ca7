"""Names of pods' and containers' cgroups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host import cgroup_names as names


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

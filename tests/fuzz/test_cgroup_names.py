"""Names of cgroups."""

from hypothesis import strategies as st

from agent.host import cgroup_names
from agent.host.cgroup_names import CGROUPFS, SYSTEMD, Driver
from tests.fuzz.inputs import damaged
from tests.fuzz.originals import POD_CGROUPS
from tests.fuzz.strength import answer_or_refusal, fuzz

NAMES = damaged(*POD_CGROUPS) | st.text()
DRIVERS: st.SearchStrategy[Driver] = st.sampled_from((SYSTEMD, CGROUPFS))


@fuzz(name=NAMES, driver=DRIVERS)
def test_pod_uid(name: str, driver: Driver) -> None:
    """The name of a pod's cgroup gives a uid that leads back to a name with that uid, or is another cgroup's."""
    uid = cgroup_names.pod_uid(name, driver)
    if uid is not None:
        assert uid
        folder = cgroup_names.pod_dir(driver, cgroup_names.BURSTABLE, uid).rsplit("/", 1)[-1]
        assert cgroup_names.pod_uid(folder, driver) == uid


@fuzz(name=NAMES, driver=DRIVERS)
def test_container_id(name: str, driver: Driver) -> None:
    """The name of a container's cgroup gives an id without a slash, or is another cgroup's."""
    found = cgroup_names.container_id(name, driver)
    assert found is None or (found and "/" not in found)


@fuzz(text=NAMES | damaged("containerd://3e3c1b8f6d2a", "cri-o://3e3c", "docker://../../x"), driver=DRIVERS)
def test_container_name(text: str, driver: Driver) -> None:
    """A container's id gives one folder's name that leads nowhere else, or is refused by name."""
    name = answer_or_refusal(lambda: cgroup_names.container_name(text, driver), ValueError, "container id")
    assert name is None or (name and "/" not in name and name not in (".", ".."))


@fuzz(names=st.lists(NAMES, max_size=4))
def test_driver(names: list[str]) -> None:
    """The driver is one that is known, or none."""
    assert cgroup_names.driver_of(names) in (SYSTEMD, CGROUPFS, None)

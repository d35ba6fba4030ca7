"""Names of cgroups."""

from hypothesis import strategies as st

from agent.host import cgroup_names
from agent.host.cgroup_names import CGROUPFS, SYSTEMD, Driver
from tests.fuzz.inputs import damaged
from tests.fuzz.originals import POD_CGROUPS
from tests.fuzz.strength import fuzz

NAMES = damaged(*POD_CGROUPS) | st.text()
DRIVERS: st.SearchStrategy[Driver] = st.sampled_from((SYSTEMD, CGROUPFS))


@fuzz(name=NAMES, driver=DRIVERS)
def test_pod_uid(name: str, driver: Driver) -> None:
    """The name of a pod's cgroup gives a uid that leads back to a name with that uid, or is another cgroup's."""
    uid = cgroup_names.pod_uid(name, driver)
    if uid is not None:
        assert uid
        folder = f"pod{uid}" if driver == CGROUPFS else f"kubepods-pod{uid.replace('-', '_')}.slice"
        assert cgroup_names.pod_uid(folder, driver) == uid


@fuzz(names=st.lists(NAMES, max_size=4))
def test_driver(names: list[str]) -> None:
    """The driver is one that is known, or none."""
    assert cgroup_names.driver_of(names) in (SYSTEMD, CGROUPFS, None)

import numpy as np
import pytest

from manager.hot_nodes.load import HotSettings
from tools.bench import placement
from tools.bench.placement import CORES, DefaultScheduler, Fleet, Pod, WithExtender, WithHotNodes


def _pod(number: int, cores: float) -> Pod:
    return Pod(number, np.full(20, cores), cores, 20)


def _loaded() -> Fleet:
    """Node 0 is hot with one pod; node 1 has more requested and uses less; node 2 is full."""
    fleet = Fleet(3)
    fleet.put(Pod(1, np.full(20, 0.9 * CORES), 4.0, 20), 0)
    fleet.put(Pod(2, np.full(20, 4.0), 16.0, 20), 1)
    fleet.put(_pod(3, CORES), 2)
    return fleet


def _told(scheduler: DefaultScheduler) -> DefaultScheduler:
    for step in range(3):
        scheduler.report(step, np.array([0.9, 0.1, 0.2]) * CORES)
    return scheduler


def test_each_way_chooses_its_node() -> None:
    """The default scheduler follows requests into a hot node; with the taint or the extender the pod goes elsewhere."""
    assert DefaultScheduler(_loaded(), 0).choose(_pod(9, 2.0), 3) == 0
    for mode in ("prefer", "noSchedule"):
        assert _told(WithHotNodes(_loaded(), 0, HotSettings(mode=mode))).choose(_pod(9, 2.0), 3) == 1
    assert _told(WithExtender(_loaded(), 0)).choose(_pod(9, 2.0), 3) == 1


def test_pod_that_fits_hot_nodes_alone() -> None:
    """Under prefer a pod goes to a hot node where no other fits; under noSchedule it waits."""
    pod = _pod(9, 20.0)
    assert _told(WithHotNodes(_loaded(), 0, HotSettings(mode="prefer"))).choose(pod, 3) == 0
    assert _told(WithHotNodes(_loaded(), 0, HotSettings(mode="noSchedule"))).choose(pod, 3) is None


@pytest.mark.parametrize("arm", placement.ARMS)
def test_every_arm_fills_the_nodes(arm: str) -> None:
    """Each scheduler places the same pods until the share is requested, and each node-step is counted."""
    usage = np.random.default_rng(0).random((400, 5))
    result = placement.run(arm, usage, 0.5, 3, 1, 0)
    assert np.concatenate(result.shares).size == 3 * 288
    assert 0.2 < float(np.concatenate(result.shares).mean()) < 0.5

import numpy as np
import pytest

from agent.api import WorkloadHistoryRule
from kubectl_headroom.backtest.cluster_history import ClusterHistory
from kubectl_headroom.backtest.placement import Placement
from kubectl_headroom.backtest.trace import PodLifetime
from tests.kubectl_headroom.backtest.small import trace

STEP = 3.0 * 3600.0
RULE = WorkloadHistoryRule(margin=1.0, pod_seconds=9 * STEP, nodes=2)
USAGE = np.array([1.0, 4.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 5.0, 1.0, 1.0, 6.0])[:, np.newaxis]


def highest(*lifetimes: PodLifetime, workload: str | None = "w", rule: WorkloadHistoryRule = RULE) -> list[float]:
    history = ClusterHistory(trace(USAGE, step=STEP), Placement(lifetimes, ("a", "b"), None))
    return list(history.highest(workload, rule, 0, len(USAGE)).tolist())


def test_history_is_the_maximum_over_machines() -> None:
    """It is known after a day on one machine and three hours on another, one step later, and only rises."""
    lifetimes = PodLifetime(0, 0, 0, 8, "w"), PodLifetime(0, 1, 8, 12, "w")
    assert highest(*lifetimes) == [np.inf] * 9 + [5.0] * 3
    longer = WorkloadHistoryRule(margin=1.0, pod_seconds=11 * STEP, nodes=2)
    assert highest(*lifetimes, rule=longer) == [np.inf] * 11 + [5.0]


def test_evidence_comes_from_several_machines() -> None:
    """A workload is unknown while it was on a single machine, however long, and while no machine had it for a day."""
    assert highest(PodLifetime(0, 0, 0, 12, "w")) == [np.inf] * 12
    assert highest(PodLifetime(0, 0, 0, 6, "w"), PodLifetime(0, 1, 6, 12, "w")) == [np.inf] * 12
    moving = PodLifetime(0, 0, 0, 4, "w"), PodLifetime(0, 1, 4, 5, "w"), PodLifetime(0, 0, 5, 12, "w")
    assert highest(*moving) == [np.inf] * 9 + [5.0] * 3


@pytest.mark.parametrize("workload", [None, "other"])
def test_pods_of_other_workloads_are_unknown(workload: str | None) -> None:
    lifetimes = PodLifetime(0, 0, 0, 8, "w"), PodLifetime(0, 1, 8, 12, "w")
    assert highest(*lifetimes, workload=workload) == [np.inf] * 12

import numpy as np
import pytest

from agent.api import WorkloadHistoryRule
from kubectl_headroom.backtest.cluster_history import ClusterHistory
from kubectl_headroom.backtest.placement import Placement
from kubectl_headroom.backtest.trace import PodLifetime
from tests.kubectl_headroom.backtest.small import STEP, trace

RULE = WorkloadHistoryRule(margin=1.0, pod_seconds=6 * STEP, nodes=2)
USAGE = np.array([1.0, 4.0, 2.0, 1.0, 1.0, 3.0, 1.0, 5.0, 1.0, 1.0])[:, np.newaxis]


def highest(*lifetimes: PodLifetime, workload: str | None = "w", rule: WorkloadHistoryRule = RULE) -> list[float]:
    history = ClusterHistory(trace(USAGE), Placement(lifetimes, ("a", "b"), None))
    return list(history.highest(workload, rule, 0, 10).tolist())


def test_history_is_the_maximum_over_machines() -> None:
    """It is known after six steps, three on each machine, one step later, and only rises."""
    lifetimes = PodLifetime(0, 0, 0, 4, "w"), PodLifetime(0, 1, 4, 10, "w")
    assert highest(*lifetimes) == [np.inf] * 7 + [4.0] + [5.0] * 2


def test_machine_counts_for_its_share() -> None:
    """A workload is unknown while it was on a single machine, however long; many machines make it known sooner."""
    assert highest(PodLifetime(0, 0, 0, 10, "w")) == [np.inf] * 10
    assert highest(PodLifetime(0, 0, 0, 8, "w"), PodLifetime(0, 1, 8, 10, "w")) == [np.inf] * 10
    moving = [PodLifetime(0, step, step, step + 1, "w") for step in range(10)]
    assert highest(*moving) == [np.inf] * 6 + [4.0] * 2 + [5.0] * 2


@pytest.mark.parametrize("workload", [None, "other"])
def test_pods_of_other_workloads_are_unknown(workload: str | None) -> None:
    lifetimes = PodLifetime(0, 0, 0, 4, "w"), PodLifetime(0, 1, 4, 10, "w")
    assert highest(*lifetimes, workload=workload) == [np.inf] * 10

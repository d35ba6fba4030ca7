"""Quotas, nodes, pods and namespaces that change under capacity scheduling, on the real kube-scheduler.

A quota lowered below what is used, one deleted and created again, a node that goes while room on it is held, a pod that
is resized in place, a namespace that is deleted. Each ends with who may borrow and who gets it back by what is so then.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.scheduler_plugins.extenders import until
from tests.scheduler_plugins.teams import GPU, Teams, standing
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = "quota-changes"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Teams]:
    """An extender with the quota plugin, and its kube-scheduler."""
    with Teams.open(cluster, NAME) as teams:
        yield teams


@pytest.fixture
def teams(stage: Teams) -> Iterator[Teams]:
    """No teams yet."""
    stage.resource = GPU
    yield stage
    stage.clear()


@pytest.mark.long
def test_lowered_quota(teams: Teams) -> None:
    """A quota that falls below what is used evicts nobody; it admits nobody, and what is above its min is borrowed."""
    teams.nodes(12)
    teams.add("a", 4, 6)
    teams.add("b", 6, 8)
    teams.submit("b", "b-1", 6)
    teams.submit("a", "a-1", 2)
    teams.reach(a=standing(2, "a-1"), b=standing(6, "b-1"))
    teams.next_second()
    teams.submit("a", "a-2", 2)
    teams.reach(a=standing(4, "a-1 a-2"), b=standing(6, "b-1"))

    teams.promise("a", 2, 2)
    teams.submit("a", "a-3", 1)
    teams.told("a", "a-3", "FailedScheduling", "used 4", "max 2")
    teams.submit("b", "b-2", 1)  # 6 + 1 are above B's min: it may not take from A yet
    teams.told("b", "b-2", "FailedScheduling", "sum of min 8")
    teams.stay(a=standing(4, "a-1 a-2", "a-3"), b=standing(6, "b-1", "b-2"))
    assert teams.evicted() == []

    teams.promise("b", 8, 8)
    teams.stay(a=standing(2, "a-1", "a-3"), b=standing(7, "b-1 b-2"))
    teams.lost("a-2")


@pytest.mark.long
def test_pod_is_resized(teams: Teams) -> None:
    """A pod resized in place is charged the larger of what it asks for and has; what it gave up wakes who waits."""
    teams.resource = "cpu"
    teams.nodes(8)
    teams.add("a", 4, 4)
    teams.submit("a", "a-1", 1)
    teams.reach(a=standing(1, "a-1"))
    teams.has("a", "a-1", 1)
    teams.resize("a", "a-1", 3)
    teams.reach(a=standing(3, "a-1"))  # before the kubelet has given it
    teams.has("a", "a-1", 3)
    teams.submit("a", "a-2", 2)
    teams.told("a", "a-2", "FailedScheduling", "used 3", "max 4")
    teams.resize("a", "a-1", 2)
    teams.stay(a=standing(3, "a-1", "a-2"))  # before the kubelet has taken it
    teams.has("a", "a-1", 2)
    teams.reach(a=standing(4, "a-1 a-2"))
    assert teams.evicted() == []


@pytest.mark.long
def test_namespace_is_deleted(teams: Teams) -> None:
    """With a namespace go its min and what it used: others may borrow less, and still give back what they borrow."""
    teams.nodes(12)
    teams.add("a", 4, 6)
    teams.add("b", 6, 8)
    teams.add("c", 0, 4)
    teams.submit("a", "a-1", 6)
    teams.submit("b", "b-1", 4)
    teams.reach(a=standing(6, "a-1"), b=standing(4, "b-1"), c=standing(0))
    teams.submit("c", "c-1", 2)
    teams.told("c", "c-1", "FailedScheduling", "sum of min 10")
    teams.stay(b=standing(4, "b-1"), c=standing(0, "", "c-1"))

    path = f"/api/v1/namespaces/{teams.namespace('a')}"
    teams.stage.cluster.api.request("DELETE", path)
    until(lambda: not teams.stage.cluster.api.exists(path), "the namespace being gone")
    teams.reach(b=standing(4, "b-1"), c=standing(2, "c-1"))
    teams.submit("c", "c-2", 1)
    teams.told("c", "c-2", "FailedScheduling", "sum of min 6")
    teams.stay(b=standing(4, "b-1"), c=standing(2, "c-1", "c-2"))
    assert teams.evicted() == []
    teams.submit("b", "b-2", 2)
    teams.stay(b=standing(6, "b-1 b-2"), c=standing(0, "", "c-2"))
    teams.lost("c-1")

"""Pods that wait for a quota: a change of quotas, or of their charge, requeues the pods that it helps."""

from collections.abc import Callable

import pytest

from scheduler_plugins.framework.verdict import Refusal
from tests.scheduler_plugins.requeue.teams import ADMISSION, Teams, bounds


def _raised(teams: Teams) -> None:
    teams.cluster.put_quota(bounds("a", 5, 5))


def _gone(teams: Teams) -> None:
    for number in range(3):
        teams.cluster.delete_pod(f"uid-r{number}")


@pytest.mark.parametrize("help_", [_raised, _gone], ids=["quota raised", "pods deleted"])
async def test_few_patches_for_few_places(help_: Callable[[Teams], None]) -> None:
    teams = Teams(a=(2, 2) if help_ is _raised else (3, 3))
    for number in range(2 if help_ is _raised else 3):
        teams.run(f"r{number}", "a")
    teams.wait(200, "a")
    assert len(teams.unschedulable.groups) == 1
    await teams.settled()
    help_(teams)
    assert await teams.story(5) == ["p0", "p1", "p10"]
    assert len(teams.unschedulable.pods) == 197


async def test_released_reservation_requeues() -> None:
    teams = Teams(a=(1, 1))
    assert teams.admits(teams.of("t0", "a"))
    teams.wait(2, "a")
    await teams.settled()
    teams.cache.release("uid-t0")
    assert await teams.reconcile() == ["p0"]


async def test_deleted_quota_requeues_all() -> None:
    teams = Teams(a=(1, 1))
    teams.run("r0", "a")
    teams.wait(3, "a")
    teams.cluster.ledger.delete_quota("quota-a")
    assert sorted(await teams.story(3)) == ["p0", "p1", "p2"]


async def test_other_namespace_frees_the_sum() -> None:
    teams = Teams(a=(1, 4), b=(1, 4))
    teams.run("r0", "a")
    teams.run("r1", "a")
    teams.wait(1, "b")
    await teams.settled()
    teams.cluster.delete_pod("uid-r1")
    assert await teams.reconcile() == ["p0"]


async def test_nominated_pod_gets_its_node() -> None:
    """Among identical pods the one with a hold is requeued, although it blocks the others."""
    teams = Teams(a=(1, 1))
    teams.run("r0", "a")
    teams.wait(3, "a")
    nominated, plain = teams.of("p2", "a"), teams.of("p2", "a")
    nominated["status"]["nominatedNodeName"] = "n1"
    teams.cluster.put_pod(nominated)
    teams.unschedulable.put_pod(nominated)
    assert sorted(len(group.pods) for group in teams.unschedulable.groups.values()) == [1, 2]
    await teams.settled()
    teams.cluster.delete_pod("uid-r0")
    assert await teams.reconcile() == ["p2"]
    teams.cluster.put_pod(plain)
    teams.unschedulable.put_pod(plain)
    assert len(teams.unschedulable.groups) == 1


@pytest.mark.parametrize("bound", ["max", "sum of min"])
def test_refusals_are_recognised(bound: str) -> None:
    """A pod that an earlier process rejected for its quota is recovered, whatever numbers kube-scheduler quotes."""
    teams = Teams(a=(1, 1) if bound == "max" else (1, 9))
    teams.run("r0", "a")
    refusal = ADMISSION.pre_filter(teams.cache.read(teams.of("p", "a")), teams.cache.freeze(teams.now))
    assert isinstance(refusal, Refusal)
    assert bound in refusal.reason
    fresh = Teams()
    for name, reason in (("p", refusal.reason), ("q", "Insufficient cpu")):
        item = teams.of(name, "a")
        message = f"0/2 nodes are available: 2 {reason}. preemption: 0/2 nodes are available: 2 Preemption is ..."
        conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
        item["status"]["conditions"] = conditions
        fresh.unschedulable.put_pod(item)
    assert [pod.key for pod in fresh.unschedulable.pods.values()] == ["a/p"]

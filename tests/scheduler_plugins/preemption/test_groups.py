"""Pods of a scheduling group are victims together, or not at all."""

from typing import Any

import pytest

from scheduler_plugins.framework.plugin import Victims
from scheduler_plugins.preemption.handler import answer
from scheduler_plugins.quota.over_max import over_max_usage
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.preemption.worlds import COUNT, NOW, World


def borrowed(*nodes: str, **more: Any) -> World:  # noqa: ANN401 - as World.run has it
    """Namespace a borrows with a group of two pods, and b wants its GPUs back."""
    world = World({"n1": 4, "n2": 4}, {"a": (0, 8), "b": (8, 8)})
    for number, node in enumerate(nodes):
        world.run(f"a/g{number}", node, 2, group="g", **(more if number == 0 else {}))
    return world


def test_whole_group_is_evicted() -> None:
    world = borrowed("n1", "n1")
    world.run("b/b1", "n2", 4)
    assert world.victims(world.wait("b/new", 2)) == {"a/g0", "a/g1"}


def test_members_on_other_nodes_are_evicted_too() -> None:
    world = borrowed("n1", "n2")
    world.run("b/b1", "n1", 2)
    world.run("b/b2", "n2", 2)
    decision = world.decision(world.wait("b/new", 2))
    assert {(victim.key, victim.node) for victim in decision.victims} == {("a/g0", "n1"), ("a/g1", "n2")}


def test_group_is_reprieved_as_a_whole() -> None:
    """A group is as important as its most important pod."""
    world = World({"n1": 6}, {"a": (0, 8), "b": (8, 8)})
    world.run("a/g0", "n1", 2, priority=5, group="g")
    world.run("a/single", "n1", 2, priority=1)
    world.run("a/g1", "n1", 2, group="g")
    assert world.victims(world.wait("b/new", 2)) == {"a/single"}


@pytest.mark.parametrize(
    ("more", "spared"),
    [({}, False), ({"priority": 9}, True), ({"static": True}, True)],
)
def test_group_with_a_protected_member_stays(more: dict[str, Any], *, spared: bool) -> None:
    """Namespace a exceeds its min itself: victims are its own pods of lower priority."""
    world = borrowed("n1", "n2", **more)
    world.run("b/b1", "n1", 2)
    world.run("b/b2", "n2", 2)
    pod = world.wait("a/new", 2, priority=5)
    if spared:
        assert "run no pod that may be evicted" in world.why_not(pod)
    else:
        assert world.victims(pod) == {"a/g0", "a/g1"}


def test_budget_protects_the_group() -> None:
    world = borrowed("n1", "n1", labels={"app": "web"})
    world.run("b/b1", "n2", 4)
    world.protect("a", "web")
    pod = world.wait("b/new", 2)
    assert "PodDisruptionBudgets protect a/g0" in world.why_not(pod)
    assert world.victims(pod, **COUNT) == {"a/g0", "a/g1"}


@pytest.mark.parametrize(
    ("nodes", "proposed", "answered"),
    [
        (("n1", "n1"), ("a/g0", "a/g1"), {"a/g0", "a/g1"}),
        (("n1", "n1"), ("a/g1",), {"a/g0", "a/g1"}),  # kube-scheduler chose a part
        (("n1", "n2"), ("a/g0",), None),  # it evicts on one node alone
    ],
)
def test_kube_scheduler_preempts_whole_groups(
    nodes: tuple[str, ...], proposed: tuple[str, ...], answered: set[str] | None
) -> None:
    world = borrowed(*nodes)
    for node in ("n1", "n2"):
        world.run(f"b/{node}", node, 4 - 2 * nodes.count(node))
    result = answer(world.wait("b/new", 2, priority=9), world.cluster, NOW, {"n1": Victims(proposed, 0)})
    assert result == {} if answered is None else set(result["n1"].uids) == answered


def test_pods_beyond_max_leave_as_groups() -> None:
    """With one pod too many the whole group is named, and a single pod in place of it where that is less important."""
    world = World({"n1": 8}, {"a": (0, 4)})
    for name in ("g0", "g1"):
        world.run(f"a/{name}", "n1", 1, group="g")
    world.run("a/older", "n1", 3, priority=1)

    def named() -> set[str]:
        usage = over_max_usage(world.cluster.ledger, world.cluster.pods.values(), {})
        return {pod.key for excess in usage for pod in excess.pods}

    assert named() == {"a/g0", "a/g1"}
    world.run("a/single", "n1", 1, priority=-1)
    assert named() == {"a/single", "a/g0", "a/g1"}
    world.run("a/larger", "n1", 2, priority=-2)
    assert named() == {"a/larger", "a/single", "a/g0", "a/g1"}


@pytest.mark.parametrize(
    ("spec", "group"),
    [
        ({}, ""),
        ({"schedulingGroup": {"podGroupName": "workers"}}, "workers"),
        ({"workloadRef": {"name": "job", "podGroup": "workers", "podGroupReplicaKey": "0"}}, "job/workers/0"),
        ({"schedulingGroup": {"podGroupName": None}}, "?"),
    ],
)
def test_group_of_a_pod(spec: dict[str, object], group: str) -> None:
    assert QuotaPod.from_json({"metadata": {"uid": "u"}, "spec": spec}).group == group


def test_members_are_forgotten() -> None:
    world = borrowed("n1", "n2")
    pod = world.cluster.pods["a/g0"]
    assert {member.key for member in world.cluster.members(pod)} == {"a/g0", "a/g1"}
    for uid in ("a/g0", "a/g1"):
        world.cluster.delete_pod(uid)
    assert not world.cluster.members(pod)

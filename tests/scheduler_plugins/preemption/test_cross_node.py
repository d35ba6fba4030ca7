"""Victims on several nodes."""

from random import Random
from typing import Final

import pytest

from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import Freed, PreemptionContext
from scheduler_plugins.preemption.selection.decide import Decision, Undecided
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.preemption.worlds import COUNT, NOW, World

SEEDS: Final = range(40)


def two_nodes() -> World:
    """The design's known limitation: a pod of quota1 on each of two nodes, quota2 is to use 2."""
    world = World({"node-1": 2, "node-2": 2}, {"quota1": (0, 2), "quota2": (2, 2)})
    world.run("quota1/nginx-1", "node-1")
    world.run("quota1/nginx-2", "node-2")
    return world


def test_known_limitation() -> None:
    """No single node frees enough quota: nobody is evicted, as upstream has it."""
    world = two_nodes()

    assert world.why_not(world.wait("quota2/nginx", 2)) == (
        "no eviction helps on any of 2 nodes: 2 global quota max exceeded"
    )


def test_cross_node_lifts_limitation() -> None:
    """With crossNode both pods leave, and the pod goes where one of them was."""
    world = two_nodes()

    decision = world.decide(world.wait("quota2/nginx", 2), cross_node=True)

    assert isinstance(decision, Decision)
    assert [victim.key for victim in decision.victims] == ["quota1/nginx-1", "quota1/nginx-2"]
    assert (decision.node, decision.cross_node) == ("node-1", True)
    assert decision.arithmetic == "quota quota1/q uses 2 of min 0 (nvidia.com/gpu), quota quota2/q needs 2 of its min 2"


def test_single_node_comes_first() -> None:
    """Nobody leaves another node where one node frees enough."""
    world = two_nodes()
    world.run("quota1/large", "node-2", 1)

    decision = world.decide(world.wait("quota2/nginx", 1), cross_node=True)

    assert isinstance(decision, Decision)
    assert not decision.cross_node


def test_room_is_made_where_it_goes() -> None:
    """Where the least important leave no node with enough room, those leave first who are in the way somewhere."""
    small = {"n2": 2, "n3": 2, "n4": 2}
    world = World({"n1": 4, **small}, {"a": (0, 9), "b": (4, 4), "spare": (2, 2)})
    for name in ("a1", "a2"):
        world.run(f"a/{name}", "n1", 2, priority=9)
    for name in small:
        world.run(f"a/on-{name}", name, 1)

    decision = world.decide(world.wait("b/b1", 4), cross_node=True)

    assert isinstance(decision, Decision)
    assert decision.node == "n1"
    assert {victim.key for victim in decision.victims} == {"a/a1", "a/a2", "a/on-n4"}


def test_least_important_leave() -> None:
    """Elsewhere the least important leave, and none but as many as are needed."""
    world = World({"n1": 4, "n2": 4, "n3": 4}, {"a": (0, 12), "b": (8, 8)})
    for index, priority in enumerate((9, 0, 9, 5)):
        world.run(f"a/p{index}", f"n{1 + index % 2}", 2, priority=priority)

    assert world.victims(world.wait("b/b1", 3), cross_node=True) == {"a/p1", "a/p3"}


def test_few_large_before_many_small() -> None:
    """Among equally important pods few large ones leave, not many small ones, though these are newer."""
    small = {f"s{index}": 1 for index in range(4)}
    world = World({"n1": 2, "n2": 2, "free": 4, **small}, {"a": (0, 12), "b": (8, 8)})
    for name in ("n1", "n2"):
        world.run(f"a/large-{name}", name, 2)
    for name in small:
        world.run(f"a/small-{name}", name, 1)

    assert world.victims(world.wait("b/b1", 4), cross_node=True) == {"a/large-n1", "a/large-n2"}


def test_nobody_leaves_for_nothing() -> None:
    """Who turns out not to be needed once a more important pod has to leave stays."""
    world = World({"n1": 3, "n2": 1, "free": 4}, {"a": (0, 12), "b": (5, 8)})
    world.run("a/large", "n1", 3, priority=5)
    world.run("a/small", "n2", 1)

    assert world.victims(world.wait("b/b1", 4), cross_node=True) == {"a/large"}


def test_who_is_leaving_counts_first() -> None:
    """Who is terminating anyway is counted before anybody else has to leave, however important."""
    world = World({"n1": 1, "n2": 1, "n3": 1, "free": 2}, {"a": (0, 12), "b": (3, 8)})
    world.run("a/leaving", "n1", 1, priority=9, terminating=True)
    world.run("a/a2", "n2", 1, priority=9)
    world.run("a/a3", "n3", 1)

    assert world.victims(world.wait("b/b1", 2), cross_node=True) == {"a/leaving", "a/a3"}


def test_own_pods_on_several_nodes() -> None:
    """Beyond its min a namespace gives up several pods of lower priority of its own to stay below its max."""
    world = World({"n1": 2, "n2": 4}, {"a": (1, 4), "spare": (9, 9)})
    world.run("a/a1", "n1", 2)
    world.run("a/a2", "n2", 2)

    assert "global quota max" in world.why_not(world.wait("a/big", 4, priority=5))
    assert world.victims(world.wait("a/big", 4, priority=5), cross_node=True) == {"a/a1", "a/a2"}
    assert isinstance(world.decide(world.wait("a/equal", 4), cross_node=True), Undecided)


def test_max_is_no_matter_of_others() -> None:
    """Whoever is over its own max gets nothing by what others give up."""
    world = World({"n1": 2, "n2": 2}, {"a": (0, 4), "b": (8, 1)})
    world.run("a/a1", "n1", 2)

    assert isinstance(world.decide(world.wait("b/b1", 2), cross_node=True), Undecided)


def test_min_is_kept_across_nodes() -> None:
    """A namespace keeps what is guaranteed to it, wherever its pods are."""
    world = World({"n1": 2, "n2": 2}, {"a": (3, 4), "b": (2, 8)})
    for name, node in (("a1", "n1"), ("a2", "n1"), ("a3", "n2"), ("a4", "n2")):
        world.run(f"a/{name}", node, 1)

    assert isinstance(world.decide(world.wait("b/b1", 2), cross_node=True), Undecided)
    assert world.victims(world.wait("b/b2", 1), cross_node=True) == {"a/a4"}


def test_budgets_across_nodes() -> None:
    """Whom a budget protects stays where another can leave; where nobody else can, only a mere count lets them go."""
    world = World({"n1": 4, "n2": 4, "n3": 4}, {"a": (0, 12), "b": (4, 8)})
    world.run("a/a1", "n1", 1, priority=9)
    world.run("a/a2", "n2", 1, labels={"app": "web"})
    world.run("a/a3", "n3", 1, priority=9)
    world.protect("a", "web")

    assert world.victims(world.wait("b/b1", 3), cross_node=True) == {"a/a1", "a/a3"}
    everybody = world.wait("b/b2", 4)
    assert isinstance(world.decide(everybody, cross_node=True), Undecided)
    assert world.victims(everybody, cross_node=True, **COUNT) == {"a/a1", "a/a2", "a/a3"}


def random_world(seed: int) -> tuple[World, QuotaPod]:
    """A random cluster and a pod that waits there."""
    random = Random(seed)  # noqa: S311 - nothing secret
    world = World({f"n{index}": random.randint(2, 6) for index in range(5)}, {"a": (2, 20), "b": (8, 20), "c": (1, 20)})
    for index in range(16):
        world.run(f"{random.choice('aac')}/p{index}", f"n{random.randrange(5)}", 1, priority=random.choice((0, 5)))
    return world, world.wait("b/b1", random.randint(2, 6))


def test_random_clusters_need_several_nodes() -> None:
    """Of the random clusters several need victims on more than one node."""
    decisions = [world.decide(pod, cross_node=True) for world, pod in map(random_world, SEEDS)]

    assert sum(isinstance(found, Decision) and found.cross_node for found in decisions) >= len(SEEDS) // 4


@pytest.mark.parametrize("seed", SEEDS)
def test_enough_and_none_too_many(seed: int) -> None:
    """On random clusters all rules hold after it, and would not with any one victim less; the same is chosen again."""
    world, pod = random_world(seed)
    decision = world.decide(pod, cross_node=True)
    if isinstance(decision, Undecided):
        return
    context, misfit = PreemptionContext.of(pod, world.cluster, NOW), FitModel(pod, world.cluster, ()).misfit

    def is_enough(victims: set[str]) -> bool:
        freed = Freed(context)
        for uid in victims:
            freed.take(world.cluster.pods[uid])
        return freed.suffices() and misfit(decision.node, victims) is None

    gone = {victim.uid for victim in decision.victims}
    assert is_enough(gone)
    assert not any(is_enough(gone - {uid}) for uid in gone)
    for namespace, least in (("a", 2), ("c", 1)):
        before = world.cluster.ledger.used(namespace).get("nvidia.com/gpu", 0)
        assert before - sum(victim.namespace == namespace for victim in decision.victims) >= min(least, before)
    assert world.decide(pod, cross_node=True) == decision

"""For whom held room is kept from whom."""

import pytest

from scheduler_plugins.quota.available import crowded, holders_before
from scheduler_plugins.quota.hold import Hold
from tests.scheduler_plugins.preemption.worlds import NOW, World

HOLD = Hold("gpu", NOW + 60, ("a/gone",))


def kept_away(key: str, priority: int, lender: tuple[int, int] = (10, 10)) -> bool:
    """Whether a pod is kept off a node with two free GPUs that are held for one of priority 0.

    Args:
        key: of the pod, which asks for both.
        priority: of the pod.
        lender: min and max of the namespace for which they are held, which uses two.
    """
    world = World({"gpu": 10}, {"a": (4, 8), "b": lender, "c": (4, 8)})
    for number in range(3):
        world.run(f"a/a{number}", "gpu", 2)
    world.run("b/b1", "gpu", 2)
    world.wait("b/holder", 2, hold=HOLD)
    pod = world.wait(key, 2, priority)
    return bool(crowded(pod, world.cluster, holders_before(pod, world.cluster, NOW)))


@pytest.mark.parametrize("namespace", ["a", "b", "c", "free"])
def test_equals_are_kept_away(namespace: str) -> None:
    assert kept_away(f"{namespace}/new", 0)


def test_important_borrower_is_kept_away() -> None:
    """Who comes in the place of a borrower that was evicted does not take the room back, whatever its priority."""
    assert kept_away("a/new", 100)


@pytest.mark.parametrize("namespace", ["b", "c", "free"])
def test_important_others_go_first(namespace: str) -> None:
    """Pods of higher priority go first of whoever borrows nothing: as kube-scheduler's own nominations have it."""
    assert not kept_away(f"{namespace}/new", 100)


def test_room_beyond_min_is_not_guaranteed() -> None:
    assert not kept_away("a/new", 100, lender=(2, 10))


def test_holder_on_its_way() -> None:
    world = World({"gpu": 10}, {"a": (1, 8), "b": (2, 8)})
    world.run("a/a1", "gpu", 8)
    holder = world.wait("b/holder", 2, hold=HOLD)
    world.cluster.ledger.admit(holder)
    pod = world.wait("a/new", 2, 100)

    assert crowded(pod, world.cluster, holders_before(pod, world.cluster, NOW)) == {"gpu"}


@pytest.mark.parametrize(("least", "leaves"), [(10, False), (2, True)])
def test_decisions_know_whose_room_it_is(least: int, *, leaves: bool) -> None:
    """Nobody leaves for a pod that would need, beside their room, room that is kept from it."""
    world = World({"gpu": 10}, {"a": (4, 8), "b": (least, 10), "c": (8, 8)})
    world.run("a/a1", "gpu", 2, priority=200)
    world.run("a/low", "gpu", 4)
    world.run("b/b1", "gpu", 2)
    world.wait("b/holder", 2, hold=HOLD)
    pod = world.wait("a/new", 6, 100)

    if leaves:
        assert world.victims(pod) == {"a/low"}
    else:
        assert "Insufficient" in world.why_not(pod)

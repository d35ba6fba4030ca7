"""For whom held room is kept from whom."""

import pytest

from scheduler_plugins.quota.available import crowded, holders_before
from scheduler_plugins.quota.hold import Hold
from tests.scheduler_plugins.preemption.worlds import NOW, World

HOLD = Hold("gpu", NOW + 60, ("a/gone",))


@pytest.mark.parametrize(
    ("namespace", "priority", "lender", "kept_away"),
    [
        *((namespace, 0, (10, 10), True) for namespace in ("a", "b", "c", "free")),  # of no higher priority
        # Who comes in the place of a borrower that was evicted does not take the room back, whatever its priority.
        ("a", 100, (10, 10), True),
        # Pods of higher priority go first of whoever borrows nothing: as kube-scheduler's own nominations have it.
        *((namespace, 100, (10, 10), False) for namespace in ("b", "c", "free")),
        ("a", 100, (2, 10), False),  # room beyond the holder's own min is not guaranteed
    ],
)
def test_from_whom_room_is_kept(namespace: str, priority: int, lender: tuple[int, int], *, kept_away: bool) -> None:
    """Two free GPUs are held for a pod of priority 0 of a namespace that uses two; another pod asks for both."""
    world = World({"gpu": 10}, {"a": (4, 8), "b": lender, "c": (4, 8)})
    for number in range(3):
        world.run(f"a/a{number}", "gpu", 2)
    world.run("b/b1", "gpu", 2)
    world.wait("b/holder", 2, hold=HOLD)
    pod = world.wait(f"{namespace}/new", 2, priority)
    assert bool(crowded(pod, world.cluster, holders_before(pod, world.cluster, NOW))) is kept_away


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

"""When a Node is written, and what."""

import pytest

from manager.inputs import Amounts, Resource, StrategyInputs
from manager.mid.publish import (
    Decision,
    PendingIncrease,
    PublishedAmount,
    PublishState,
    decide,
    exceeds,
    is_urgent,
    published_amounts,
    state_after_writes,
    status_patch,
)
from tests.support.objects import NOW, node, strategy

CPU, MEMORY = Resource.CPU, Resource.MEMORY
MIB = 1024**2
STRATEGY = StrategyInputs.of(strategy(midIncreaseHoldSeconds=120, updateTimeThresholdSeconds=300))
JUST_WRITTEN = PublishState(written_at=NOW)


def _decide(
    now_offers: int | None, wanted: int | None, memory: PublishState = JUST_WRITTEN, now: float = NOW
) -> Decision:
    """A decision about CPU alone; memory stays as it is."""
    current = {CPU: PublishedAmount(now_offers), MEMORY: PublishedAmount(None if now_offers is None else 1000)}
    desired = None if wanted is None else Amounts(wanted, 1000)
    return decide(current, desired, STRATEGY, memory, now)


def test_appearing_is_written_at_once() -> None:
    """A Node without Mid resources gets both at once."""
    assert _decide(None, 5000).writes == {CPU: 5000, MEMORY: 1000}


def test_disappearing_is_written_at_once() -> None:
    """A Node that may offer nothing loses both at once."""
    assert _decide(5000, None).writes == {CPU: None, MEMORY: None}


def test_no_difference_no_write() -> None:
    """The same number is never written again, however long ago it was."""
    assert _decide(5000, 5000, PublishState()) == Decision({}, PublishState())
    assert (
        decide({CPU: PublishedAmount(None), MEMORY: PublishedAmount(None)}, None, STRATEGY, PublishState(), NOW).writes
        == {}
    )


@pytest.mark.parametrize(
    ("old", "new", "resource", "urgent"),
    [
        (10000, 9899, CPU, True),
        (10000, 9900, CPU, False),  # exactly 1 %
        (900, 890, CPU, True),  # 1.1 % and 10m
        (900, 891, CPU, False),  # 1 % but 9m
        (1000 * MIB, 984 * MIB, MEMORY, True),  # 1.6 % and 16Mi
        (1000 * MIB, 985 * MIB, MEMORY, False),  # 15Mi
        (100_000 * MIB, 99_500 * MIB, MEMORY, False),  # 0.5 %
    ],
)
def test_urgent_decreases(old: int, new: int, resource: Resource, urgent: bool) -> None:  # noqa: FBT001
    """A decrease is urgent above 1 % and from 10m / 16Mi."""
    assert is_urgent(old, new, resource) is urgent


def test_decrease_is_written_at_once() -> None:
    """An urgent decrease does not wait, even right after a write."""
    assert _decide(10000, 5000).writes == {CPU: 5000}


def test_small_decrease_waits() -> None:
    """A small decrease is written when the last write is updateTimeThresholdSeconds ago."""
    decision = _decide(10000, 9950)
    assert decision.writes == {}
    assert decision.requeue_at == NOW + 300
    assert _decide(10000, 9950, now=NOW + 299).writes == {}
    assert _decide(10000, 9950, now=NOW + 300).writes == {CPU: 9950}


def test_increase_must_hold() -> None:
    """A large increase is written once it has held, with the lowest number of that time."""
    first = _decide(10000, 20000)
    assert first.writes == {}
    assert first.requeue_at == NOW + 120
    dip = _decide(10000, 14000, first.state, NOW + 60)
    assert dip.state.pending_increases[CPU] == (PendingIncrease(NOW, 14000),)
    held = _decide(10000, 30000, dip.state, NOW + 120)
    assert held.writes == {CPU: 14000}
    assert state_after_writes(held, NOW + 120).pending_increases == {CPU: (PendingIncrease(NOW + 120, 30000),)}


def test_rest_of_increase_is_planned() -> None:
    """When the lower part of an increase has held, the rest begins to hold, without waiting for anything to happen."""
    dip = _decide(10000, 14000, _decide(10000, 20000).state, NOW + 60)
    held = _decide(10000, 20000, dip.state, NOW + 120)
    assert held.writes == {CPU: 14000}
    assert held.requeue_at == NOW + 240
    rest = _decide(14000, 20000, state_after_writes(held, NOW + 120), NOW + 240)
    assert rest.writes == {CPU: 20000}


def test_small_increase_does_not_hold_up_a_large_one() -> None:
    """A large increase is written when it has held, although a small one before it still waits for calm."""
    small = _decide(10000, 10200)
    large = _decide(10000, 13000, small.state, NOW + 60)
    assert large.requeue_at == NOW + 180
    assert _decide(10000, 13000, large.state, NOW + 179).writes == {}
    held = _decide(10000, 13000, large.state, NOW + 180)
    assert held.writes == {CPU: 13000}
    assert held.requeue_at is None


def test_each_part_of_an_increase_holds_for_itself() -> None:
    """What was desired while a lower part held has not held less because of it."""
    low = _decide(10000, 12000)
    high = _decide(10000, 15000, low.state, NOW + 30)
    first = _decide(10000, 15000, high.state, NOW + 120)
    assert first.writes == {CPU: 12000}
    assert first.requeue_at == NOW + 150
    rest = _decide(12000, 15000, state_after_writes(first, NOW + 120), NOW + 150)
    assert rest.writes == {CPU: 15000}


def test_write_that_fails_is_made_up_for() -> None:
    """An increase that has held is written as soon as the API server takes it; once there, it has held no longer."""
    held = _decide(10000, 20000, _decide(10000, 20000).state, NOW + 120)
    assert held.writes == {CPU: 20000}
    assert _decide(10000, 20000, held.state, NOW + 130).writes == {CPU: 20000}
    assert _decide(10000, 20000, state_after_writes(held, NOW + 120), NOW + 500).writes == {}


def test_interrupted_increase_begins_anew() -> None:
    """A rise that falls back to what the Node has starts to hold again from its next beginning."""
    first = _decide(10000, 20000)
    back = _decide(10000, 10000, first.state, NOW + 100)
    assert back.state.pending_increases == {}
    again = _decide(10000, 20000, back.state, NOW + 110)
    assert again.requeue_at == NOW + 230


def test_small_increase_waits_longer() -> None:
    """An increase within the threshold is written after updateTimeThresholdSeconds, if it held."""
    first = _decide(10000, 10900)
    assert first.requeue_at == NOW + 300
    assert _decide(10000, 10900, first.state, NOW + 299).writes == {}
    assert _decide(10000, 10900, first.state, NOW + 300).writes == {CPU: 10900}


def test_increase_holds_after_long_quiet() -> None:
    """However long ago the last write was, an increase holds first."""
    quiet = PublishState(written_at=NOW - 10_000)
    assert _decide(10000, 20000, quiet).writes == {}
    assert _decide(10000, 20000, PublishState()).writes == {}


def test_increase_without_hold() -> None:
    """With midIncreaseHoldSeconds 0 a large increase is written at once."""
    eager = StrategyInputs.of(strategy(midIncreaseHoldSeconds=0))
    current = {CPU: PublishedAmount(10000), MEMORY: PublishedAmount(1000)}
    assert decide(current, Amounts(11001, 1000), eager, JUST_WRITTEN, NOW).writes == {CPU: 11001}
    assert decide(current, Amounts(11000, 1000), eager, JUST_WRITTEN, NOW).writes == {}


def test_threshold_is_exact() -> None:
    """The threshold is strict and not blurred by floating point: 5 % of 20000 is 1000."""
    five = StrategyInputs.of(strategy(resourceDiffThreshold=0.05))
    assert not exceeds(20000, 21000, five)
    assert exceeds(20000, 21001, five)
    assert exceeds(0, 1, five)


def test_disagreement_is_repaired() -> None:
    """Capacity and allocatable that disagree are written even when one of them is right."""
    halves = node(mid=("5000", "1000"))
    del halves["status"]["allocatable"]["kubernetes.io/mid-cpu"]
    found = published_amounts(halves)
    assert found == {CPU: PublishedAmount(5000, consistent=False), MEMORY: PublishedAmount(1000)}
    assert decide(found, Amounts(5000, 1000), STRATEGY, JUST_WRITTEN, NOW).writes == {CPU: 5000}
    assert decide(found, Amounts(4990, 1000), STRATEGY, JUST_WRITTEN, NOW).writes == {CPU: 4990}


def test_repair_is_no_short_cut() -> None:
    """Where capacity and allocatable disagree, an increase still has to hold: both get the larger number first."""
    found = {CPU: PublishedAmount(5000, consistent=False), MEMORY: PublishedAmount(1000)}
    repair = decide(found, Amounts(9000, 1000), STRATEGY, JUST_WRITTEN, NOW)
    assert repair.writes == {CPU: 5000}
    assert repair.requeue_at == NOW + 120
    repaired = {CPU: PublishedAmount(5000), MEMORY: PublishedAmount(1000)}
    held = decide(repaired, Amounts(9000, 1000), STRATEGY, state_after_writes(repair, NOW), NOW + 120)
    assert held.writes == {CPU: 9000}


def test_larger_of_two_is_offered() -> None:
    """A kubelet that zeroed one of the two numbers has not changed what the Node has."""
    zeroed = node(mid=("5000", "1000"))
    zeroed["status"]["allocatable"]["kubernetes.io/mid-cpu"] = "0"
    assert published_amounts(zeroed)[CPU] == PublishedAmount(5000, consistent=False)


def test_what_runs_is_restored_at_once() -> None:
    """A kubelet that zeroed the Node's numbers: what Mid pods requested comes back at once, the rest later."""
    zeroed = {CPU: PublishedAmount(0), MEMORY: PublishedAmount(1000)}
    first = decide(zeroed, Amounts(5000, 1000), STRATEGY, JUST_WRITTEN, NOW, allocated=Amounts(3000, 1000))
    assert first.writes == {CPU: 3000}
    assert first.requeue_at == NOW + 120
    rest = decide(
        {CPU: PublishedAmount(3000), MEMORY: PublishedAmount(1000)},
        Amounts(5000, 1000),
        STRATEGY,
        first.state,
        NOW + 120,
    )
    assert rest.writes == {CPU: 5000}
    exact = StrategyInputs.of(strategy(midShrinkPolicy="exact"))
    assert decide(zeroed, Amounts(5000, 1000), exact, JUST_WRITTEN, NOW, Amounts(3000, 1000)).writes == {}


@pytest.mark.parametrize(("text", "amount"), [("12k", 12000), ("12500", 12500), ("junk", -1)])
def test_offers_read_quantities(text: str, amount: int) -> None:
    """What the API server made of a number is read back; junk differs from every number."""
    assert published_amounts(node(mid=(text, "1Gi")))[CPU] == PublishedAmount(amount)
    assert published_amounts(node())[CPU] == PublishedAmount(None)
    assert published_amounts({}) == {CPU: PublishedAmount(None), MEMORY: PublishedAmount(None)}


def test_patch_is_smallest() -> None:
    """Only what changes is in the patch, the same in capacity and allocatable; null takes it away."""
    assert status_patch({CPU: 4000}) == {
        "status": {
            "capacity": {"kubernetes.io/mid-cpu": "4000"},
            "allocatable": {"kubernetes.io/mid-cpu": "4000"},
        }
    }
    gone = {"kubernetes.io/mid-cpu": None, "kubernetes.io/mid-memory": None}
    assert status_patch({CPU: None, MEMORY: None}) == {"status": {"capacity": gone, "allocatable": gone}}


def test_write_is_remembered() -> None:
    """After a write the calm time starts over, and rises of the other resource go on."""
    rising = PublishState(None, {MEMORY: (PendingIncrease(NOW, 5),)})
    assert state_after_writes(Decision({CPU: 7}, rising), NOW + 1) == PublishState(
        NOW + 1, {MEMORY: (PendingIncrease(NOW, 5),)}
    )


def test_zero_is_a_number() -> None:
    """A node that may publish nothing has 0 of both: only a reason that is no arithmetic takes the resources away."""
    offered = {CPU: PublishedAmount(5000), MEMORY: PublishedAmount(1000)}
    assert decide(offered, Amounts(), STRATEGY, JUST_WRITTEN, NOW).writes == {CPU: 0}
    assert (
        decide({CPU: PublishedAmount(0), MEMORY: PublishedAmount(0)}, Amounts(), STRATEGY, JUST_WRITTEN, NOW).writes
        == {}
    )
    assert decide(
        {CPU: PublishedAmount(None), MEMORY: PublishedAmount(None)}, Amounts(), STRATEGY, PublishState(), NOW
    ).writes == {
        CPU: 0,
        MEMORY: 0,
    }


def test_what_comes_back_must_hold() -> None:
    """Taken away because reports were too old: the first number afterwards is an increase, from nothing."""
    gone = decide(
        {CPU: PublishedAmount(None), MEMORY: PublishedAmount(None)}, None, STRATEGY, JUST_WRITTEN, NOW, expired=True
    )
    back = _decide(None, 5000, gone.state, NOW + 10)
    assert back.writes == {}
    assert back.requeue_at == NOW + 130
    dip = _decide(None, 4000, back.state, NOW + 60)
    assert dip.writes == {}
    held = _decide(None, 6000, dip.state, NOW + 130)
    assert held.writes == {CPU: 4000, MEMORY: 1000}
    assert not state_after_writes(held, NOW + 130).withdrawn
    again = _decide(None, 9000, held.state, NOW + 131)  # the write failed, and now more could be published
    assert again.writes == {CPU: 4000, MEMORY: 1000}


def test_disabled_and_enabled_again_is_no_return() -> None:
    """Whoever enables publishing again, meanwhile or afterwards, need not wait."""
    gone = decide(
        {CPU: PublishedAmount(None), MEMORY: PublishedAmount(None)}, None, STRATEGY, JUST_WRITTEN, NOW, expired=True
    )
    disabled = _decide(None, None, gone.state, NOW + 10)
    assert _decide(None, 5000, disabled.state, NOW + 20).writes == {CPU: 5000, MEMORY: 1000}


def test_floor_comes_back_at_once() -> None:
    """What running Mid pods requested does not wait for a return either."""
    gone = decide(
        {CPU: PublishedAmount(None), MEMORY: PublishedAmount(None)}, None, STRATEGY, JUST_WRITTEN, NOW, expired=True
    )
    current = {CPU: PublishedAmount(None), MEMORY: PublishedAmount(1000)}
    back = decide(current, Amounts(9000, 1000), STRATEGY, gone.state, NOW + 5, Amounts(2000, 0))
    assert back.writes == {CPU: 2000}

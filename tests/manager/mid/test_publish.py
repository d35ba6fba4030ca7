"""When a Node is written, and what: at each boundary, and for every sequence of numbers on a clock that tests move."""

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st

from manager.inputs import Amounts, Resource, StrategyInputs
from manager.mid.publish import (
    SMALLEST_STEP,
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
    was_withdrawn,
)
from tests.fuzz.strength import fuzz
from tests.support.objects import NOW, Json, node, strategy

CPU, MEMORY = Resource.CPU, Resource.MEMORY
MIB = 1024**2
STRATEGY = StrategyInputs.of(strategy(midIncreaseHoldSeconds=120, updateTimeThresholdSeconds=300))
EAGER = StrategyInputs.of(strategy(midIncreaseHoldSeconds=0))
JUST_WRITTEN = PublishState(written_at=NOW)
WITHDRAWN = PublishState(written_at=NOW, withdrawn=True)
ABSENT = {CPU: PublishedAmount(None), MEMORY: PublishedAmount(None)}


def has(cpu: int | None, *, consistent: bool = True) -> dict[Resource, PublishedAmount]:
    """A Node with this CPU; its memory stays unchanged."""
    return {CPU: PublishedAmount(cpu, consistent), MEMORY: PublishedAmount(None if cpu is None else 1000)}


def rising(*parts: tuple[float, int]) -> dict[Resource, tuple[PendingIncrease, ...]]:
    """Pending increases of CPU: seconds after the last write, and the lowest amount since."""
    return {CPU: tuple(PendingIncrease(NOW + since, lowest) for since, lowest in parts)}


def since(*parts: tuple[float, int]) -> PublishState:
    return PublishState(NOW, rising(*parts))


BOTH = {CPU: 5000, MEMORY: 1000}
LOW = since((0, 12000), (30, 15000))


@pytest.mark.parametrize(
    ("before", "desired", "state", "after", "writes", "requeue", "pending"),
    [
        # appearing, disappearing, zero: at once; the same number: never
        (has(None), 5000, JUST_WRITTEN, 0, BOTH, None, {}),
        (has(5000), None, JUST_WRITTEN, 0, {CPU: None, MEMORY: None}, None, {}),
        (has(5000), 5000, PublishState(), 0, {}, None, {}),
        (ABSENT, None, PublishState(), 0, {}, None, {}),
        (has(5000), 0, JUST_WRITTEN, 0, {CPU: 0}, None, {}),
        (has(0), 0, JUST_WRITTEN, 0, {}, None, {}),
        (ABSENT, 0, PublishState(), 0, {CPU: 0, MEMORY: 1000}, None, {}),
        (has(-1), 5000, JUST_WRITTEN, 0, {CPU: 5000}, None, {}),
        # a decrease: urgent at once, otherwise updateTimeThresholdSeconds after the last write
        (has(10000), 9899, JUST_WRITTEN, 0, {CPU: 9899}, None, {}),
        (has(10000), 9900, JUST_WRITTEN, 299, {}, 300, {}),
        (has(10000), 9900, JUST_WRITTEN, 300, {CPU: 9900}, None, {}),
        (has(10000), 9900, PublishState(), 0, {CPU: 9900}, None, {}),
        # an increase: holds midIncreaseHoldSeconds, then the lowest amount of that time
        (has(10000), 20000, JUST_WRITTEN, 0, {}, 120, rising((0, 20000))),
        (has(10000), 20000, PublishState(NOW - 10_000), 0, {}, 120, rising((0, 20000))),
        (has(10000), 20000, PublishState(), 0, {}, 120, rising((0, 20000))),
        (has(10000), 14000, since((0, 20000)), 60, {}, 120, rising((0, 14000))),
        (has(10000), 10000, since((0, 20000)), 100, {}, None, {}),
        (has(10000), 20000, since((0, 20000)), 119, {}, 120, rising((0, 20000))),
        (has(10000), 20000, since((0, 20000)), 130, {CPU: 20000}, None, rising((0, 20000))),
        (has(10000), 30000, since((0, 14000)), 120, {CPU: 14000}, 240, rising((0, 14000), (120, 30000))),
        # each part of an increase holds for itself
        (has(10000), 15000, since((0, 12000)), 30, {}, 120, rising((0, 12000), (30, 15000))),
        (has(10000), 15000, LOW, 120, {CPU: 12000}, 150, LOW.pending_increases),
        (has(12000), 15000, PublishState(NOW + 120, rising((30, 15000))), 150, {CPU: 15000}, None, rising((30, 15000))),
        # within resourceDiffThreshold: updateTimeThresholdSeconds too, and no hindrance for a larger one behind it
        (has(10000), 10900, JUST_WRITTEN, 0, {}, 300, rising((0, 10900))),
        (has(10000), 10900, since((0, 10900)), 299, {}, 300, rising((0, 10900))),
        (has(10000), 10900, since((0, 10900)), 300, {CPU: 10900}, None, rising((0, 10900))),
        (has(10000), 13000, since((0, 10200)), 60, {}, 180, rising((0, 10200), (60, 13000))),
        (has(10000), 13000, since((0, 10200), (60, 13000)), 180, {CPU: 13000}, None, rising((60, 13000))),
        # capacity and allocatable differ: both get the larger amount, or the desired one if that is below it
        (has(5000, consistent=False), 5000, JUST_WRITTEN, 0, {CPU: 5000}, None, {}),
        (has(5000, consistent=False), 4990, JUST_WRITTEN, 0, {CPU: 4990}, None, {}),
        (has(5000, consistent=False), 9000, JUST_WRITTEN, 0, {CPU: 5000}, 120, rising((0, 9000))),
    ],
)
def test_decision(
    before: dict[Resource, PublishedAmount],
    desired: int | None,
    state: PublishState,
    after: float,
    writes: dict[Resource, int | None],
    requeue: float | None,
    pending: dict[Resource, tuple[PendingIncrease, ...]],
) -> None:
    wanted = None if desired is None else Amounts(desired, 1000)
    result = decide(before, wanted, STRATEGY, state, NOW + after)
    assert result == Decision(
        writes,
        PublishState(state.written_at, pending),
        None if requeue is None else NOW + requeue,
        returned=result.returned,
    )


def test_increase_without_hold() -> None:
    assert decide(has(10000), Amounts(11001, 1000), EAGER, JUST_WRITTEN, NOW).writes == {CPU: 11001}
    assert decide(has(10000), Amounts(11000, 1000), EAGER, JUST_WRITTEN, NOW).writes == {}


def test_requests_of_running_pods_are_restored_at_once() -> None:
    """A kubelet that zeroed the Node's numbers: what Mid pods requested comes back at once, the rest later."""
    first = decide(has(0), Amounts(5000, 1000), STRATEGY, JUST_WRITTEN, NOW, Amounts(3000, 1000))
    assert (first.writes, first.requeue_at) == ({CPU: 3000}, NOW + 120)
    over = decide(has(0), Amounts(5000, 1000), STRATEGY, JUST_WRITTEN, NOW, Amounts(7000, 1000))
    assert over.writes == {CPU: 5000}
    exact = StrategyInputs.of(strategy(midShrinkPolicy="exact"))
    assert decide(has(0), Amounts(5000, 1000), exact, JUST_WRITTEN, NOW, Amounts(3000, 1000)).writes == {}


def test_increase_must_hold() -> None:
    """Removed because reports expired: the first number afterwards is an increase, from nothing."""
    gone = decide(ABSENT, None, STRATEGY, JUST_WRITTEN, NOW, expired=True)
    assert gone == Decision({}, WITHDRAWN)
    back = decide(ABSENT, Amounts(5000, 1000), STRATEGY, gone.state, NOW + 10)
    assert (back.writes, back.requeue_at, back.returned) == ({}, NOW + 130, False)
    dip = decide(ABSENT, Amounts(4000, 1000), STRATEGY, back.state, NOW + 60)
    held = decide(ABSENT, Amounts(6000, 1000), STRATEGY, dip.state, NOW + 130)
    assert (dip.writes, held.writes, held.returned) == ({}, {CPU: 4000, MEMORY: 1000}, True)
    assert not state_after_writes(held, NOW + 130).withdrawn
    again = decide(ABSENT, Amounts(9000, 1000), STRATEGY, held.state, NOW + 131)  # the write failed
    assert again.writes == {CPU: 4000, MEMORY: 1000}
    floor = decide(ABSENT, Amounts(9000, 1000), STRATEGY, WITHDRAWN, NOW, Amounts(2000, 0))
    assert (floor.writes, floor.returned) == ({CPU: 2000}, False)  # what running Mid pods requested does not wait


def test_enabled_again_is_no_return() -> None:
    disabled = decide(ABSENT, None, STRATEGY, WITHDRAWN, NOW + 10)
    assert decide(ABSENT, Amounts(5000, 1000), STRATEGY, disabled.state, NOW + 20).writes == BOTH


@pytest.mark.parametrize(("reason", "withdrawn"), [("Held", True), ("ReportExpired", True), ("Published", False)])
def test_reason_of_a_withdrawal(reason: str, withdrawn: bool) -> None:  # noqa: FBT001 - a row
    assert was_withdrawn(reason) is withdrawn


def test_write_is_remembered() -> None:
    """After a write the calm time starts over; of an increase the part above it goes on, the other resource's too."""
    memory = (PendingIncrease(NOW, 5),)
    state = PublishState(None, {**rising((0, 7), (1, 9)), MEMORY: memory})
    after = state_after_writes(Decision({CPU: 7}, state), NOW + 1)
    assert after == PublishState(NOW + 1, {**rising((1, 9)), MEMORY: memory})


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
def test_urgent_decreases(old: int, new: int, resource: Resource, urgent: bool) -> None:  # noqa: FBT001 - a row
    assert is_urgent(old, new, resource) is urgent


def test_threshold_is_exact() -> None:
    five = StrategyInputs.of(strategy(resourceDiffThreshold=0.05))
    assert [exceeds(*pair, five) for pair in ((20000, 21000), (20000, 21001), (0, 1))] == [False, True, True]


def published(allocatable: str | None, capacity: str = "5000") -> Json:
    made = node(mid=(capacity, "1000"))
    amounts = made["status"]["allocatable"]
    amounts |= {"kubernetes.io/mid-cpu": allocatable}
    if allocatable is None:
        del amounts["kubernetes.io/mid-cpu"]
    return made


@pytest.mark.parametrize(
    ("the_node", "cpu"),
    [
        (node(mid=("12k", "1000")), PublishedAmount(12000)),
        (node(mid=("junk", "1000")), PublishedAmount(-1)),
        (published(None), PublishedAmount(5000, consistent=False)),
        (published("0"), PublishedAmount(5000, consistent=False)),
    ],
)
def test_published_amounts_are_read(the_node: Json, cpu: PublishedAmount) -> None:
    assert published_amounts(the_node) == {CPU: cpu, MEMORY: PublishedAmount(1000)}
    assert published_amounts(node()) == published_amounts({}) == ABSENT


def test_patch_is_smallest() -> None:
    amounts = {"kubernetes.io/mid-cpu": "4000", "kubernetes.io/mid-memory": None}
    assert status_patch({CPU: 4000, MEMORY: None}) == {"status": {"capacity": amounts, "allocatable": amounts}}
    assert status_patch({CPU: 1})["status"]["capacity"] == {"kubernetes.io/mid-cpu": "1"}


NUMBER = st.integers(0, 30) | st.integers(0, 20_000) | st.sampled_from([5000, 5049, 5050, 5051, 5500, 5501])
DESIRED = st.builds(lambda cpu, memory: Amounts(cpu, memory * MIB), NUMBER, NUMBER) | st.none()
SECONDS = st.integers(0, 400) | st.sampled_from([0, 1, 60, 119, 120, 121, 299, 300, 301])
STEPS = st.lists(st.tuples(SECONDS, DESIRED), min_size=1, max_size=12)
STRATEGIES = st.builds(
    lambda hold, update, threshold: StrategyInputs.of(
        strategy(midIncreaseHoldSeconds=hold, updateTimeThresholdSeconds=update, resourceDiffThreshold=threshold / 1000)
    ),
    st.sampled_from([0, 1, 120, 3600]),
    st.sampled_from([1, 60, 300]),
    st.sampled_from([1, 50, 100, 570, 1000]),
)


@dataclass
class Writer:
    """A Node and the manager's decisions about it, each followed at once."""

    strategy: StrategyInputs
    now: float = 0.0
    published: dict[Resource, int | None] = field(default_factory=lambda: dict.fromkeys(Resource))
    state: PublishState = field(default_factory=PublishState)
    requeue_at: float | None = None
    desired: list[tuple[float, Amounts | None]] = field(default_factory=list)

    def write(self, desired: Amounts | None) -> dict[Resource, tuple[int | None, int | None]]:
        """Decide and write; return the written amounts, as (before, after)."""
        self.desired.append((self.now, desired))
        current = {resource: PublishedAmount(self.published[resource]) for resource in Resource}
        decision = decide(current, desired, self.strategy, self.state, self.now)
        written = {each: (self.published[each], number) for each, number in decision.writes.items()}
        self.state = state_after_writes(decision, self.now) if written else decision.state
        self.published |= decision.writes
        self.requeue_at = decision.requeue_at
        return written

    def held(self, resource: Resource, number: int) -> float:
        """For how long at least this much has been desired without a break. [s]"""
        since = self.now
        for moment, desired in reversed(self.desired):
            if desired is None or desired[resource] < number:
                break
            since = moment
        return self.now - since


@fuzz(strategy=STRATEGIES, steps=STEPS)
def test_increases_have_held_and_decreases_are_written_at_once(
    strategy: StrategyInputs, steps: list[tuple[int, Amounts | None]]
) -> None:
    """Only differences are written; after every step at most 1 % or 10m / 16Mi more than desired is published."""
    writer = Writer(strategy)
    for seconds, desired in steps:
        writer.now += seconds
        for resource, (before, after) in writer.write(desired).items():
            assert before != after
            assert after in {None if each is None else each[resource] for _, each in writer.desired}
            if before is not None and after is not None and after > before:
                assert writer.held(resource, after) >= strategy.increase_hold_seconds
        for resource in Resource:
            amount = writer.published[resource]
            assert (amount is None) == (desired is None)
            excess = 0 if amount is None or desired is None else amount - desired[resource]
            assert excess * 100 <= (amount or 0) or excess < SMALLEST_STEP[resource]


@fuzz(strategy=STRATEGIES, steps=STEPS, last=DESIRED)
def test_requeues_suffice(
    strategy: StrategyInputs, steps: list[tuple[int, Amounts | None]], last: Amounts | None
) -> None:
    """Reconciling when the decision says so, and at no other time, ends with the desired amount on the Node."""
    writer = Writer(strategy)
    for seconds, desired in steps:
        writer.now += seconds
        writer.write(desired)
    writer.write(last)
    began = writer.now
    for _ in range(8):
        if writer.requeue_at is None:
            break
        assert writer.requeue_at > writer.now
        writer.now = writer.requeue_at
        writer.write(last)
    assert writer.requeue_at is None
    assert writer.published == {resource: None if last is None else last[resource] for resource in Resource}
    assert writer.now - began <= 2 * strategy.increase_hold_seconds + 3 * strategy.update_seconds

"""What holds for every sequence of calculated numbers, on a clock that tests move."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from manager.inputs import Amounts, Resource, StrategyInputs
from manager.mid.publish import (
    SMALLEST_STEP,
    PublishedAmount,
    PublishState,
    decide,
    exceeds,
    is_urgent,
    state_after_writes,
)
from tests.fuzz.strength import fuzz
from tests.support.objects import strategy

MIB = 1024**2
NUMBER = st.integers(0, 30) | st.integers(0, 20_000) | st.sampled_from([5000, 5049, 5050, 5051, 5500, 5501])
DESIRED = st.builds(lambda cpu, memory: Amounts(cpu, memory * MIB), NUMBER, NUMBER) | st.none()
SECONDS = st.integers(0, 400) | st.sampled_from([0, 1, 60, 119, 120, 121, 299, 300, 301])
STEPS = st.lists(st.tuples(SECONDS, DESIRED), min_size=1, max_size=12)
STRATEGY = st.builds(
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

    in_force: StrategyInputs
    now: float = 0.0
    offered: dict[Resource, int | None] = field(default_factory=lambda: dict.fromkeys(Resource))
    state: PublishState = field(default_factory=PublishState)
    requeue_at: float | None = None
    desired: list[tuple[float, Amounts | None]] = field(default_factory=list)

    def looks(self, desired: Amounts | None) -> dict[Resource, tuple[int | None, int | None]]:
        """Decide and write; what was written, as (before, after)."""
        self.desired.append((self.now, desired))
        current = {each: PublishedAmount(self.offered[each]) for each in Resource}
        decision = decide(current, desired, self.in_force, self.state, self.now)
        written = {each: (self.offered[each], number) for each, number in decision.writes.items()}
        self.state = state_after_writes(decision, self.now) if written else decision.state
        self.offered |= decision.writes
        self.requeue_at = decision.requeue_at
        return written

    def held_since(self, resource: Resource, number: int) -> float:
        """For how long at least this much has been desired without a break. [s]"""
        since = self.now
        for moment, desired in reversed(self.desired):
            if desired is None or desired[resource] < number:
                break
            since = moment
        return self.now - since


@fuzz(in_force=STRATEGY, steps=STEPS)
def test_only_differences_are_written(in_force: StrategyInputs, steps: list[tuple[int, Amounts | None]]) -> None:
    """No number is written that the Node has already, and none that was not desired lately."""
    writer = Writer(in_force)
    for seconds, desired in steps:
        writer.now += seconds
        for resource, (before, after) in writer.looks(desired).items():
            assert before != after
            assert after in {None if each is None else each[resource] for _, each in writer.desired}


@fuzz(in_force=STRATEGY, steps=STEPS)
def test_increases_have_held(in_force: StrategyInputs, steps: list[tuple[int, Amounts | None]]) -> None:
    """What a Node is raised to has been desired, or more, for all of midIncreaseHoldSeconds."""
    writer = Writer(in_force)
    for seconds, desired in steps:
        writer.now += seconds
        for resource, (before, after) in writer.looks(desired).items():
            if before is not None and after is not None and after > before:
                assert writer.held_since(resource, after) >= in_force.increase_hold_seconds


@fuzz(in_force=STRATEGY, steps=STEPS)
def test_decreases_are_written_at_once(in_force: StrategyInputs, steps: list[tuple[int, Amounts | None]]) -> None:
    """After every look a Node has at most 1 % or 10m / 16Mi beyond what may be published, nothing when nothing may."""
    writer = Writer(in_force)
    for seconds, desired in steps:
        writer.now += seconds
        writer.looks(desired)
        for resource in Resource:
            offered = writer.offered[resource]
            if desired is None:
                assert offered is None
                continue
            assert offered is not None
            excess = offered - desired[resource]
            assert excess * 100 <= offered or excess < SMALLEST_STEP[resource]


@fuzz(in_force=STRATEGY, steps=STEPS, last=DESIRED)
def test_deadlines_suffice(
    in_force: StrategyInputs, steps: list[tuple[int, Amounts | None]], last: Amounts | None
) -> None:
    """Looking again when the decision says so, and at no other time, ends with the desired number on the Node."""
    writer = Writer(in_force)
    for seconds, desired in steps:
        writer.now += seconds
        writer.looks(desired)
    writer.looks(last)
    began = writer.now
    for _ in range(8):
        if writer.requeue_at is None:
            break
        assert writer.requeue_at > writer.now
        writer.now = writer.requeue_at
        writer.looks(last)
    assert writer.requeue_at is None
    assert writer.offered == {each: None if last is None else last[each] for each in Resource}
    assert writer.now - began <= 2 * in_force.increase_hold_seconds + 3 * in_force.update_seconds


@fuzz(in_force=STRATEGY, old=NUMBER, new=NUMBER)
def test_small_changes_wait(in_force: StrategyInputs, old: int, new: int) -> None:
    """Right after a write, a difference is written at once only if it is an urgent decrease."""
    memory, current = PublishState(written_at=0.0), {each: PublishedAmount(old * MIB) for each in Resource}
    decision = decide(current, Amounts(new * MIB, new * MIB), in_force, memory, 0.0)
    for resource in Resource:
        urgent = is_urgent(old * MIB, new * MIB, resource)
        held = new > old and in_force.increase_hold_seconds == 0 and exceeds(old * MIB, new * MIB, in_force)
        assert (resource in decision.writes) == (urgent or held)

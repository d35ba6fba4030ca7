"""The manager's next action about the difference between the number on the Node and the calculated one.

It decides with the manager's own function. Two facts are not visible from outside: since when an increase has held, and
whether so many writes came before that the next one is held back.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from manager.calculators.base import Result
from manager.inputs import Resource, StrategyInputs
from manager.mid.explanation.terms import TITLES, amount
from manager.mid.publish import PublishedAmount, PublishState, decide, exceeds, is_urgent


class Action(StrEnum):
    """The kinds of actions on a resource of the Node."""

    NOTHING = "nothing"
    WRITE = "write"  # within seconds
    HOLD = "hold"  # an increase, when it has held
    WAIT = "wait"  # a small difference, when nothing was written for some time


class Step(NamedTuple):
    """The next action of the manager about one resource."""

    resource: Resource
    action: Action
    published: int | None  # on the Node; None where it has no such resource [milli-cores, bytes]
    desired: int | None  # None removes the resource [milli-cores, bytes]
    within_seconds: float | None  # at the latest then, if nothing changes; None when there is nothing to do [s]
    reason: str  # a sentence for people; empty when there is nothing to do


_TO_BE_MENDED: Final = {resource: PublishedAmount(None, consistent=False) for resource in Resource}


def desired(result: Result, strategy: StrategyInputs) -> dict[Resource, int | None]:
    """Return the desired amounts for a Node with unusable numbers; None for no such resource."""
    return dict(decide(_TO_BE_MENDED, result.desired, strategy, PublishState(), 0.0).writes)


def steps(
    published: Mapping[Resource, PublishedAmount],
    result: Result,
    strategy: StrategyInputs,
    written_at: float | None,
    now: float,
    *,
    withdrawn: bool = False,
) -> tuple[Step, ...]:
    """A step per resource.

    Args:
        published: the amounts on the Node.
        result: of the calculation.
        strategy: the strategy in force.
        written_at: when the manager last wrote to the Node; None where that is not known. [unix s]
        now: the clock. [unix s]
        withdrawn: whether the resources were removed because reports were too old.
    """
    memory = PublishState(written_at, withdrawn=withdrawn)
    found, wanted = [], desired(result, strategy)
    for resource in Resource:
        # The other resource is taken for right, so that the answer is about this one.
        current = {key: published[key] if key is resource else PublishedAmount(wanted[key]) for key in Resource}
        decision = decide(current, result.desired, strategy, memory, now, result.requested, expired=result.expired)
        waits = resource in decision.state.pending_increases and decision.writes.get(resource) != wanted[resource]
        within: float | None = None
        if resource in decision.writes and not (waits and published[resource].consistent):
            action, within = Action.WRITE, 0.0
        elif decision.requeue_at is not None:
            within = decision.requeue_at - now
            held = waits and within <= strategy.increase_hold_seconds
            action = Action.HOLD if held else Action.WAIT
        else:
            action = Action.NOTHING
        reason = _reason(action, resource, published[resource], wanted[resource], strategy)
        if action is not Action.WRITE and resource in decision.writes:
            reason += (
                f"; up to {_shown(resource, decision.writes[resource])} at once, since running Mid pods requested it"
            )
        found.append(Step(resource, action, published[resource].amount, wanted[resource], within, reason))
    return tuple(found)


def _reason(
    action: Action, resource: Resource, published: PublishedAmount, wanted: int | None, strategy: StrategyInputs
) -> str:
    if action is Action.NOTHING:
        return ""
    change = f"the Node has {_shown(resource, published.amount)} and should have {_shown(resource, wanted)}"
    return f"{TITLES[resource]}: {change}: {_when(action, resource, published, wanted, strategy)}"


def _shown(resource: Resource, number: int | None) -> str:
    return "nothing" if number is None else amount(resource, number)


def _when(
    action: Action, resource: Resource, published: PublishedAmount, wanted: int | None, strategy: StrategyInputs
) -> str:
    held = f"has held {strategy.increase_hold_seconds}s (midIncreaseHoldSeconds)"
    calm = f"nothing was written for {strategy.update_seconds}s (updateTimeThresholdSeconds)"
    if not published.consistent:
        return "its capacity and allocatable disagree, which is put right within seconds"
    if wanted is None or published.amount is None:
        change = "is taken away" if wanted is None else "appears"
        returns = f"reports were too old, and it comes back when it {held}"
        return returns if action is Action.HOLD else f"it {change} within seconds"
    if wanted > published.amount:
        small = not exceeds(published.amount, wanted, strategy)
        later = f"so small an increase is written when it {held} and {calm}"
        later = later if small else f"an increase is written when it {held}"
        return "the increase is written within seconds" if action is Action.WRITE else later
    if action is Action.WAIT:
        return f"so small a decrease is written when {calm}"
    urgent = is_urgent(published.amount, wanted, resource)
    return "a decrease is written at once" if urgent else f"written now, since {calm}"

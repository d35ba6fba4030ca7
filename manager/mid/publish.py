"""The publish decision: which Mid resources to write to a Node, and when. Pure; the clock is an argument."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from crds.quantity import QuantityError, value
from manager.calculators.base import EXPIRED
from manager.inputs import Amounts, Resource, StrategyInputs
from manager.inputs.amounts import NOTHING
from manager.inputs.reading import get_path

Json = dict[str, Any]

HELD: Final = "Held"  # reason of condition MidPublished while an increase after expired reports has not held yet
SMALLEST_STEP: Final = Amounts(cpu=10, memory=16 * 1024 * 1024)
"""A decrease below this is never urgent. [milli-cores, bytes]"""
_URGENT_PERCENT: Final = 1


@dataclass(frozen=True, slots=True)
class PublishedAmount:
    """The amount of one Mid resource on a Node."""

    amount: int | None
    """The amount, of two that differ the larger; `None` when absent, -1 unreadable. [milli-cores, bytes]"""
    consistent: bool = True  # whether capacity and allocatable are equal


@dataclass(frozen=True, slots=True)
class PendingIncrease:
    """An increase, or a part of one, that has not held long enough yet."""

    since: float  # since when at least `lowest` has been desired without a break [s]
    lowest: int  # the lowest amount desired since then [milli-cores, bytes]


@dataclass(frozen=True, slots=True)
class PublishState:
    """The state of one node between two decisions."""

    written_at: float | None = None  # when the Node was last written; `None` counts as long ago [s]
    pending_increases: Mapping[Resource, tuple[PendingIncrease, ...]] = field(default_factory=dict)
    """Pending increases per resource: the lower the part, the longer it has held."""
    withdrawn: bool = False
    """True if the resources were removed because reports expired: then their return is an increase."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one node."""

    writes: Mapping[Resource, int | None]
    """Amounts to write now; `None` removes the resource; empty: write nothing. [milli-cores, bytes]"""
    state: PublishState
    """The state until the writes have succeeded, and if they fail; then that of `state_after_writes`."""
    requeue_at: float | None = None  # when a pending difference falls due [s]
    returned: bool = False  # whether these writes restore all that was removed because reports expired


def published_amounts(node: Mapping[str, Any]) -> dict[Resource, PublishedAmount]:
    """The amounts of the Mid resources on a Node; an unreadable amount counts as a difference."""
    lists = [get_path(node, "status", name) for name in ("capacity", "allocatable")]
    result = {}
    for resource in Resource:
        stated = [_stated(amounts, resource) for amounts in lists]
        numbers = [amount for amount in stated if amount is not None]
        result[resource] = PublishedAmount(max(numbers) if numbers else None, stated[0] == stated[1])
    return result


def _stated(amounts: object, resource: Resource) -> int | None:
    text = amounts.get(resource.mid_name) if isinstance(amounts, Mapping) else None
    try:
        return None if text is None else value(text)
    except (QuantityError, TypeError):
        return -1


def decide(
    current: Mapping[Resource, PublishedAmount],
    desired: Amounts | None,
    strategy: StrategyInputs,
    state: PublishState,
    now: float,
    allocated: Amounts = NOTHING,
    *,
    expired: bool = False,
) -> Decision:
    """Return which resources to write now, and when to reconcile again.

    At once: a resource appears or disappears; it falls by more than 1 % and at least 10m / 16Mi; it is below the
    requests of running Mid pods, up to these (under `midShrinkPolicy: floor`; nothing more is published); capacity and
    allocatable differ: both get the larger amount, or the desired one if that is below it. After it has held
    `midIncreaseHoldSeconds`: an increase above `resourceDiffThreshold`, and the return after reports expired; the
    lowest amount of that time is written. After `updateTimeThresholdSeconds` without a write: any difference, of an
    increase the part that has held. Never without a difference.

    Args:
        current: the amounts on the Node.
        desired: the amounts to publish; `None` removes the resources.
        strategy: thresholds and times.
        state: the state after the last decision.
        now: a clock that never jumps, so that nothing has held longer when the wall clock is set. [s]
        allocated: requests of running Mid pods.
        expired: whether reports have expired.
    """
    returns = state.withdrawn and not expired
    writes: dict[Resource, int | None] = {}
    pending_increases: dict[Resource, tuple[PendingIncrease, ...]] = {}
    due: list[float] = []
    for resource in Resource:
        published, target = current[resource], None if desired is None else desired[resource]
        if published.amount == target and published.consistent:
            continue
        if returns and published.amount is None and target:
            published = PublishedAmount(0)
        if published.amount is None or published.amount < 0 or target is None:
            writes[resource] = target
        elif target > published.amount:
            floor = min(allocated[resource], target) if strategy.floor else 0
            increase = _increase(
                published, target, state.pending_increases.get(resource, ()), strategy, state, now, floor
            )
            writes |= {} if increase.write is None else {resource: increase.write}
            pending_increases[resource] = increase.parts
            due += increase.due
        elif not published.consistent:
            writes[resource] = target
        else:
            when = now if is_urgent(published.amount, target, resource) else _refresh_due(strategy, state)
            if when <= now:
                writes[resource] = target
            else:
                due.append(when)
    removed = [] if desired is None else [resource for resource in Resource if current[resource].amount is None]
    remembered = replace(state, pending_increases=pending_increases, withdrawn=expired or (returns and bool(removed)))
    returned = bool(removed) and not expired and all(resource in writes for resource in removed)
    return Decision(writes, remembered, min(due, default=None), returned)


@dataclass(frozen=True, slots=True)
class _Increase:
    """An increase: what to write now, which parts are pending, and until when."""

    write: int | None
    parts: tuple[PendingIncrease, ...]
    due: list[float]


def _increase(
    published: PublishedAmount,
    target: int,
    before: tuple[PendingIncrease, ...],
    strategy: StrategyInputs,
    state: PublishState,
    now: float,
    floor: int,
) -> _Increase:
    """An increase from the published amount; `floor` is written at once."""
    amount = published.amount or 0
    parts = _pending_increases(before, amount, target, now, strategy.increase_hold_seconds)
    first = parts[0]
    if _increase_due(amount, first, strategy, state) <= now:
        after = replace(state, written_at=now)
        waiting = [_increase_due(first.lowest, part, strategy, after) for part in parts[1:]]
        return _Increase(first.lowest, parts, waiting)
    waiting = [_increase_due(amount, part, strategy, state) for part in parts]
    mended = floor > amount or not published.consistent
    return _Increase(max(amount, floor) if mended else None, parts, waiting)


def is_urgent(old: int, new: int, resource: Resource) -> bool:
    """Return whether a decrease must be written at once: 10000 -> 9899 is, 10000 -> 9900 and 900 -> 891 are not."""
    fall = old - new
    return fall * 100 > old * _URGENT_PERCENT and fall >= SMALLEST_STEP[resource]


def exceeds(old: int, new: int, strategy: StrategyInputs) -> bool:
    """Return whether an increase exceeds `resourceDiffThreshold`: with 0.05, 20000 -> 21001 does and 21000 does not."""
    return new - old > old * strategy.diff_threshold


def _pending_increases(
    before: tuple[PendingIncrease, ...], amount: int, target: int, now: float, hold: float
) -> tuple[PendingIncrease, ...]:
    """The parts of an increase, lowest first; of those that have held long enough, the highest alone."""
    since = next((pending.since for pending in before if pending.lowest >= target), now)
    parts = (*(pending for pending in before if amount < pending.lowest < target), PendingIncrease(since, target))
    held = [index for index, each in enumerate(parts) if each.since + hold <= now]
    return parts[held[-1] :] if held else parts


def _increase_due(amount: int, increase: PendingIncrease, strategy: StrategyInputs, state: PublishState) -> float:
    """An increase always holds first; one within the threshold waits for `updateTimeThresholdSeconds` too."""
    held = increase.since + strategy.increase_hold_seconds
    return held if exceeds(amount, increase.lowest, strategy) else max(held, _refresh_due(strategy, state))


def _refresh_due(strategy: StrategyInputs, state: PublishState) -> float:
    return float("-inf") if state.written_at is None else state.written_at + strategy.update_seconds


def status_patch(writes: Mapping[Resource, int | None]) -> Json:
    """The smallest merge patch of a Node's status: the same numbers in capacity and allocatable, null removes.

    kubelet copies capacity to allocatable at its next sync, and keeps allocatable when only capacity is removed.
    """
    amounts = {each.mid_name: None if number is None else str(number) for each, number in writes.items()}
    return {"status": {"capacity": dict(amounts), "allocatable": dict(amounts)}}


def was_withdrawn(reason: str | None) -> bool:
    """Return whether a reason of condition MidPublished states that the resources were removed with expired reports."""
    return reason == HELD or reason in EXPIRED


def state_after_writes(decision: Decision, now: float) -> PublishState:
    """The state after the writes of a decision: of an increase only the pending part."""
    written = {each: number or 0 for each, number in decision.writes.items()}
    pending_increases = {
        each: tuple(part for part in parts if part.lowest > written.get(each, -1))
        for each, parts in decision.state.pending_increases.items()
    }
    waiting = {each: parts for each, parts in pending_increases.items() if parts}
    withdrawn = decision.state.withdrawn and not decision.returned
    return PublishState(written_at=now, pending_increases=waiting, withdrawn=withdrawn)

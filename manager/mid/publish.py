"""What to write to a Node, and when: current against desired. Pure; the clock is an argument."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from crds.quantity import QuantityError, value
from manager.calculators.base import EXPIRED
from manager.inputs import Amounts, Resource, StrategyInputs
from manager.inputs.amounts import NOTHING
from manager.inputs.reading import get_path

Json = dict[str, Any]

HELD: Final = "Held"
"""Reason of condition MidPublished while what comes back has not held yet."""
SMALLEST_STEP: Final = Amounts(cpu=10, memory=16 * 1024 * 1024)
"""A decrease below this is never urgent. [milli-cores, bytes]"""
_URGENT_PERCENT: Final = 1


@dataclass(frozen=True, slots=True)
class PublishedAmount:
    """What a Node offers of one Mid resource now."""

    amount: int | None
    """The number, of two that differ the larger; `None` when it is not there, -1 unreadable. [milli-cores, bytes]"""
    consistent: bool = True
    """Whether capacity and allocatable say the same."""


@dataclass(frozen=True, slots=True)
class PendingIncrease:
    """An increase, or a part of one, that waits until it has held long enough."""

    since: float
    """Since when at least `lowest` has been desired without a break. [s]"""
    lowest: int
    """The lowest number desired since then: what really has held. [milli-cores, bytes]"""


@dataclass(frozen=True, slots=True)
class PublishState:
    """What the writer remembers of one node between two decisions."""

    written_at: float | None = None
    """When it last wrote to this node; `None` counts as long ago. [s]"""
    rises: Mapping[Resource, tuple[PendingIncrease, ...]] = field(default_factory=dict)
    """Increases that wait, per resource: the lower the part, the longer it has held."""
    withdrawn: bool = False
    """Whether reports that were too old have taken the resources away: then their return is an increase."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one node."""

    writes: Mapping[Resource, int | None]
    """Numbers to write now; `None` removes the resource; empty: write nothing. [milli-cores, bytes]"""
    memory: PublishState
    """What to remember until the writes have succeeded, and if they fail; then what `state_after_writes` says."""
    requeue_at: float | None = None
    """When a difference that waits falls due. [s]"""
    returned: bool = False
    """Whether these writes bring back all that was taken away because reports were too old."""


def published_amounts(node: Mapping[str, Any]) -> dict[Resource, PublishedAmount]:
    """What a Node offers of each Mid resource; an unreadable number counts as a difference."""
    lists = [get_path(node, "status", name) for name in ("capacity", "allocatable")]
    found = {}
    for resource in Resource:
        stated = [_stated(each, resource) for each in lists]
        known = [amount for amount in stated if amount is not None]
        found[resource] = PublishedAmount(max(known) if known else None, stated[0] == stated[1])
    return found


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
    memory: PublishState,
    now: float,
    allocated: Amounts = NOTHING,
    *,
    expired: bool = False,
) -> Decision:
    """Which resources to write now, and when to look again.

    At once: a resource appears or disappears; it falls by more than 1 % and at least 10m / 16Mi; it is below what
    running Mid pods bought, up to that (under `midShrinkPolicy: floor`; it sells nothing); capacity and allocatable
    disagree: both get the larger number, or the desired one if that is below it. After it has held
    `midIncreaseHoldSeconds`: an increase above `resourceDiffThreshold`, and what comes back after reports were too
    old; what is written is the lowest number of that time. After `updateTimeThresholdSeconds` without a write: any
    difference, of an increase what has held. Never without a difference.

    Args:
        current: what the Node offers.
        desired: what it should offer; `None` takes the resources away.
        strategy: thresholds and times.
        memory: what the last decision left behind.
        now: a clock that never jumps, so that nothing has held longer when the wall clock is set. [s]
        allocated: what running Mid pods request.
        expired: whether reports are too old.
    """
    returns = memory.withdrawn and not expired
    writes: dict[Resource, int | None] = {}
    rises: dict[Resource, tuple[PendingIncrease, ...]] = {}
    due: list[float] = []
    for resource in Resource:
        offer, wanted = current[resource], None if desired is None else desired[resource]
        if offer.amount == wanted and offer.consistent:
            continue
        if returns and offer.amount is None and wanted:
            offer = PublishedAmount(0)
        if offer.amount is None or offer.amount < 0 or wanted is None:
            writes[resource] = wanted
        elif wanted > offer.amount:
            kept = min(allocated[resource], wanted) if strategy.floor else 0
            rising = _increase(offer, wanted, memory.rises.get(resource, ()), strategy, memory, now, kept)
            writes |= {} if rising.write is None else {resource: rising.write}
            rises[resource] = rising.parts
            due += rising.due
        elif not offer.consistent:
            writes[resource] = wanted
        else:
            when = now if is_urgent(offer.amount, wanted, resource) else _calm_due(strategy, memory)
            if when <= now:
                writes[resource] = wanted
            else:
                due.append(when)
    away = [] if desired is None else [each for each in Resource if current[each].amount is None]
    remembered = replace(memory, rises=rises, withdrawn=expired or (returns and bool(away)))
    returned = bool(away) and not expired and all(each in writes for each in away)
    return Decision(writes, remembered, min(due, default=None), returned)


@dataclass(frozen=True, slots=True)
class _Rising:
    """What becomes of an increase: what to write now, which parts wait, and until when."""

    write: int | None
    parts: tuple[PendingIncrease, ...]
    due: list[float]


def _increase(
    offer: PublishedAmount,
    wanted: int,
    before: tuple[PendingIncrease, ...],
    strategy: StrategyInputs,
    memory: PublishState,
    now: float,
    kept: int,
) -> _Rising:
    """An increase from what is offered; `kept` is written whatever has held."""
    offered = offer.amount or 0
    parts = _rises(before, offered, wanted, now, strategy.increase_hold_seconds)
    first = parts[0]
    if _increase_due(offered, first, strategy, memory) <= now:
        after = replace(memory, written_at=now)
        waiting = [_increase_due(first.lowest, each, strategy, after) for each in parts[1:]]
        return _Rising(first.lowest, parts, waiting)
    waiting = [_increase_due(offered, each, strategy, memory) for each in parts]
    mended = kept > offered or not offer.consistent
    return _Rising(max(offered, kept) if mended else None, parts, waiting)


def is_urgent(old: int, new: int, resource: Resource) -> bool:
    """Whether a decrease must be written at once: 10000 -> 9899 is, 10000 -> 9900 and 900 -> 891 are not."""
    fall = old - new
    return fall * 100 > old * _URGENT_PERCENT and fall >= SMALLEST_STEP[resource]


def exceeds(old: int, new: int, strategy: StrategyInputs) -> bool:
    """Whether an increase is more than `resourceDiffThreshold`: with 0.05, 20000 -> 21001 is and 21000 is not."""
    return new - old > old * strategy.diff_threshold


def _rises(
    before: tuple[PendingIncrease, ...], offered: int, wanted: int, now: float, hold: float
) -> tuple[PendingIncrease, ...]:
    """The parts of an increase, lowest first; of those that have held long enough, the highest alone."""
    since = next((each.since for each in before if each.lowest >= wanted), now)
    parts = (*(each for each in before if offered < each.lowest < wanted), PendingIncrease(since, wanted))
    held = [index for index, each in enumerate(parts) if each.since + hold <= now]
    return parts[held[-1] :] if held else parts


def _increase_due(offered: int, rise: PendingIncrease, strategy: StrategyInputs, memory: PublishState) -> float:
    """An increase always holds first; one within the threshold waits for the calm deadline too."""
    held = rise.since + strategy.increase_hold_seconds
    return held if exceeds(offered, rise.lowest, strategy) else max(held, _calm_due(strategy, memory))


def _calm_due(strategy: StrategyInputs, memory: PublishState) -> float:
    return float("-inf") if memory.written_at is None else memory.written_at + strategy.update_seconds


def status_patch(writes: Mapping[Resource, int | None]) -> Json:
    """The smallest merge patch of a Node's status: the same numbers in capacity and allocatable, null removes.

    kubelet copies capacity to allocatable at its next sync, and leaves allocatable standing when only capacity goes.
    """
    amounts = {each.mid_name: None if number is None else str(number) for each, number in writes.items()}
    return {"status": {"capacity": dict(amounts), "allocatable": dict(amounts)}}


def was_withdrawn(reason: str | None) -> bool:
    """Whether a reason of condition MidPublished says that the resources were taken away for old reports."""
    return reason == HELD or reason in EXPIRED


def state_after_writes(decision: Decision, now: float) -> PublishState:
    """What to remember after the writes of a decision: of an increase only the part that still waits."""
    written = {each: number or 0 for each, number in decision.writes.items()}
    rises = {
        each: tuple(part for part in parts if part.lowest > written.get(each, -1))
        for each, parts in decision.memory.rises.items()
    }
    waiting = {each: parts for each, parts in rises.items() if parts}
    withdrawn = decision.memory.withdrawn and not decision.returned
    return PublishState(written_at=now, rises=waiting, withdrawn=withdrawn)

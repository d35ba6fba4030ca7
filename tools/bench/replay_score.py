"""How good what was published was: more than was really free, how restless, and what it was worth. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from tools.bench.replay_node import STEP_SECONDS, UNITS, ReplayedNode
from tools.bench.replay_publisher import Publisher

MINUTE: Final = 60.0
_PER_STEP: Final = int(STEP_SECONDS / MINUTE)
DAY: Final = 86_400.0
HORIZONS: Final[Mapping[str, float]] = {"now": 0.0, "15 min": 900.0, "1 h": 3600.0, "6 h": 6 * 3600.0, "24 h": DAY}
"""How far ahead it is asked what stays free, by its name. [s]"""
WARM_UP_SECONDS: Final = DAY  # this much of the beginning is not counted [s]


@dataclass(frozen=True, slots=True)
class NodeScore:
    """One resource of one variant on one node. [milli-cores or bytes]"""

    variant: str  # its name
    resource: str  # cpu or memory
    over: Mapping[str, float]
    """By horizon: the share of the time in which more was published than stayed free for so long, 0..1."""
    missing: float  # what was published and not free, on average while anything was missing; 0 if nothing ever was
    published: float  # what was published, on average
    used: float  # what the Prod pods used, on average
    allocatable: float  # what the node has for pods
    writes_per_day: float  # writes of this number to the Node
    turns_per_day: float  # how often its direction changed: a rise after a fall, or a fall after a rise


def score(
    node: ReplayedNode, publisher: Publisher, resource: str, warm_up_seconds: float = WARM_UP_SECONDS
) -> NodeScore:
    """What became of one resource on one node.

    What is free is what the Prod pods leave of the allocatable amount; for a horizon, the least of it from now on to
    then. Time is counted in minutes, from the end of the warm-up until the longest horizon before the end.

    Args:
        node: what was used there.
        publisher: what was published there.
        resource: cpu or memory.
        warm_up_seconds: how much of the beginning is left out. [s]
    """
    free = node.allocatable[resource] - node.used(resource)
    steps = {name: round(seconds / STEP_SECONDS) for name, seconds in HORIZONS.items()}
    first = round(warm_up_seconds / STEP_SECONDS)
    last = node.steps - max(steps.values())
    if last <= first:
        raise ValueError(f"{node.steps} steps leave nothing between a warm-up of {first} and the longest horizon")
    minutes = node.start + MINUTE * np.arange(first * _PER_STEP, last * _PER_STEP, dtype=np.float64)
    published = publisher.published(minutes, resource).reshape(-1, _PER_STEP)
    now = published - free[first:last, None]
    begin, end = float(minutes[0]), float(minutes[-1]) + MINUTE
    changes = _changes(publisher, resource, begin, end)
    directions = np.sign(changes[changes != 0.0])
    days = (end - begin) / DAY
    return NodeScore(
        variant=publisher.variant.name,
        resource=resource,
        over={
            name: float((published > _least(free, count)[first:last, None] + 1e-6).mean())
            for name, count in steps.items()
        },
        missing=float(now[now > 0.0].mean()) if (now > 0.0).any() else 0.0,
        published=float(published.mean()),
        used=float((node.allocatable[resource] - free)[first:last].mean()),
        allocatable=float(node.allocatable[resource]),
        writes_per_day=np.count_nonzero(changes) / days,
        turns_per_day=np.count_nonzero(np.diff(directions)) / days,
    )


def _least(free: FloatArray, ahead: int) -> FloatArray:
    """The least of what is free in each step and in so many after it, shape (T,)."""
    padded = np.append(free, np.full(ahead, np.inf))
    least: FloatArray = np.lib.stride_tricks.sliding_window_view(padded, ahead + 1).min(axis=1)
    return least


def _changes(publisher: Publisher, resource: str, begin: float, end: float) -> FloatArray:
    """By how much each write changed the number, shape (W,)."""
    times = np.array([when for when, _, _ in publisher.written])
    after = publisher.published(times, resource)
    changes: FloatArray = np.diff(after, prepend=0.0)[(times >= begin) & (times < end)]
    return changes


@dataclass(frozen=True, slots=True)
class Fleet:
    """One resource of one variant on all nodes. Shares 0..1, amounts in cores or bytes."""

    variant: str  # its name
    resource: str  # cpu or memory
    nodes: int  # how many nodes
    over: Mapping[str, float]  # by horizon: mean over the nodes
    missing: float  # mean over the nodes on which anything was missing of what was, then [cores or bytes]
    published: float  # what all nodes published together, on average [cores or bytes]
    used: float  # what all Prod pods used together, on average [cores or bytes]
    allocatable: float  # what all nodes have [cores or bytes]
    writes_per_day: float  # mean over the nodes
    turns_per_day: float  # mean over the nodes


def together(found: Sequence[NodeScore]) -> list[Fleet]:
    """The nodes' figures by variant and resource, in the order in which these come first."""
    groups: dict[tuple[str, str], list[NodeScore]] = {}
    for one in found:
        groups.setdefault((one.variant, one.resource), []).append(one)
    return [_fleet(group) for group in groups.values()]


def _fleet(group: Sequence[NodeScore]) -> Fleet:
    units = UNITS[group[0].resource]
    short = [one.missing for one in group if one.missing]
    return Fleet(
        variant=group[0].variant,
        resource=group[0].resource,
        nodes=len(group),
        over={name: float(np.mean([one.over[name] for one in group])) for name in group[0].over},
        missing=float(np.mean(short)) / units if short else 0.0,
        published=sum(one.published for one in group) / units,
        used=sum(one.used for one in group) / units,
        allocatable=sum(one.allocatable for one in group) / units,
        writes_per_day=float(np.mean([one.writes_per_day for one in group])),
        turns_per_day=float(np.mean([one.turns_per_day for one in group])),
    )

"""The node that loses least, without looking closely at nodes that cannot be it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from scheduler_plugins.preemption.fit import TOO_MANY
from scheduler_plugins.preemption.selection.candidates import LIFT, Loss, loss
from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.preemption.selection.victims import (
    QUOTA,
    Candidate,
    Misfit,
    Rejected,
    no_victims,
    select_victims,
)
from scheduler_plugins.quota.amounts import Amounts
from scheduler_plugins.quota.pod import QuotaPod

Spared: TypeAlias = Callable[[Candidate], str | None]
"""Why nobody is evicted from a node although it would help; None: they may be."""


@dataclass(slots=True)
class Found:
    """What came of looking."""

    best: Candidate | None = None
    """The candidate that loses least."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Why not, by node, where it was looked at; where there is no candidate that is everywhere."""
    crowded: set[str] = field(default_factory=set)
    """Nodes among these where the pod does not fit whoever leaves that may."""


def search(context: PreemptionContext, nodes: Iterable[str], now: float, misfit: Misfit, spared: Spared) -> Found:
    """The candidate that loses least, as if all nodes were compared.

    No node loses less than what its least important pods come to of whom enough would have to leave by numbers alone.
    In the order of that bound nodes are looked at until the bound is above the best one found. Nodes that lack room for
    the pod even with all gone who may leave are not looked at.

    Args:
        context: of the pod that found no node.
        nodes: names of the nodes that come into question.
        now: the time to judge holds by. [unix s]
        misfit: judges whether the pod fits.
        spared: says which candidates do not count.
    """
    pod, result, short = context.pod, Found(), _joined(context)
    rejected, crowded = result.rejected, result.crowded
    promising: list[tuple[Loss, str]] = []
    for node in nodes:
        possible = context.possible(node)
        if not possible:
            rejected[node] = no_victims(pod, node)
            continue
        lacking = context.lacking(node)
        too_little = [name for name, need in lacking.items() if sum(_amounts(possible, name)) < need]
        if too_little:
            crowded.add(node)
            rejected[node] = ", ".join(TOO_MANY if name == "pods" else f"Insufficient {name}" for name in too_little)
        else:
            promising.append((_least(node, possible, lacking, short), node))
    promising.sort()
    for bound, node in promising:
        if result.best is not None and bound > loss(result.best):
            break
        found = select_victims(pod, node, context.cluster, now, misfit, context)
        if isinstance(found, Rejected):
            rejected[node] = found.reason
            if found.resolvable and not found.needless and found.reason != QUOTA:
                crowded.add(node)
        elif (why_not := spared(found)) is not None:
            rejected[node] = why_not
        elif result.best is None or loss(found) < loss(result.best):
            result.best = found
    return result


def _joined(context: PreemptionContext) -> Amounts:
    """How much of the ledger those who leave have to be charged, whatever the node."""
    own, everything = context.shortage
    return {**everything, **{name: max(amount, everything.get(name, 0)) for name, amount in own.items()}}


def _amounts(pods: Iterable[QuotaPod], name: str) -> list[int]:
    """What each of some pods requests of a resource."""
    return [pod.requests.get(name, 0) for pod in pods]


def _least(node: str, possible: Sequence[QuotaPod], lacking: Amounts, short: Amounts) -> Loss:
    """What evicting there costs at least.

    As few as can free enough, from the least important end; but of so few everyone has to contribute what the largest
    of the others leave over. Or one more than that, whoever they are.
    """
    needs = [(_amounts(possible, name), need) for name, need in lacking.items()]
    needs += [([pod.charge.get(name, 0) for pod in possible], need) for name, need in short.items()]
    count, able = 1, list(range(len(possible)))
    for amounts, need in needs:
        fewest, floor = _fewest(amounts, need)
        if fewest > count:
            count, able = fewest, list(range(len(possible)))
        if fewest == count:
            able = [index for index in able if amounts[index] >= floor]
    bounds = []
    if len(able) >= count:
        bounds.append(_cost([possible[index] for index in able[:count]], node))
    if not bounds or len(possible) > count:
        bounds.append(_cost(possible[: count + 1], node))
    return min(bounds)


def _cost(pods: Sequence[QuotaPod], node: str) -> Loss:
    """The loss of the least important pods, if no budget protects them."""
    last, total = pods[-1], sum(pod.priority + LIFT for pod in pods)
    started = math.inf if last.started is None else last.started
    return 0, last.priority, total, len(pods), -started, node


def _fewest(amounts: Sequence[int], need: int) -> tuple[int, int]:
    """How many of some amounts come to what is needed at least, and how much each of so few has to contribute.

    One more than there are if all of them do not come to it.
    """
    left = need
    for count, amount in enumerate(sorted(amounts, reverse=True), 1):
        if amount >= left:
            return count, left
        left -= amount
    return len(amounts) + 1, left

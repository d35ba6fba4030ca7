"""The node that loses least, without looking closely at nodes that cannot be it."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from scheduler_plugins.quota.amounts import Amounts
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.reclaim.choosing import LIFT, Loss, loss
from scheduler_plugins.reclaim.situation import Situation
from scheduler_plugins.reclaim.victims import Candidate, Misfit, Rejected, nobody, select_victims

Spared: TypeAlias = Callable[[Candidate], str | None]
"""Why nobody is evicted from a node although it would help; None: they may be."""


def search(
    situation: Situation, nodes: Iterable[str], now: float, misfit: Misfit, spared: Spared
) -> tuple[Candidate | None, dict[str, str]]:
    """The candidate that loses least, as if all nodes were compared.

    No node loses less than what its least important pods come to of whom enough would have to leave by numbers alone.
    In the order of that bound nodes are looked at until the bound is above the best one found.

    Args:
        situation: of the pod that found no node.
        nodes: names of the nodes that come into question.
        now: the time to judge holds by. [unix s]
        misfit: judges whether the pod fits.
        spared: says which candidates do not count.

    Returns:
        The candidate, and by node why not, where it was looked at; where there is no candidate that is everywhere.
    """
    pod, rejected = situation.pod, {}
    short = _joined(situation)
    promising: list[tuple[Loss, str]] = []
    for node in nodes:
        possible = situation.possible(node)
        if possible:
            promising.append((_least(situation, node, possible, short), node))
        else:
            rejected[node] = nobody(pod, node)
    promising.sort()
    best: Candidate | None = None
    for bound, node in promising:
        if best is not None and bound > loss(best):
            break
        found = select_victims(pod, node, situation.cluster, now, misfit, situation)
        if isinstance(found, Rejected):
            rejected[node] = found.reason
        elif (why_not := spared(found)) is not None:
            rejected[node] = why_not
        elif best is None or loss(found) < loss(best):
            best = found
    return best, rejected


def _joined(situation: Situation) -> Amounts:
    """How much of the ledger those who leave have to be charged, whatever the node."""
    own, everything = situation.shortage
    return {**everything, **{name: max(amount, everything.get(name, 0)) for name, amount in own.items()}}


def _least(situation: Situation, node: str, possible: Sequence[QuotaPod], short: Amounts) -> Loss:
    """What evicting there costs at least.

    As few as can free enough, from the least important end; but of so few everyone has to contribute what the largest
    of the others leave over. Or one more than that, whoever they are.
    """
    needs = [([pod.requests.get(name, 0) for pod in possible], need) for name, need in situation.lacking(node).items()]
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

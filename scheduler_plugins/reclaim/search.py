"""The node that loses least, without looking closely at nodes that cannot be it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    short = {name: amount for name, amount in situation.shortage().items() if amount > 0}
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


def _least(situation: Situation, node: str, possible: Sequence[QuotaPod], short: Amounts) -> Loss:
    """What evicting there costs at least: that of as few as can free enough, taken from the least important end."""
    count = max(
        _fewest([pod.requests for pod in possible], situation.lacking(node)),
        _fewest([pod.charge for pod in possible], short),
        1,
    )
    cheapest = possible[: min(count, len(possible))]
    last, total = cheapest[-1], sum(pod.priority + LIFT for pod in cheapest)
    started = float("inf") if last.started is None else last.started
    return 0, last.priority, total, len(cheapest), -started, node


def _fewest(amounts: Sequence[Amounts], needed: Mapping[str, int]) -> int:
    """How many of them come to what is needed at least; one more than there are if all of them do not."""
    most = 0
    for name, need in needed.items():
        count, left = 0, need
        for amount in sorted((each.get(name, 0) for each in amounts), reverse=True):
            if left <= 0:
                break
            count, left = count + 1, left - amount
        most = max(most, count if left <= 0 else len(amounts) + 1)
    return most

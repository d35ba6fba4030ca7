"""Which pods have to leave for a pod that found no node: the node that loses least, or several nodes together."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from scheduler_plugins.preemption.fit import TOO_MANY
from scheduler_plugins.preemption.selection.context import BudgetsRule, Freed, PreemptionContext, importance
from scheduler_plugins.preemption.selection.victims import (
    LIFT,
    QUOTA,
    Candidate,
    Loss,
    Misfit,
    Rejected,
    all_possible_victims,
    arithmetic,
    ineligible,
    loss,
    no_victims,
    pick,
    select_victims,
)
from scheduler_plugins.quota.amounts import Amounts
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod

Spared: TypeAlias = Callable[[Candidate], str | None]
"""Why nobody is evicted from a node although it would help; None: they may be."""


@dataclass(slots=True)
class Found:
    """What came of looking."""

    best: Candidate | None = None  # the candidate that loses least
    rejected: dict[str, str] = field(default_factory=dict)
    """Why not, by node, where it was looked at; where there is no candidate that is everywhere."""
    crowded: set[str] = field(default_factory=set)
    """Nodes among these where the pod does not fit whoever leaves that may."""


def search(context: PreemptionContext, nodes: Iterable[str], misfit: Misfit, spared: Spared) -> Found:
    """The candidate that loses least, as if all nodes were compared.

    No node loses less than what its least important pods come to of whom enough would have to leave by numbers alone.
    In the order of that bound nodes are looked at until the bound is above the best one found. Nodes that lack room for
    the pod even with all gone who may leave are not looked at.
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
        found = select_victims(context, node, misfit)
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


TRIED: Final = 32  # how many nodes are tried that others have to leave before the pod fits there [nodes]

_Queues: TypeAlias = Mapping[str, Sequence[tuple[tuple[float, ...], QuotaPod]]]
_Order: TypeAlias = Callable[[QuotaPod], tuple[float, ...]]


def combine(
    context: PreemptionContext, nodes: Iterable[str], misfit: Misfit, budgets_rule: BudgetsRule = BudgetsRule.RESPECT
) -> Candidate | None:
    """Who has to leave, on the node where the pod goes and elsewhere; None: that does not help either.

    First those leave a node who are in the way there, if anybody is; then, wherever they are, those whose quota is
    needed, and at last everybody comes back who can. Whom a PodDisruptionBudget protects leaves after all others, then
    whoever has the least priority; among equals those leave who have run for the shortest time or, if that is fewer of
    them, those who free most. Of several nodes the one is taken that loses least, as always.
    """
    names, (own, everything) = sorted(nodes), context.shortage
    if not names or not (own or everything) or (own and not context.beyond_min):
        return None  # no quota is lacking, or what others leave is not counted to it
    search = _Combining(context, misfit, budgets_rule)
    return search.anywhere(names) or search.with_freed_resources(names)


class _Combining:
    def __init__(self, context: PreemptionContext, misfit: Misfit, rule: BudgetsRule) -> None:
        self._context = context
        self._misfit = misfit
        self._rule = rule
        needed = {**context.shortage[0], **context.shortage[1]}
        giving = [pod for node in context.cluster.nodes for pod in context.possible(node) if _gives(pod, needed)]
        giving.sort(key=importance, reverse=True)
        protected, _ = context.budgets.split(giving)
        self._protected = {pod.uid for pod in (*protected, *context.budgets.refuse(giving))}
        rank = {pod.uid: index for index, pod in enumerate(giving)}
        orders: Sequence[_Order] = (
            lambda pod: (*self._first(pod), rank[pod.uid]),
            lambda pod: (*self._first(pod), -_share(pod, needed), rank[pod.uid]),
        )
        self._queues = [_queues(giving, order) for order in orders]

    def _first(self, pod: QuotaPod) -> tuple[float, ...]:
        """Who is leaving anyway, then whom nothing protects, then who has the least priority."""
        return not pod.terminating, pod.uid in self._protected, pod.priority

    def anywhere(self, nodes: Sequence[str]) -> Candidate | None:
        """The candidate in which the pod fits where nobody is in its way but those whose quota is needed."""
        found = []
        for queues in self._queues:
            victims = self._for_quota(queues, ())
            if victims:
                gone = {*self._context.going, *(victim.uid for victim in victims)}
                fits = (node for node in nodes if self._misfit(node, gone) is None)
                if (node := next(fits, None)) is not None:
                    found.append(self._candidate(node, victims))
        return _best(found)

    def with_freed_resources(self, nodes: Sequence[str]) -> Candidate | None:
        """The candidate in which others have to leave first where the pod goes."""
        local = ((node, victims) for node in nodes if (victims := self._in_the_way(node)))
        cheapest = heapq.nsmallest(TRIED, local, key=lambda each: self._cost(each[1]))
        found = []
        for node, there in cheapest:
            for queues in self._queues:
                victims = self._for_quota(queues, there)
                if victims:
                    found.append(self._candidate(node, victims))
        return _best(found)

    def _cost(self, victims: Sequence[QuotaPod]) -> tuple[float, ...]:
        protected = sum(victim.uid in self._protected for victim in victims)
        return protected, max(victim.priority for victim in victims), len(victims)

    def _candidate(self, node: str, victims: Sequence[QuotaPod]) -> Candidate | None:
        """None where budgets protect some of them, and hold."""
        budgets, ordered = self._context.budgets, sorted(victims, key=importance)
        if self._rule is BudgetsRule.RESPECT and budgets.refuse(ordered):
            return None
        return Candidate(node, tuple(ordered), len(budgets.split(ordered)[0]))

    def _in_the_way(self, node: str) -> list[QuotaPod]:
        """Who has to leave a node so that the pod fits there, whatever its quota; nobody if it never does."""
        context = self._context
        potential, _ = all_possible_victims(context, node)
        gone = {*context.going, *(pod.uid for pod in potential)}
        if not potential or self._misfit(node, gone) is not None:
            return []
        protected, others = context.budgets.split(potential[::-1])
        victims = []
        for pod in (*protected, *others):
            gone.remove(pod.uid)
            if self._misfit(node, gone) is not None:
                gone.add(pod.uid)
                victims.append(pod)
        return victims

    def _for_quota(self, queues: _Queues, there: Sequence[QuotaPod]) -> list[QuotaPod]:
        """These, and as many more as have to leave for the sake of quotas; nobody if that does not suffice."""
        freed, known = Freed(self._context), {pod.uid for pod in there}
        for pod in there:
            freed.take(pod)
        taken: list[QuotaPod] = []
        for pod in self._in_turn(queues, freed):
            if freed.suffices():
                break
            if pod.uid not in known and freed.is_helped_by(pod):
                freed.take(pod)
                taken.append(pod)
        if not freed.suffices():
            return []
        victims = list(there)
        for pod in sorted(taken, key=lambda pod: (pod.uid not in self._protected, *importance(pod))):
            freed.give(pod)
            if not freed.suffices():
                freed.take(pod)
                victims.append(pod)
        return victims

    def _in_turn(self, queues: _Queues, freed: Freed) -> Iterator[QuotaPod]:
        """Pods in their order, each namespace's only as long as it uses more than is guaranteed to it."""
        heads = [(queue[0][0], namespace, 0) for namespace, queue in queues.items()]
        heapq.heapify(heads)
        while heads:
            _, namespace, index = heads[0]
            queue = queues[namespace]
            pod = queue[index][1]
            if not self._context.is_possible_victim(pod, freed):
                heapq.heappop(heads)
                continue
            if index + 1 < len(queue):
                heapq.heapreplace(heads, (queue[index + 1][0], namespace, index + 1))
            else:
                heapq.heappop(heads)
            yield pod


def _queues(pods: Iterable[QuotaPod], order: _Order) -> _Queues:
    queues: dict[str, list[tuple[tuple[float, ...], QuotaPod]]] = {}
    for pod in pods:
        queues.setdefault(pod.namespace, []).append((order(pod), pod))
    for queue in queues.values():
        queue.sort(key=lambda each: each[0])
    return queues


def _gives(pod: QuotaPod, needed: Amounts) -> bool:
    return any(pod.charge.get(name) for name in needed)


def _share(pod: QuotaPod, needed: Amounts) -> float:
    """How much of what is needed a pod gives: of each resource at most all of it."""
    return sum(min(pod.charge.get(name, 0) / need, 1) for name, need in needed.items())


def _best(found: Iterable[Candidate | None]) -> Candidate | None:
    candidates = [candidate for candidate in found if candidate is not None]
    return pick(candidates) if candidates else None


NOBODY: Final = "run no pod that may be evicted for it"  # how nodes are told of that nobody may be evicted from
NOWHERE: Final[Mapping[str, str]] = MappingProxyType({})  # no node is refused
_TOLD: Final = 4


@dataclass(frozen=True, slots=True)
class Decision:
    """Who has to leave."""

    node: str  # where the pod is to go
    victims: tuple[QuotaPod, ...]  # who has to leave, the most important first; with `cross_node` from other nodes, too
    violations: int  # how many of them a PodDisruptionBudget protects [pods]
    cross_node: bool  # whether some of them are on other nodes
    arithmetic: str  # why they and not others: one sentence with the numbers


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nobody is to leave."""

    reason: str  # why, one sentence for people
    rejected: Mapping[str, str]  # why not, by node, where it was looked at


def decide(  # noqa: PLR0913 - all but what is decided about by name
    pod: QuotaPod,
    cluster: QuotaCluster,
    now: float,
    misfit: Misfit,
    *,
    cross_node: bool = False,
    nodes: Iterable[str] | None = None,
    budgets_rule: BudgetsRule = BudgetsRule.RESPECT,
    nominated_status: str | None = None,
    refused: Mapping[str, str] = NOWHERE,
) -> Decision | Undecided:
    """Who has to leave for a pod that found no node.

    Nobody leaves where the pod could go without that, or once those are gone who were evicted for others; nor where it
    would be refused all the same for room that others have a claim to.
    """
    if (reason := ineligible(pod, cluster, now, nominated_status)) is not None:
        return Undecided(reason, {})
    context = PreemptionContext.of(pod, cluster, now)
    names = list(cluster.nodes if nodes is None else nodes)
    if context.admitted:
        roomy = next((name for name in names if misfit(name, context.going) is None), None)
        if roomy is not None:
            return Undecided(f"node {roomy} has room for it without evicting anybody else", {})
    found = search(context, names, misfit, lambda each: _spared(context, each, budgets_rule))
    best = found.best
    if best is None and cross_node:
        best = combine(context, [name for name in names if name not in found.crowded], misfit, budgets_rule)
    if best is None:
        rejected = {**found.rejected, **refused}
        return Undecided(_in_short(rejected), rejected)
    elsewhere = any(victim.node != best.node for victim in best.victims)
    # A node's count is that of the worst case, in which everybody who may leave would; where budgets hold it is none.
    violations = 0 if budgets_rule is BudgetsRule.RESPECT else best.violations
    return Decision(best.node, best.victims, violations, elsewhere, arithmetic(context, best.victims))


def _spared(context: PreemptionContext, candidate: Candidate, rule: BudgetsRule) -> str | None:
    """Why nobody is evicted from a node although it would help; None: they may be."""
    if not candidate.admitted:
        return "its quota would refuse it all the same: others have a claim to what is freed"
    if rule is BudgetsRule.RESPECT and (protected := context.budgets.refuse(candidate.victims)):
        return f"PodDisruptionBudgets protect {', '.join(victim.key for victim in protected)}"
    return None


def _in_short(rejected: Mapping[str, str]) -> str:
    """Why no eviction helps, counted over the nodes."""
    counts = Counter(NOBODY if reason.startswith("No victims found") else reason for reason in rejected.values())
    told = ", ".join(f"{count} {reason}" for reason, count in counts.most_common(_TOLD))
    more = f", and {len(counts) - _TOLD} other reasons" if len(counts) > _TOLD else ""
    return f"no eviction helps on any of {len(rejected)} nodes: {told}{more}" if rejected else "there is no node"

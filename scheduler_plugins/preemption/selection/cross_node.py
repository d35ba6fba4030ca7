"""Victims on several nodes, where no single node frees enough quota."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from scheduler_plugins.preemption.selection.budgets import BudgetsRule
from scheduler_plugins.preemption.selection.candidates import pick
from scheduler_plugins.preemption.selection.context import Freed, PreemptionContext, importance
from scheduler_plugins.preemption.selection.victims import Candidate, Misfit, all_possible_victims
from scheduler_plugins.quota.amounts import Amounts
from scheduler_plugins.quota.pod import QuotaPod

TRIED: Final = 32
"""How many nodes are tried that others have to leave before the pod fits there. [nodes]"""

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

    Args:
        context: of the pod that found no node.
        nodes: names of the nodes that come into question for it: where it fits if all leave that may.
        misfit: judges whether the pod fits.
        budgets_rule: what PodDisruptionBudgets mean.
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
                fits = (node for node in nodes if self._misfit(self._context.pod, node, gone) is None)
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
        if not potential or self._misfit(context.pod, node, gone) is not None:
            return []
        protected, others = context.budgets.split(potential[::-1])
        victims = []
        for pod in (*protected, *others):
            gone.remove(pod.uid)
            if self._misfit(context.pod, node, gone) is not None:
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

"""Which pods PodDisruptionBudgets protect from eviction."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from headroom.cluster.selector import matches
from scheduler_plugins.quota.budget import Budget
from scheduler_plugins.quota.pod import QuotaPod


class BudgetsRule(StrEnum):
    """What a PodDisruptionBudget means to those who take resources back."""

    RESPECT = "respect"
    """Nobody is evicted whom one protects."""
    COUNT = "count"
    """The fewer it protects the better, as kube-scheduler's own preemption has it."""


class Budgets:
    """The budgets of a cluster, as they are at one moment.

    Args:
        budgets: all of them.
    """

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._of: dict[str, list[Budget]] = {}
        self._known: dict[tuple[str, int], tuple[Mapping[str, str], Sequence[Budget]]] = {}
        for budget in budgets:
            self._of.setdefault(budget.namespace, []).append(budget)

    def split(self, pods: Sequence[QuotaPod]) -> tuple[list[QuotaPod], list[QuotaPod]]:
        """Those whose eviction would violate a budget, and the others, if all were evicted in this order.

        As kube-scheduler counts: a budget without any requirement is about no pod, and who is known to be disrupted
        does not count again.
        """
        left: dict[str, int] = {}
        protected: list[QuotaPod] = []
        others: list[QuotaPod] = []
        for pod in pods:
            violates = False
            for budget in self._about(pod):
                if pod.name not in budget.disrupted and not budget.everybody:
                    left[budget.uid] = left.get(budget.uid, budget.allowed) - 1
                    violates = violates or left[budget.uid] < 0
            (protected if violates else others).append(pod)
        return protected, others

    def refuse(self, pods: Iterable[QuotaPod]) -> list[QuotaPod]:
        """Those of the pods that the Eviction API would refuse to evict if it were asked for all of them.

        That is where a budget is used up, and of pods that several budgets are about, of which it evicts none. Who is
        ending already need not be evicted.
        """
        left: dict[str, int] = {}
        refused = []
        for pod in pods:
            about = () if pod.terminating else self._about(pod)
            for budget in about:
                left[budget.uid] = left.get(budget.uid, budget.allowed) - 1
            if len(about) > 1 or any(left[budget.uid] < 0 for budget in about):
                refused.append(pod)
        return refused

    def _about(self, pod: QuotaPod) -> Sequence[Budget]:
        """The budgets that are about a pod; the labels of pods that are alike are one object, so it is remembered."""
        if not pod.labels or pod.namespace not in self._of:
            return ()
        known = self._known.get((pod.namespace, id(pod.labels)))
        if known is not None:
            return known[1]
        found = [budget for budget in self._of[pod.namespace] if budget_is_about(budget, pod)]
        self._known[pod.namespace, id(pod.labels)] = pod.labels, found
        return found


def budget_is_about(budget: Budget, pod: QuotaPod) -> bool:
    """Whether a budget is about a pod; one without a selector is about none."""
    return (
        budget.namespace == pod.namespace
        and (bool(budget.selector) or budget.everybody)
        and matches(budget.selector, pod.labels)
    )

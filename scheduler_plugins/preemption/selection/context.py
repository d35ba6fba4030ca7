"""The inputs of a decision that are equal on every node: requests, possible victims, usage, budgets."""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headroom.cluster.selector import matches
from scheduler_plugins.quota.admission import demands
from scheduler_plugins.quota.amounts import (
    NOTHING,
    Amounts,
    aggregated_over_min_with,
    minus,
    over_max_with,
    over_min,
    over_min_with,
    plus,
)
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.objects import Budget
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota

_FOR_EVER: Final = math.inf


class BudgetsRule(StrEnum):
    """The rule for PodDisruptionBudgets in reclaiming."""

    RESPECT = "respect"  # a protected pod is not evicted
    COUNT = "count"  # the fewer it protects the better, as kube-scheduler's own preemption has it


class Budgets:
    """The budgets of a cluster, as they are at one moment."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._of: dict[str, list[Budget]] = {}
        self._known: dict[tuple[str, int], tuple[Mapping[str, str], Sequence[Budget]]] = {}
        for budget in budgets:
            self._of.setdefault(budget.namespace, []).append(budget)

    def split(self, pods: Sequence[QuotaPod]) -> tuple[list[QuotaPod], list[QuotaPod]]:
        """Split pods by whether their eviction would violate a budget, if all were evicted in this order.

        As kube-scheduler counts: a budget without any requirement is about no pod, and a pod recorded as disrupted
        does not count again.
        """
        left: dict[str, int] = {}
        protected: list[QuotaPod] = []
        other_pods: list[QuotaPod] = []
        for pod in pods:
            violates = False
            for budget in self._about(pod):
                if pod.name not in budget.disrupted and not budget.selects_all:
                    left[budget.uid] = left.get(budget.uid, budget.allowed) - 1
                    violates = violates or left[budget.uid] < 0
            (protected if violates else other_pods).append(pod)
        return protected, other_pods

    def refuse(self, pods: Iterable[QuotaPod]) -> list[QuotaPod]:
        """Return the pods that the Eviction API would refuse to evict if all of them were requested.

        That is where a budget is used up, and of pods that several budgets are about, of which it evicts none. A
        terminating pod needs no eviction.
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
        """Return the budgets that select a pod; pods with equal labels share the object, so it is cached."""
        if not pod.labels or pod.namespace not in self._of:
            return ()
        cached = self._known.get((pod.namespace, id(pod.labels)))
        if cached is not None:
            return cached[1]
        result = [budget for budget in self._of[pod.namespace] if budget_is_about(budget, pod)]
        self._known[pod.namespace, id(pod.labels)] = pod.labels, result
        return result


def budget_is_about(budget: Budget, pod: QuotaPod) -> bool:
    """Return whether a budget is about a pod; one without a selector is about none."""
    return (
        budget.namespace == pod.namespace
        and (bool(budget.selector) or budget.selects_all)
        and matches(budget.selector, pod.labels)
    )


def importance(pod: QuotaPod) -> tuple[float, float, str, str]:
    """Sorts pods, the most important first: by priority, then by how long they have been running.

    One that has not started counts as started now. Names decide between pods that are equally important.
    """
    return -pod.priority, _FOR_EVER if pod.started is None else pod.started, pod.namespace, pod.name


class ReleasedUsage:
    """The usage without some pods, changed in place.

    Usage only falls below the present one, so it is enough to know how far those amounts have to fall that are too
    high now.
    """

    __slots__ = ("_context", "_of", "_total")

    def __init__(self, context: "PreemptionContext") -> None:
        self._context = context
        self._of: dict[str, dict[str, int]] = {}
        self._total: dict[str, int] = {}

    def take(self, pod: QuotaPod) -> None:
        self._add(pod, 1)

    def give(self, pod: QuotaPod) -> None:
        self._add(pod, -1)

    def _add(self, pod: QuotaPod, sign: int) -> None:
        freed, total = self._of.setdefault(pod.namespace, {}), self._total
        for name, amount in pod.charge.items():
            freed[name] = freed.get(name, 0) + sign * amount
            total[name] = total.get(name, 0) + sign * amount

    def is_over_min(self, namespace: str) -> bool:
        """Return whether a namespace that lends still uses more than is guaranteed to it."""
        return _is_short(self._context.lenders[namespace], self._of.get(namespace, NOTHING))

    def suffices(self, *, nominations: bool = True) -> bool:
        """Return whether the pod's quota, and the sum of all, would let it through."""
        own, everything = self._context.shortage if nominations else self._context.own_shortage
        if own and _is_short(own, self._of.get(self._context.pod.namespace, NOTHING)):
            return False
        return not (everything and _is_short(everything, self._total))


def _is_short(shortage: Amounts, freed: Amounts) -> bool:
    return any(freed.get(name, 0) < amount for name, amount in shortage.items())


@dataclass(frozen=True, slots=True)
class PreemptionContext:
    """A pod that found no node, and the cluster at that moment."""

    pod: QuotaPod  # the pod
    cluster: QuotaCluster  # the cluster
    quota: Quota | None  # of the pod's namespace
    beyond: Sequence[str]
    """The requested resources of which the pod's namespace would use more than is guaranteed to it."""
    going: AbstractSet[str]
    """Uids of pods that were evicted for others which are not bound yet: their resources are reserved already."""
    used: Mapping[str, Amounts]
    """Usage of namespaces without the terminating victims, and without the pod, where that makes a difference."""
    lenders: Mapping[str, Amounts]
    """Namespaces other than the pod's that use more than is guaranteed to them, and how much more of what."""
    shortage: tuple[Amounts, Amounts]
    """The part that must be freed: of the pod's namespace below its max, and of all below the sum of min."""
    own_shortage: tuple[Amounts, Amounts]  # the same without other claims
    budgets: Budgets  # PodDisruptionBudgets

    @classmethod
    def of(cls, pod: QuotaPod, cluster: QuotaCluster, now: float) -> "PreemptionContext":
        """The present state."""
        ledger = cluster.ledger
        quota, used, total = ledger.quota(pod.namespace), dict[str, Amounts](), ledger.total_used
        own, everything = demands(pod, ledger, cluster.nominations(now))
        going = frozenset(_going(pod, cluster, now))
        away = [charge for uid in (pod.uid, *going) if (charge := ledger.charge_of(uid)) is not None]
        for charge in away:
            used[charge.namespace] = minus(used.get(charge.namespace, ledger.used(charge.namespace)), charge.amounts)
            if ledger.quota(charge.namespace) is not None:
                total = minus(total, charge.amounts)
        lenders, at_home = {}, used.get(pod.namespace, ledger.used(pod.namespace))
        for lender in ledger.in_force:
            uses = used.get(lender.namespace, ledger.used(lender.namespace))
            if lender.namespace != pod.namespace and (over := over_min(uses, lender.min, ledger.total_min)):
                lenders[lender.namespace] = {name: uses.get(name, 0) - lender.min.get(name, 0) for name in over}

        def shortage(before: Amounts, all_before: Amounts) -> tuple[Amounts, Amounts]:
            if quota is None:
                return NOTHING, NOTHING
            names, least = over_max_with(before, quota.max, pod.charge), ledger.total_min
            mine = {name: before.get(name, 0) + pod.charge[name] - quota.max[name] for name in names}
            names = aggregated_over_min_with(all_before, least, pod.charge)
            return mine, {name: all_before.get(name, 0) + pod.charge[name] - least[name] for name in names}

        before = minus(plus(at_home, own), pod.charge)
        return cls(
            pod=pod,
            cluster=cluster,
            quota=quota,
            beyond=() if quota is None else over_min_with(before, quota.min, pod.charge, ledger.total_min),
            going=going,
            used=used,
            lenders=lenders,
            shortage=shortage(before, minus(plus(total, everything), pod.charge)),
            own_shortage=shortage(at_home, total),
            budgets=Budgets(cluster.budgets),
        )

    def used_by(self, namespace: str) -> Amounts:
        """Return the usage of a namespace, without terminating victims."""
        return self.used.get(namespace, self.cluster.ledger.used(namespace))

    @property
    def beyond_min(self) -> bool:
        """Return whether the pod is not guaranteed all that it requests: then its namespace takes from itself alone."""
        return bool(self.beyond)

    @property
    def admitted(self) -> bool:
        return ReleasedUsage(self).suffices()

    def possible(self, node: str) -> list[QuotaPod]:
        """Return the possible victims on a node, in ascending priority.

        For a pod without a quota: pods of lower priority without one. For one within its guaranteed amounts:
        those of other namespaces that use more than their guaranteed amounts. Else: pods of lower
        priority of its own namespace. Static pods cannot be victims, and pods of a scheduling group only if all of it,
        on any node, can.
        """
        pod, ledger, there = self.pod, self.cluster.ledger, self.cluster.on_node(node).values()
        if self.quota is None:
            result = [peer for peer in there if peer.priority < pod.priority and ledger.quota(peer.namespace) is None]
        elif self.beyond_min:
            in_namespace = (other for other in there if other.namespace == pod.namespace and not other.static)
            result = [other for other in in_namespace if other.priority < pod.priority]
        else:
            result = [pod for pod in there if pod.namespace in self.lenders and not pod.static]
        if self.going:
            result = [pod for pod in result if pod.uid not in self.going]
        result = [pod for pod in result if not pod.group or all(map(self._may_be_victim, self.unit(pod)))]
        if len(result) > 1:
            result.sort(key=importance, reverse=True)
        return result

    def unit(self, pod: QuotaPod) -> Sequence[QuotaPod]:
        """Return the pods that are evicted together with a pod: its scheduling group, on all nodes."""
        return [member for member in self.cluster.members(pod) if member.uid not in self.going]

    def _may_be_victim(self, other: QuotaPod) -> bool:
        pod, less = self.pod, other.priority < self.pod.priority
        if self.quota is None:
            return less and self.cluster.ledger.quota(other.namespace) is None
        if other.static:
            return False
        return less and other.namespace == pod.namespace if self.beyond_min else other.namespace in self.lenders

    def is_possible_victim(self, other: QuotaPod, freed: ReleasedUsage) -> bool:
        """Return whether one of these may still be evicted after others: a namespace keeps its guaranteed amounts."""
        return self.quota is None or self.beyond_min or freed.is_over_min(other.namespace)


def _going(pod: QuotaPod, cluster: QuotaCluster, now: float) -> list[str]:
    """Return the pods evicted for others; a pod's own hold does not show its present needs."""
    holds = [holder.hold for holder in cluster.holding(now) if holder.hold is not None and holder.uid != pod.uid]
    uids = {uid for hold in holds for uid in hold.victims}
    return [uid for uid in uids if uid in cluster.pods and cluster.pods[uid].counted]

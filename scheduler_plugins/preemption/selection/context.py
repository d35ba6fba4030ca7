"""What is the same on every node when room is looked for: what a pod asks for, who may go, what is used."""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from scheduler_plugins.preemption.selection.budgets import Budgets
from scheduler_plugins.quota.admission import demands
from scheduler_plugins.quota.amounts import NOTHING, Amounts, minus
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.comparison import aggregated_over_min_with, over_max_with, over_min, over_min_with
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota

_FOR_EVER: Final = math.inf


def importance(pod: QuotaPod) -> tuple[float, float, str, str]:
    """Sorts pods, the most important first: by priority, then by how long they have been running.

    One that has not started counts as started now. Names decide between pods that are equally important.
    """
    return -pod.priority, _FOR_EVER if pod.started is None else pod.started, pod.namespace, pod.name


class Freed:
    """What the ledger would be relieved of by taking pods away, to be changed at will.

    Usage only ever falls below what it is now, so it is enough to know how far those amounts have to fall that are too
    high now.

    Args:
        context: how things are.
    """

    __slots__ = ("_context", "_of", "_total")

    def __init__(self, context: "PreemptionContext") -> None:
        self._context = context
        self._of: dict[str, dict[str, int]] = {}
        self._total: dict[str, int] = {}

    def take(self, pod: QuotaPod) -> None:
        """A pod is taken away."""
        self._add(pod, 1)

    def give(self, pod: QuotaPod) -> None:
        """A pod is put back."""
        self._add(pod, -1)

    def _add(self, pod: QuotaPod, sign: int) -> None:
        freed, total = self._of.setdefault(pod.namespace, {}), self._total
        for name, amount in pod.charge.items():
            freed[name] = freed.get(name, 0) + sign * amount
            total[name] = total.get(name, 0) + sign * amount

    def is_over_min(self, namespace: str) -> bool:
        """Whether a namespace that lends still uses more than is guaranteed to it."""
        return _is_short(self._context.lenders[namespace], self._of.get(namespace, NOTHING))

    def suffices(self, *, nominations: bool = True) -> bool:
        """Whether the pod's quota, and the sum of all, would let it through.

        Args:
            nominations: whether room that others have a claim to counts, too.
        """
        own, everything = self._context.shortage if nominations else self._context.own_shortage
        if own and _is_short(own, self._of.get(self._context.pod.namespace, NOTHING)):
            return False
        return not (everything and _is_short(everything, self._total))

    def is_helped_by(self, pod: QuotaPod) -> bool:
        """Whether a pod is charged anything of what there is still too much of."""
        own, everything = self._context.shortage
        freed = self._of.get(pod.namespace, NOTHING)
        if pod.namespace == self._context.pod.namespace and _helps(pod.charge, own, freed):
            return True
        return _helps(pod.charge, everything, self._total)


def _helps(charge: Amounts, shortage: Amounts, freed: Amounts) -> bool:
    return any(charge.get(name, 0) > 0 and freed.get(name, 0) < amount for name, amount in shortage.items())


def _is_short(shortage: Amounts, freed: Amounts) -> bool:
    return any(freed.get(name, 0) < amount for name, amount in shortage.items())


@dataclass(frozen=True, slots=True)
class PreemptionContext:
    """One pod that found no node, and the cluster at that moment."""

    pod: QuotaPod
    """The pod."""
    cluster: QuotaCluster
    """The cluster."""
    quota: Quota | None
    """Of the pod's namespace."""
    own: Amounts
    """What the pod asks for together with claims of its namespace (A)."""
    everything: Amounts
    """The same with claims of all namespaces (B)."""
    beyond_min: bool
    """Whether the pod's namespace would use more than is guaranteed to it: then it can only take from itself."""
    going: AbstractSet[str]
    """Uids of pods that were evicted for others who have not come yet: their room is free already, and spoken for."""
    used: Mapping[str, Amounts]
    """What namespaces use without those that are going, and without the pod, where that makes a difference."""
    lenders: Mapping[str, Amounts]
    """Namespaces other than the pod's that use more than is guaranteed to them, and how much more of what."""
    shortage: tuple[Amounts, Amounts]
    """How much of what has to be freed: of the pod's namespace below its max, and of all below the sum of min."""
    own_shortage: tuple[Amounts, Amounts]
    """The same if nobody else had a claim."""
    budgets: Budgets
    """PodDisruptionBudgets."""

    @classmethod
    def of(cls, pod: QuotaPod, cluster: QuotaCluster, now: float) -> "PreemptionContext":
        """How things are.

        Args:
            pod: a pod that found no node.
            cluster: the cluster.
            now: the time to judge holds by. [unix s]
        """
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
            if lender.namespace != pod.namespace and (over := over_min(uses, lender.min)):
                lenders[lender.namespace] = {name: uses.get(name, 0) - lender.min.get(name, 0) for name in over}

        def shortage(own: Amounts, everything: Amounts) -> tuple[Amounts, Amounts]:
            if quota is None:
                return NOTHING, NOTHING
            names = over_max_with(at_home, quota.max, own)
            mine = {name: at_home.get(name, 0) + own.get(name, 0) - quota.max.get(name, 0) for name in names}
            least, names = ledger.total_min, aggregated_over_min_with(total, ledger.total_min, everything)
            return mine, {name: total.get(name, 0) + everything.get(name, 0) - least.get(name, 0) for name in names}

        return cls(
            pod=pod,
            cluster=cluster,
            quota=quota,
            own=own,
            everything=everything,
            beyond_min=quota is not None and bool(over_min_with(at_home, quota.min, own)),
            going=going,
            used=used,
            lenders=lenders,
            shortage=shortage(own, everything),
            own_shortage=shortage(pod.charge, pod.charge),
            budgets=Budgets(cluster.budgets),
        )

    def used_by(self, namespace: str) -> Amounts:
        """What a namespace uses, without those that are going."""
        return self.used.get(namespace, self.cluster.ledger.used(namespace))

    @property
    def admitted(self) -> bool:
        """Whether the quota lets the pod through as things are."""
        return Freed(self).suffices()

    def possible(self, node: str) -> list[QuotaPod]:
        """Who may leave a node while nobody has left, the least important first.

        For a pod without a quota: pods of lower priority that have none either. For one that stays within what is
        guaranteed to it: those of other namespaces that use more than is guaranteed to them. Else: pods of lower
        priority of its own namespace. Static pods make no room by leaving.
        """
        pod, ledger, there = self.pod, self.cluster.ledger, self.cluster.on_node(node).values()
        if self.quota is None:
            found = [each for each in there if each.priority < pod.priority and ledger.quota(each.namespace) is None]
        elif self.beyond_min:
            own = (each for each in there if each.namespace == pod.namespace and not each.static)
            found = [each for each in own if each.priority < pod.priority]
        else:
            found = [each for each in there if each.namespace in self.lenders and not each.static]
        if self.going:
            found = [each for each in found if each.uid not in self.going]
        if len(found) > 1:
            found.sort(key=importance, reverse=True)
        return found

    def is_possible_victim(self, other: QuotaPod, freed: Freed) -> bool:
        """Whether one of these may still leave once others have: a namespace keeps what is guaranteed to it."""
        return self.quota is None or self.beyond_min or freed.is_over_min(other.namespace)

    def lacking(self, node: str) -> dict[str, int]:
        """How much room a node lacks for the pod at least, by what bound pods request; what is enough is left out."""
        has, taken = self.cluster.nodes[node].allocatable, self.cluster.requested(node)
        lacking = {}
        for name, amount in self.pod.requests.items():
            missing = amount + taken.get(name, 0) - has.get(name, 0)
            if amount and missing > 0:
                lacking[name] = missing
        if lacking and self.going:
            for uid in self.going & self.cluster.on_node(node).keys():
                requests = self.cluster.on_node(node)[uid].requests
                lacking = {name: amount - requests.get(name, 0) for name, amount in lacking.items()}
        return lacking


def _going(pod: QuotaPod, cluster: QuotaCluster, now: float) -> list[str]:
    """Who was evicted for others; a pod's own hold says nothing about what it needs now."""
    holds = [holder.hold for holder in cluster.holding(now) if holder.hold is not None and holder.uid != pod.uid]
    uids = {uid for hold in holds for uid in hold.victims}
    return [uid for uid in uids if uid in cluster.pods and cluster.pods[uid].counted]

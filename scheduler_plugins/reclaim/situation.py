"""What is the same on every node when room is looked for: what a pod asks for, who may go, what is used."""

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from scheduler_plugins.quota.admission import demands
from scheduler_plugins.quota.amounts import Amounts
from scheduler_plugins.quota.book import QuotaBook
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.comparing import aggregated_over_min_with, over_max_with, over_min, over_min_with
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota
from scheduler_plugins.reclaim.budgets import Budgets

_FOR_EVER: Final = math.inf


def importance(pod: QuotaPod) -> tuple[float, float, str, str]:
    """Sorts pods, the most important first: by priority, then by how long they have been running.

    One that has not started counts as started now. Names decide between pods that are equally important.
    """
    return -pod.priority, _FOR_EVER if pod.started is None else pod.started, pod.namespace, pod.name


class Usage:
    """What is used, to be changed at will: the ledger itself stays as it is.

    Args:
        book: the ledger.
    """

    __slots__ = ("_book", "_total", "_used")

    def __init__(self, book: QuotaBook) -> None:
        self._book = book
        self._used: dict[str, dict[str, int]] = {}
        self._total = dict(book.total_used)

    def copy(self) -> "Usage":
        """Another one."""
        other = Usage(self._book)
        other._used = {namespace: dict(used) for namespace, used in self._used.items()}
        other._total = dict(self._total)
        return other

    def used(self, namespace: str) -> Amounts:
        """What a namespace uses."""
        return self._used.get(namespace) or self._book.used(namespace)

    @property
    def total(self) -> Amounts:
        """What all namespaces with a quota use."""
        return self._total

    def take(self, namespace: str, amounts: Amounts) -> None:
        """A pod is taken away."""
        self._add(namespace, amounts, -1)

    def give(self, namespace: str, amounts: Amounts) -> None:
        """A pod is put back."""
        self._add(namespace, amounts, 1)

    def _add(self, namespace: str, amounts: Amounts, sign: int) -> None:
        if self._book.quota(namespace) is None:
            return
        used = self._used.get(namespace)
        if used is None:
            used = self._used[namespace] = dict(self._book.used(namespace))
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + sign * amount
            self._total[name] = self._total.get(name, 0) + sign * amount

    def is_over_min(self, namespace: str) -> bool:
        """Whether a namespace has a quota and uses more than that guarantees."""
        quota = self._book.quota(namespace)
        return quota is not None and bool(over_min(self.used(namespace), quota.min))


@dataclass(frozen=True, slots=True)
class Situation:
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
    budgets: Budgets
    """PodDisruptionBudgets."""
    lenders: AbstractSet[str]
    """Namespaces that use more than is guaranteed to them, other than the pod's."""
    _usage: Usage
    """Without those that are going, and without what the pod itself may be charged."""

    @classmethod
    def of(cls, pod: QuotaPod, cluster: QuotaCluster, now: float) -> "Situation":
        """How things are.

        Args:
            pod: a pod that found no node.
            cluster: the cluster.
            now: the time to judge holds by. [unix s]
        """
        book = cluster.book
        quota = book.quota(pod.namespace)
        own, everything = demands(pod, book, cluster.claims(now))
        usage = Usage(book)
        if (charged := book.charge_of(pod.uid)) is not None:
            usage.take(charged.namespace, charged.amounts)
        going = frozenset(_going(pod, cluster, now))
        for uid in going:
            usage.take(cluster.pods[uid].namespace, cluster.pods[uid].charge)
        beyond_min = quota is not None and bool(over_min_with(usage.used(pod.namespace), quota.min, own))
        lenders = frozenset(name for name in book.namespaces if name != pod.namespace and usage.is_over_min(name))
        budgets = Budgets(cluster.budgets)
        return cls(pod, cluster, quota, own, everything, beyond_min, going, budgets, lenders, usage)

    def usage(self) -> Usage:
        """What is used, to be changed at will."""
        return self._usage.copy()

    def possible(self, node: str) -> list[QuotaPod]:
        """Who may leave a node while nobody has left, the least important first.

        For a pod without a quota: pods of lower priority that have none either. For one that stays within what is
        guaranteed to it: those of other namespaces that use more than is guaranteed to them. Else: pods of lower
        priority of its own namespace.
        """
        pod, book, there = self.pod, self.cluster.book, self.cluster.on_node(node).values()
        if self.quota is None:
            found = [each for each in there if each.priority < pod.priority and book.quota(each.namespace) is None]
        elif self.beyond_min:
            found = [each for each in there if each.namespace == pod.namespace and each.priority < pod.priority]
        else:
            found = [each for each in there if each.namespace in self.lenders]
        if self.going:
            found = [each for each in found if each.uid not in self.going]
        if len(found) > 1:
            found.sort(key=importance, reverse=True)
        return found

    def may_go(self, other: QuotaPod, usage: Usage) -> bool:
        """Whether one of these may still leave once others have: a namespace keeps what is guaranteed to it."""
        return self.quota is None or self.beyond_min or usage.is_over_min(other.namespace)

    def exceeds(self, usage: Usage, own: Amounts, everything: Amounts) -> bool:
        """Whether the pod would be refused with these demands: by its max, or by the sum of all min."""
        if self.quota is None:
            return False
        used = usage.used(self.pod.namespace)
        if over_max_with(used, self.quota.max, own):
            return True
        return bool(aggregated_over_min_with(usage.total, self.cluster.book.total_min, everything))

    def is_refused(self, usage: Usage) -> bool:
        """Whether the pod would be refused, claims of others included."""
        return self.exceeds(usage, self.own, self.everything)

    def shortage(self) -> dict[str, int]:
        """How much of the ledger evictions have to free, as far as evictions can; amounts below 1: nothing.

        Of the pod's own max where its own namespace gives, else of the sum of all min.
        """
        if self.quota is None:
            return {}
        total, least = self._usage.total, self.cluster.book.total_min
        names = {*total, *self.everything}
        found = {name: total.get(name, 0) + self.everything.get(name, 0) - least.get(name, 0) for name in names}
        if self.beyond_min:
            used, most = self._usage.used(self.pod.namespace), self.quota.max
            for name in {*used, *self.own} & most.keys():
                found[name] = max(found.get(name, 0), used.get(name, 0) + self.own.get(name, 0) - most[name])
        return found

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

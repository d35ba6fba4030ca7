"""Fit of a pod on nodes, with the pods that have resources reserved there."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from scheduler_plugins.quota.amounts import NOTHING, Amounts, minus, over_min_with, plus
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod


def holders_before(pod: QuotaPod, cluster: QuotaCluster, now: float) -> Mapping[str, Sequence[QuotaPod]]:
    """By node, the pods with a reservation that this one may not displace."""
    result = {}
    for node, holders in cluster.holding_on(now).items():
        before = [holder for holder in holders if holder.uid != pod.uid and is_before(holder, pod, cluster)]
        if before and node in cluster.nodes:
            result[node] = before
    return result


def is_before(holder: QuotaPod, pod: QuotaPod, cluster: QuotaCluster) -> bool:
    """Return whether a pod may not displace another one with a reservation.

    That holds without a higher priority, and for a pod that would borrow, while the other one's namespace gets its
    guaranteed amounts: else the replacement of an important borrower would take them back, again and again.
    """
    if holder.priority >= pod.priority:
        return True
    guaranteed = cluster.ledger.quota(holder.namespace) is not None and holder.namespace != pod.namespace
    return guaranteed and _borrows(pod, cluster) and not _borrows(holder, cluster)


def _borrows(pod: QuotaPod, cluster: QuotaCluster) -> bool:
    """Return whether a pod's namespace would exceed its min with it."""
    ledger = cluster.ledger
    quota, used, charged = ledger.quota(pod.namespace), ledger.used(pod.namespace), ledger.charge_of(pod.uid)
    if charged is not None:
        used = minus(used, charged.amounts)
    return quota is not None and bool(over_min_with(used, quota.min, pod.charge, ledger.total_min))


def crowded(pod: QuotaPod, cluster: QuotaCluster, before: Mapping[str, Sequence[QuotaPod]]) -> AbstractSet[str]:
    """Return the nodes of these on which a pod does not fit beside all that are before it.

    The pods that were evicted for them count as gone. The requests of pods that may be bound
    there count as taken.
    """
    if not before:
        return frozenset()
    coming: dict[str, list[QuotaPod]] = {node: [] for node in before}
    for each, nodes in cluster.on_their_way:
        for node in before.keys() & nodes:
            coming[node].append(each)
    return {node for node, holders in before.items() if not _fits(pod, cluster, node, holders, coming[node])}


def _fits(
    pod: QuotaPod, cluster: QuotaCluster, node: str, holders: Sequence[QuotaPod], coming: Iterable[QuotaPod]
) -> bool:
    there = cluster.on_node(node)
    evicted = {uid for holder in holders if holder.hold is not None for uid in holder.hold.victims}
    gone = _requests(there[uid] for uid in evicted if uid in there)
    held = {holder.uid for holder in holders}
    coming_pods = (coming_pod for coming_pod in coming if coming_pod.uid not in held and coming_pod.uid != pod.uid)
    reserved = plus(_requests(holders), _requests(coming_pods))
    has, taken = cluster.nodes[node].allocatable, cluster.requested(node)
    return all(
        amount <= has.get(name, 0) - taken.get(name, 0) + gone.get(name, 0) - reserved.get(name, 0)
        for name, amount in pod.requests.items()
        if amount and not cluster.ignored.outside(name, has)
    )


def _requests(pods: Iterable[QuotaPod]) -> Amounts:
    total: Amounts = NOTHING
    for pod in pods:
        total = plus(total, pod.requests)
    return total

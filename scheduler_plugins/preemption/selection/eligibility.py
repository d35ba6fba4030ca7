"""Whether a pod may have others evicted for it now."""

from typing import Final

from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod

NEVER: Final = "not eligible due to preemptionPolicy=Never."
"""The pod does not want to."""
WAITING: Final = "not eligible due to a terminating pod on the nominated node."
"""Somebody is leaving for it already, as far as can be told."""
LEAVING: Final = "not eligible due to pods that are leaving for it already."
"""kube-scheduler has evicted them."""
UNRESOLVABLE: Final = "UnschedulableAndUnresolvable"
"""kube-scheduler's word for a node that the pod cannot go to, whoever leaves."""


def ineligible(pod: QuotaPod, cluster: QuotaCluster, now: float, nominated_status: str | None = None) -> str | None:
    """Why a pod may not have others evicted for it now; None: it may. As upstream's CapacityScheduling judges.

    Args:
        pod: the pod.
        cluster: the cluster.
        now: the time to judge holds by. [unix s]
        nominated_status: what kube-scheduler found of the node that the pod is nominated to; None: nothing.
    """
    if pod.never_preempts:
        return NEVER
    if cluster.preemption_grants.leaving(pod.uid, cluster.pods, now):
        return LEAVING
    if not pod.nominated or nominated_status == UNRESOLVABLE or pod.nominated not in cluster.nodes:
        return None
    ledger, context = cluster.ledger, PreemptionContext.of(pod, cluster, now)
    for other in cluster.on_node(pod.nominated).values():
        if not other.terminating:
            continue
        less = other.priority < pod.priority
        if context.quota is None:
            waiting = less and ledger.quota(other.namespace) is None
        elif other.namespace == pod.namespace:
            waiting = less
        else:
            waiting = not context.beyond_min and ledger.is_over_min(other.namespace)
        if waiting:
            return WAITING
    return None

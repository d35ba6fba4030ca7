"""The account of quotas as JSON, for who wants to see what admission goes by."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler_plugins.quota.amounts import UNLIMITED, Amounts
from scheduler_plugins.quota.reporting import quantity

if TYPE_CHECKING:
    from scheduler_plugins.quota.cluster import QuotaCluster


def described(cluster: "QuotaCluster", now: float) -> dict[str, Any]:
    """Quotas in force and what is charged to them, pods on their way, claims and holds; amounts are quantities.

    Args:
        cluster: the account.
        now: the time to judge holds by. [unix s]
    """
    book = cluster.book
    return {
        "totalMin": _texts(book.total_min),
        "totalUsed": _texts(book.total_used),
        "quotas": {
            quota.namespace: {
                "name": quota.name,
                "min": _texts(quota.min),
                "max": _texts({name: amount for name, amount in quota.max.items() if amount < UNLIMITED}),
                "used": _texts(book.used(quota.namespace)),
                "bound": _texts(book.bound(quota.namespace)),
                "overMin": book.is_over_min(quota.namespace),
                "notInForce": [other.name for other in book.passed_over(quota.namespace)],
            }
            for quota in sorted(book.in_force, key=lambda each: each.namespace)
        },
        "onTheirWay": {
            pod.key: {"uid": pod.uid, "nodes": sorted(nodes), "charged": _texts(pod.charge)}
            for pod, nodes in cluster.on_their_way
        },
        "inDoubt": len(cluster.doubts),
        "claims": {
            cluster.pods[claim.uid].key: {
                "uid": claim.uid,
                "priority": claim.priority,
                "node": claim.node,
                "charge": _texts(claim.charge),
            }
            for claim in cluster.claims(now)
        },
        "holds": {
            pod.key: {
                "node": pod.hold.node,
                "until": pod.hold.until,
                "victims": list(pod.hold.victims),
                "attempt": pod.hold.attempt,
            }
            for pod in cluster.holding(now)
            if pod.hold is not None
        },
    }


def _texts(amounts: Amounts) -> Mapping[str, str]:
    return {name: quantity(name, amount) for name, amount in amounts.items()}

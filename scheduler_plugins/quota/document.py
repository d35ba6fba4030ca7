"""The account of quotas as JSON, for who wants to see what admission goes by."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from scheduler_plugins.quota.amounts import UNLIMITED, Amounts, quantity
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.nominations import Nomination
from scheduler_plugins.quota.pod import QuotaPod


def charges(ledger: QuotaLedger) -> dict[str, Any]:
    """Quotas in force and what is charged to them; amounts are quantities."""
    return {
        "totalMin": _texts(ledger.total_min),
        "totalUsed": _texts(ledger.total_used),
        "quotas": {
            quota.namespace: {
                "name": quota.name,
                "min": _texts(quota.min),
                "max": _texts({name: amount for name, amount in quota.max.items() if amount < UNLIMITED}),
                "used": _texts(ledger.used(quota.namespace)),
                "bound": _texts(ledger.bound(quota.namespace)),
                "overMin": ledger.is_over_min(quota.namespace),
                "notInForce": [other.name for other in ledger.passed_over(quota.namespace)],
            }
            for quota in sorted(ledger.in_force, key=lambda each: each.namespace)
        },
    }


def on_their_way(pods: Iterable[tuple[QuotaPod, AbstractSet[str]]]) -> dict[str, Any]:
    """Pods that were answered for, by `namespace/name`, with the nodes of the answer."""
    return {pod.key: {"uid": pod.uid, "nodes": sorted(nodes), "charged": _texts(pod.charge)} for pod, nodes in pods}


def nominations(of: Iterable[Nomination], pods: Mapping[str, QuotaPod]) -> dict[str, Any]:
    """Claims by the `namespace/name` of the pod that has them."""
    return {
        pods[nomination.uid].key: {
            "uid": nomination.uid,
            "priority": nomination.priority,
            "node": nomination.node,
            "charge": _texts(nomination.charge),
        }
        for nomination in of
    }


def holds(pods: Iterable[QuotaPod]) -> dict[str, Any]:
    """Holds by the `namespace/name` of the pod for which room is held."""
    return {
        pod.key: {
            "node": pod.hold.node,
            "until": pod.hold.until,
            "victims": list(pod.hold.victims),
            "attempt": pod.hold.attempt,
        }
        for pod in pods
        if pod.hold is not None
    }


def _texts(amounts: Amounts) -> Mapping[str, str]:
    return {name: quantity(name, amount) for name, amount in amounts.items()}

"""Checks of `quota verify`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from crds.quantity import QuantityError
from scheduler_plugins.api import (
    CORE,
    NOTHING,
    UNLIMITED,
    Amounts,
    Quota,
    QuotaCluster,
    amounts_of,
    claimed_devices,
    is_counted,
    is_extended,
    plus,
    quantity,
)

_ALL: Final = "all quotas"


class Level(StrEnum):
    """The severity."""

    WRONG = "wrong"  # something is not as it should be: the command ends with 1
    NOTE = "note"  # it may well be wanted


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding."""

    level: Level  # how bad it is
    check: str  # which check found it: status, capacity, bounds, several, over-max, unbounded or devices
    quota: str  # `namespace/name`, or another subject
    text: str  # the fault with its numbers, and the way out


def check(cluster: QuotaCluster) -> list[Finding]:
    """Everything that is found, the worst first, then by quota.

    Args:
        cluster: quotas, pods and nodes.
    """
    result = [*_over_capacity(cluster)]
    for quota in sorted(cluster.ledger.in_force, key=lambda each: each.namespace):
        result += [*_status(cluster, quota, _said(cluster, quota)), *_bounds(quota), *_over_max(cluster, quota)]
        if (pods := cluster.devices.uncounted(quota.namespace)) and quota.names_devices:
            result.append(Finding(Level.NOTE, "devices", quota.key, claimed_devices(pods)))
        result += [
            Finding(
                Level.WRONG,
                "several",
                passed_over.key,
                f"is not in force, because {quota.key} is older and a namespace has one quota: delete one of them",
            )
            for passed_over in cluster.ledger.passed_over(quota.namespace)
        ]
    return sorted(result, key=lambda each: each.level is not Level.WRONG)


def _said(cluster: QuotaCluster, quota: Quota) -> Mapping[str, Any]:
    return (cluster.quota_objects.get(quota.uid) or {}).get("status") or {}


def _status(cluster: QuotaCluster, quota: Quota, status: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare `status.used` with the pods of the namespace."""
    stated = status.get("used")
    if stated is None:
        yield Finding(
            Level.WRONG,
            "status",
            quota.key,
            "has no status.used: the extender that leads writes it; does one run, and does its profile list "
            "CapacityScheduling?",
        )
        return
    try:
        texts: Amounts = amounts_of(stated)
    except QuantityError as error:
        yield Finding(Level.WRONG, "status", quota.key, f"status.used cannot be read: {error}")
        return
    right = cluster.ledger.bound(quota.namespace)
    for name in _names(quota, texts, right):
        if texts.get(name, 0) != right.get(name, 0):
            numbers = f"{name} {_text(name, texts)}, but the pods of the namespace sum to {_text(name, right)}"
            yield Finding(Level.WRONG, "status", quota.key, f"status.used has {numbers}")


def _over_capacity(cluster: QuotaCluster) -> Iterator[Finding]:
    """Compare the sum of all min with the nodes' allocatable."""
    has: Amounts = NOTHING
    for node in cluster.nodes.values():
        has = plus(has, node.allocatable)
    least = cluster.ledger.total_min
    for name in _in_order(least):
        unstated = is_extended(name) and not has.get(name, 0)  # Dynamic Resource Allocation may provide it
        if least[name] > has.get(name, 0) and not unstated:
            texts = f"of {name} all min together are {_text(name, least)}, and the nodes have {_text(name, has)}"
            yield Finding(
                Level.WRONG,
                "capacity",
                _ALL,
                f"{texts}: the sum of min exceeds the cluster's capacity; lower min, or add nodes",
            )


def _bounds(quota: Quota) -> Iterator[Finding]:
    for name in _in_order(quota.min):
        if quota.min[name] > quota.max.get(name, UNLIMITED):
            texts = f"min of {name}, {_text(name, quota.min)}, is more than max, {_text(name, quota.max)}"
            yield Finding(Level.WRONG, "bounds", quota.key, f"{texts}: min can never be used")
    for name in quota.uncounted:
        yield Finding(Level.NOTE, "unbounded", quota.key, f"names {name}, which pods do not request: it has no effect")


def _over_max(cluster: QuotaCluster, quota: Quota) -> Iterator[Finding]:
    used = cluster.ledger.bound(quota.namespace)
    for name in _in_order(used):
        if used[name] > quota.max.get(name, UNLIMITED):
            texts = f"uses {_text(name, used)} of {name}, and max is {_text(name, quota.max)}"
            yield Finding(Level.NOTE, "over-max", quota.key, f"{texts}: no pod is evicted for that, new pods wait")


def _names(quota: Quota, *amounts: Amounts) -> list[str]:
    return _in_order(
        {
            *(name for name in quota.named if is_counted(name)),
            *(name for amount in amounts for name in amount if quota.concerns(name)),
        }
    )


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (CORE.index(name) if name in CORE else len(CORE), name))


def _text(name: str, amounts: Amounts) -> str:
    return quantity(name, amounts.get(name, 0))

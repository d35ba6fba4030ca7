"""Pods bound beyond a quota's max: without the extender, or by another scheduler. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_plugins.quota.amounts import NOTHING, UNLIMITED, Amounts, plus, quantity
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota
from scheduler_plugins.snapshot.units import unix_time


@dataclass(frozen=True, slots=True)
class OverMaxUsage:
    """A namespace with a charge of bound pods above its quota's max."""

    quota: Quota  # its quota in force
    pods: Sequence[QuotaPod]
    """The pods that make it so and were bound since the quota was last changed, the least important and last first."""


def excess(quota: Quota, bound: Amounts) -> dict[str, int]:
    """By how much the charge of bound pods is above a quota's max. [milli-cores for cpu, else base units]"""
    over = {name: amount - quota.max.get(name, UNLIMITED) for name, amount in bound.items()}
    return {name: amount for name, amount in over.items() if amount > 0}


def sentences(quota: Quota, bound: Amounts) -> list[str]:
    """The same for people: "cpu: its pods have 6, max is 5"."""
    return [
        f"{name}: its pods have {quantity(name, bound[name])}, max is {quantity(name, bound[name] - amount)}"
        for name, amount in excess(quota, bound).items()
    ]


def over_max_usage(
    ledger: QuotaLedger, pods: Iterable[QuotaPod], quota_objects: Mapping[str, Mapping[str, Any]]
) -> list[OverMaxUsage]:
    """Return all such namespaces; pods are read only where there is one.

    A max that was lowered below the usage affects no earlier pod: pods bound before that are not among the pods.
    """
    over = {
        quota.namespace: (quota, more)
        for quota in ledger.in_force
        if (more := excess(quota, ledger.bound(quota.namespace)))
    }
    if not over:
        return []
    since = {name: _changed_at(quota_objects.get(quota.uid) or {}) for name, (quota, _) in over.items()}
    there: dict[str, list[QuotaPod]] = {name: [] for name in over}
    for pod in pods:
        if pod.namespace in there and pod.charged:
            there[pod.namespace].append(pod)
    return [OverMaxUsage(quota, _last(there[name], more, since[name])) for name, (quota, more) in over.items()]


def _last(pods: list[QuotaPod], more: Amounts, since: float) -> list[QuotaPod]:
    """Return the pods without which it would be within max; terminating ones count as gone.

    Of a scheduling group it is all of them, or none.
    """
    left, result, groups = dict(more), list[QuotaPod](), dict[str, list[QuotaPod]]()
    ordered = sorted(pods, key=lambda pod: (not pod.terminating, pod.priority, -_bound_at(pod), pod.key))
    for pod in ordered:
        groups.setdefault(pod.group or pod.uid, []).append(pod)
    for unit in groups.values():
        charge: Amounts = NOTHING
        for pod in unit:
            charge = plus(charge, pod.charge)
        helps = any(left.get(name, 0) > 0 and amount > 0 for name, amount in charge.items())
        if not helps or not all(pod.terminating or _bound_at(pod) > since for pod in unit):
            continue
        left = {name: amount - charge.get(name, 0) for name, amount in left.items()}
        result += [pod for pod in unit if not pod.terminating]
    return result


def _bound_at(pod: QuotaPod) -> float:
    """Return when its kubelet took it, at the latest when it was created before that. [unix s]"""
    return pod.created if pod.started is None else pod.started


def _changed_at(quota: Mapping[str, Any]) -> float:
    """Return when the spec of a quota was last written; its creation where that is unknown. [unix s]"""
    metadata = quota.get("metadata") or {}
    times = [metadata.get("creationTimestamp")]
    times += [
        field.get("time") for field in metadata.get("managedFields") or () if field.get("subresource") != "status"
    ]
    return max((unix_time(time) or 0.0 for time in times if time), default=0.0)

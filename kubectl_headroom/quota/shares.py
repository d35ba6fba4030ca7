"""Shares of quotas: per quota and resource the guaranteed, used, borrowed, lent and pending amounts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler_plugins.api import (
    CORE,
    NOTHING,
    UNLIMITED,
    Amounts,
    Quota,
    QuotaCluster,
    QuotaLedger,
    QuotaPod,
    is_counted,
    plus,
)


@dataclass(frozen=True, slots=True)
class Share:
    """A resource of a quota, or of all together. [milli-cores for cpu, else base units]"""

    resource: str  # its name
    min: int | None  # guaranteed; None: no quota guarantees any of it, so that the sum of min does not limit it
    used: int  # what admission charges for pods that are bound
    max: int | None  # never exceeded; None: not limited
    borrowed: int  # used beyond min; 0 without a min in any quota
    lent: int
    """The part of the unused min that others have borrowed. Several lenders lend in proportion to that."""
    pending: int  # requests of its pending pods
    left: int | None  # how much more it may take now, by its max and the sum of min; None: no limit


@dataclass(frozen=True, slots=True)
class QuotaShares:
    """A quota in force."""

    quota: Quota  # the quota
    shares: tuple[Share, ...]  # by resource: cpu, memory and ephemeral-storage first, the others by name
    pending_pods: int  # how many of its pods are not bound [pods]


def all_shares(cluster: QuotaCluster) -> tuple[list[QuotaShares], list[Share]]:
    """The shares of every quota in force, by namespace; and of all together."""
    ledger = cluster.ledger
    waiting: dict[str, list[QuotaPod]] = {}
    for pod in cluster.pods.values():
        if waits(pod):
            waiting.setdefault(pod.namespace, []).append(pod)
    quotas = sorted(ledger.in_force, key=lambda quota: quota.namespace)
    used = {quota.namespace: ledger.used(quota.namespace) for quota in quotas}
    pending = {quota.namespace: _sum(pod.charge for pod in waiting.get(quota.namespace, ())) for quota in quotas}
    names = {quota.namespace: _names(quota, used[quota.namespace], pending[quota.namespace]) for quota in quotas}
    resource_names = _in_order({name for resources in names.values() for name in resources})
    lent = {name: lending(name, quotas, used) for name in resource_names}
    result = []
    for quota in quotas:
        namespace = quota.namespace
        shares = tuple(
            _share(name, quota, ledger, lent[name][namespace], pending[namespace]) for name in names[namespace]
        )
        result.append(QuotaShares(quota, shares, len(waiting.get(namespace, ()))))
    return result, [_total(name, result, ledger) for name in resource_names]


def waits(pod: QuotaPod) -> bool:
    """Return whether a pod waits for a node: it is not bound, not being deleted, and not gated."""
    return pod.live and not pod.node and not pod.terminating and not pod.gated


def lending(resource: str, quotas: Iterable[Quota], used: Mapping[str, Amounts]) -> dict[str, int]:
    """Return what each namespace lends of a resource; together at most the borrowed and the spare amount.

    A borrowed amount has no single lender, so each lends in proportion to its spare amount.

    Args:
        resource: its name.
        quotas: all in force.
        used: by namespace.
    """
    over = {quota.namespace: used[quota.namespace].get(resource, 0) - quota.min.get(resource, 0) for quota in quotas}
    borrowed = sum(max(0, amount) for amount in over.values())
    spare = {namespace: max(0, -amount) for namespace, amount in over.items()}
    total = sum(spare.values())
    if borrowed >= total:
        return spare
    parts = {namespace: divmod(amount * borrowed, total) for namespace, amount in spare.items()}
    result = {namespace: whole for namespace, (whole, _) in parts.items()}
    # What rounding down left over goes, one by one, to the largest remainders.
    largest = sorted(parts, key=lambda namespace: (-parts[namespace][1], namespace))
    for namespace in largest[: borrowed - sum(result.values())]:
        result[namespace] += 1
    return result


def _share(name: str, quota: Quota, ledger: QuotaLedger, lent: int, pending: Amounts) -> Share:
    least, most = quota.min.get(name, 0), quota.max.get(name, UNLIMITED)
    used, guaranteed = ledger.used(quota.namespace).get(name, 0), name in ledger.total_min
    borrowed = max(0, used - least) if guaranteed else 0
    bound = None if most >= UNLIMITED else most
    left = _left(name, ledger, most - used)
    return Share(name, least if guaranteed else None, used, bound, borrowed, lent, pending.get(name, 0), left)


def _total(name: str, listed: Iterable[QuotaShares], ledger: QuotaLedger) -> Share:
    parts = [share for quota_share in listed for share in quota_share.shares if share.resource == name]
    borrowed, lent, pending = (sum(getattr(part, which) for part in parts) for which in ("borrowed", "lent", "pending"))
    least, used = ledger.total_min.get(name), ledger.total_used.get(name, 0)
    return Share(name, least, used, None, borrowed, lent, pending, _left(name, ledger, UNLIMITED))


def _left(name: str, ledger: QuotaLedger, by_max: int) -> int | None:
    """Return how much more may be charged: the least of the rest of a max and that of the sum of min.

    Args:
        name: the resource.
        ledger: the charges.
        by_max: the rest of the max; without a max, half of `UNLIMITED` or more.
    """
    rest = ledger.total_min.get(name, UNLIMITED) - ledger.total_used.get(name, 0)
    result = min(by_max, rest)
    return None if result >= UNLIMITED // 2 else max(0, result)


def _names(quota: Quota, used: Amounts, pending: Amounts) -> list[str]:
    concerned = {
        name for amounts in (used, pending) for name, amount in amounts.items() if amount and quota.concerns(name)
    }
    return _in_order({*(name for name in quota.named if is_counted(name)), *concerned})


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (CORE.index(name) if name in CORE else len(CORE), name))


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total: Amounts = NOTHING
    for amount in amounts:
        total = plus(total, amount)
    return total

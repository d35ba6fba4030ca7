"""Shares of quotas: per quota and resource the guaranteed, used, borrowed, lent and pending amounts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler_plugins.api import CORE, NOTHING, UNLIMITED, Amounts, Quota, QuotaCluster, QuotaPod, is_counted, plus


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

    def left(self, total: Iterable["Share"]) -> int | None:
        """Return how much more the namespace may take now: the least of its max and the sum of min; None: no limit.

        Args:
            total: all quotas together.
        """
        limits = [] if self.max is None else [self.max - self.used]
        limits += [
            all_of.min - all_of.used for all_of in total if all_of.resource == self.resource and all_of.min is not None
        ]
        return max(0, min(limits)) if limits else None


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
            _share(name, quota, used[namespace], lent[name][namespace], pending[namespace], name in ledger.total_min)
            for name in names[namespace]
        )
        result.append(QuotaShares(quota, shares, len(waiting.get(namespace, ()))))
    return result, [_total(name, result, ledger.total_min, ledger.total_used) for name in resource_names]


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


def _share(name: str, quota: Quota, used: Amounts, lent: int, pending: Amounts, guaranteed: bool) -> Share:  # noqa: FBT001 - private
    least, most = quota.min.get(name, 0), quota.max.get(name, UNLIMITED)
    in_use = used.get(name, 0)
    borrowed = max(0, in_use - least) if guaranteed else 0
    bound = None if most >= UNLIMITED else most
    return Share(name, least if guaranteed else None, in_use, bound, borrowed, lent, pending.get(name, 0))


def _total(name: str, found: Iterable[QuotaShares], least: Amounts, used: Amounts) -> Share:
    parts = [share for quota_share in found for share in quota_share.shares if share.resource == name]
    borrowed, lent, pending = (sum(getattr(part, which) for part in parts) for which in ("borrowed", "lent", "pending"))
    return Share(name, least.get(name), used.get(name, 0), None, borrowed, lent, pending)


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

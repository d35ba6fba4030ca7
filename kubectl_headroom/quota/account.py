"""A quota: its usage, waiting pods with reasons, and faults; by the extender's own code on live objects."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubectl_headroom.errors import CommandError
from kubectl_headroom.live import suggestion
from kubectl_headroom.quota.checks import Finding, check
from kubectl_headroom.quota.explanation import explain
from kubectl_headroom.quota.reading import QuotaSnapshot
from kubectl_headroom.quota.shares import QuotaShares, all_shares, waits
from kubectl_headroom.quota.show import text
from scheduler_plugins.api import Quota, QuotaPod

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits."""

    pod: QuotaPod  # the pod
    why: str  # why its quota, or all together, refuse it; empty: quotas do not


@dataclass(frozen=True, slots=True)
class Account:
    """A quota at one moment."""

    quota: Quota  # the quota
    older: Quota | None  # the one that is in force in its namespace in its place; None: it is in force itself
    enforced: bool  # whether the scheduler's profile enforces quotas at all
    shares: QuotaShares | None  # its usage, by resource; None where it is not in force
    charged: tuple[QuotaPod, ...]  # the pods it is charged for, the largest first
    waiting: tuple[Waiting, ...]  # those that wait, the first in line first: by priority, then by age
    conditions: tuple[Json, ...]  # conditions of the object
    findings: tuple[Finding, ...]  # about it, or about all quotas together


def account(seen: QuotaSnapshot, namespace: str, name: str) -> Account:
    """The account of a quota.

    Args:
        seen: the cluster.
        namespace: of the quota.
        name: of the quota.

    Raises:
        CommandError: there is none of that name; the message names those that there are.
    """
    ledger = seen.cluster.ledger
    in_force = ledger.quota(namespace)
    here = [*([] if in_force is None else [in_force]), *ledger.passed_over(namespace)]
    quota = next((quota for quota in here if quota.name == name), None)
    if quota is None:
        raise CommandError(_missing(seen, here, namespace, name))
    shares, _ = all_shares(seen.cluster)
    mine = next((share for share in shares if share.quota.uid == quota.uid), None)
    pods = [pod for pod in seen.cluster.pods.values() if mine is not None and pod.namespace == namespace]
    charged = sorted((pod for pod in pods if pod.charged), key=lambda pod: (-pod.charge.get("cpu", 0), pod.name))
    line = sorted((pod for pod in pods if waits(pod)), key=lambda pod: (-pod.priority, pod.created, pod.name))
    status = (seen.cluster.quota_objects.get(quota.uid) or {}).get("status") or {}
    return Account(
        quota,
        None if in_force is None or in_force.uid == quota.uid else in_force,
        seen.enforced,
        mine,
        tuple(charged),
        tuple(Waiting(pod, explain(seen, pod).refusal) for pod in line),
        tuple(status.get("conditions") or ()),
        tuple(finding for finding in check(seen.cluster) if finding.quota == quota.key or "/" not in finding.quota),
    )


def _missing(seen: QuotaSnapshot, here: Sequence[Quota], namespace: str, name: str) -> str:
    if here:
        hint = suggestion(name, [quota.name for quota in here], "quotas")
        return f"There is no ElasticQuota {name!r} in namespace {namespace}. {hint}"
    elsewhere = sorted(quota.key for quota in seen.cluster.ledger.in_force)
    hint = suggestion(f"{namespace}/{name}", elsewhere, "quotas in the cluster")
    return f"Namespace {namespace} has no ElasticQuota: name another with -n. {hint}"


def sentences(found: Account) -> Iterator[str]:
    """Yield the facts, the most important first."""
    if found.older is not None:
        yield (
            f"It is not in force: {found.older.key} is older, and a namespace has one quota. Delete one of the two: "
            f"kubectl delete eq {found.quota.name} -n {found.quota.namespace}"
        )
        return
    if not found.enforced:
        yield "Nothing of it is enforced: the scheduler's profile does not list CapacityScheduling."
    for share in found.shares.shares if found.shares else ():
        name = share.resource
        least = "no min" if share.min is None else f"min {text(name, share.min)}"
        used = f"{name}: {text(name, share.used)} in use of {least}"
        most = f", max {text(name, share.max)}" if share.max is not None else ", no max"
        more = "it may take as much more as it likes"
        if share.left is not None:
            more = f"it may take {text(name, share.left) if share.left else 'nothing'} more now"
        yield f"{used}{most}: {_balance(name, share.borrowed, share.lent)}{more}."
    yield _queue(found.waiting)
    for finding in found.findings:
        yield f"{finding.level.value.capitalize()}: {finding.quota} {finding.text}."


def _queue(waiting: Sequence[Waiting]) -> str:
    refused = [pod for pod in waiting if pod.why]
    if not waiting:
        return "No pod of it waits."
    pods = f"{_count(len(waiting), 'pod')} of it wait{'s' if len(waiting) == 1 else ''}"
    if not refused:
        return f"{pods}, and quotas admit them: kubectl headroom explain pod shows the reason."
    part = "" if len(refused) == len(waiting) else f" {len(refused)} of them"
    return f"{pods},{part} because of quotas; the first in line: {refused[0].why}."


def _balance(name: str, borrowed: int, lent: int) -> str:
    if borrowed:
        return f"it borrows {text(name, borrowed)}, which its owners may have back by eviction; "
    return f"others borrow {text(name, lent)} of it; " if lent else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

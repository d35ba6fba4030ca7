"""Whether a pod may be scheduled at all: its namespace's max, and the sum of all min."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler_plugins.quota.amounts import Amounts, plus
from scheduler_plugins.quota.book import QuotaBook
from scheduler_plugins.quota.comparing import aggregated_over_min_with, over_max_with
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota


@dataclass(frozen=True, slots=True)
class Claim:
    """Room that a pending pod has a claim to: it is nominated to a node, or room is held for it."""

    uid: str
    """Of the pod."""
    namespace: str
    """Whose quota it will be charged to."""
    priority: int
    """Of the pod."""
    charge: Amounts
    """What its quota will be charged."""
    requests: Amounts
    """What kube-scheduler will set aside for it on the node."""
    node: str
    """Where."""


@dataclass(frozen=True, slots=True)
class Over:
    """Why a pod is refused."""

    quota: Quota
    """Its namespace's quota."""
    resource: str
    """The first resource of which there is not enough."""
    total: bool
    """Whether it is the sum of all min that is exceeded; else it is max."""
    used: int
    """What is charged, to the namespace or, with `total`, to all that have a quota."""
    claimed: int
    """What further pods have a claim to."""
    requested: int
    """What the pod asks for."""
    bound: int
    """What would be exceeded."""


def demands(pod: QuotaPod, book: QuotaBook, claims: Iterable[Claim]) -> tuple[Amounts, Amounts]:
    """What a pod asks for together with claims: of its own namespace (A), and of all (B).

    A: the pod, and the claims of its namespace of no less priority. B: A, and the claims of other namespaces whose
    quota is not over min, whatever their priority. A pod that is charged already is not counted again.

    Args:
        pod: the pod.
        book: quotas and charges.
        claims: of all pods.
    """
    own, everything = dict(pod.charge), dict(pod.charge)
    for claim in claims:
        if claim.uid == pod.uid or book.charge_of(claim.uid) is not None:
            continue
        if claim.namespace == pod.namespace:
            if claim.priority >= pod.priority:
                own, everything = plus(own, claim.charge), plus(everything, claim.charge)
        elif book.quota(claim.namespace) is not None and not book.is_over_min(claim.namespace):
            everything = plus(everything, claim.charge)
    return own, everything


def refusal(pod: QuotaPod, book: QuotaBook, claims: Iterable[Claim]) -> Over | None:
    """Why a pod may not be scheduled, whatever the node; None: it may. A namespace without a quota is not limited.

    Args:
        pod: the pod; it is not charged, nor has it a claim.
        book: quotas and charges.
        claims: of all pods.
    """
    quota = book.quota(pod.namespace)
    if quota is None:
        return None
    own, everything = demands(pod, book, claims)
    used = book.used(pod.namespace)
    if over := over_max_with(used, quota.max, own):
        return _over(quota, over[0], pod, used, own, quota.max, total=False)
    if over := aggregated_over_min_with(book.total_used, book.total_min, everything):
        return _over(quota, over[0], pod, book.total_used, everything, book.total_min, total=True)
    return None


def _over(
    quota: Quota, resource: str, pod: QuotaPod, used: Amounts, demand: Amounts, bound: Amounts, *, total: bool
) -> Over:
    requested = pod.charge.get(resource, 0)
    claimed = demand.get(resource, 0) - requested
    return Over(quota, resource, total, used.get(resource, 0), claimed, requested, bound.get(resource, 0))

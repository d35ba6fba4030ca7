"""Whether a pod may be scheduled at all: its namespace's max, and the sum of all min."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler_plugins.quota.amounts import NOTHING, Amounts, minus, plus
from scheduler_plugins.quota.book import QuotaBook
from scheduler_plugins.quota.claims import Claim, Claims
from scheduler_plugins.quota.comparing import aggregated_over_min_with, over_max_with
from scheduler_plugins.quota.doubts import NO_DOUBTS, Doubts
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota


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
    doubtful: int
    """What pods would be charged beside, which may be on their way since before we started."""
    claimed: int
    """What further pods have a claim to."""
    requested: int
    """What the pod asks for."""
    bound: int
    """What would be exceeded."""
    own: int
    """What is charged to the namespace."""
    total_min: int
    """The sum of all min."""


def demands(pod: QuotaPod, book: QuotaBook, claims: Iterable[Claim]) -> tuple[Amounts, Amounts]:
    """What a pod asks for together with claims: of its own namespace (A), and of all (B).

    A: the pod, and the claims of its namespace of no less priority. B: A, and the claims of other namespaces whose
    quota is not over min, whatever their priority. A pod that is charged already is not counted again.

    Args:
        pod: the pod.
        book: quotas and charges.
        claims: of all pods.
    """
    sums = claims if isinstance(claims, Claims) else Claims(claims)
    if not sums:
        return pod.charge, pod.charge
    # Whoever has a claim is not bound, so that its charge, if it has one, is tentative.
    without = book.tentative & sums.uids | {pod.uid}
    own = everything = plus(pod.charge, sums.sum(pod.namespace, pod.priority, without))
    for namespace in sums.namespaces:
        if namespace != pod.namespace and book.quota(namespace) is not None and not book.is_over_min(namespace):
            everything = plus(everything, sums.sum(namespace, None, without))
    return own, everything


def refusal(pod: QuotaPod, book: QuotaBook, claims: Iterable[Claim], doubts: Doubts = NO_DOUBTS) -> Over | None:
    """Why a pod may not be scheduled, whatever the node; None: it may. A namespace without a quota is not limited.

    What the pod itself is charged tentatively, or claims, is not in its way.

    Args:
        pod: the pod.
        book: quotas and charges.
        claims: of all pods.
        doubts: pods that may be on their way although they are not charged.
    """
    quota = book.quota(pod.namespace)
    if quota is None:
        return None
    own, everything = demands(pod, book, claims)
    used, total_used = book.used(pod.namespace), book.total_used
    if (charged := book.charge_of(pod.uid)) is not None:
        used = minus(used, charged.amounts) if charged.namespace == pod.namespace else used
        total_used = minus(total_used, charged.amounts) if book.quota(charged.namespace) else total_used
    doubtful, total_doubtful = doubts.beside(pod.uid, pod.namespace, book) if doubts else (NOTHING, NOTHING)
    if over := over_max_with(plus(used, doubtful), quota.max, own):
        arguments = (used, doubtful, own, quota.max)
        return _over(book, quota, pod, over[0], *arguments, total=False)
    if over := aggregated_over_min_with(plus(total_used, total_doubtful), book.total_min, everything):
        arguments = (total_used, total_doubtful, everything, book.total_min)
        return _over(book, quota, pod, over[0], *arguments, total=True)
    return None


def _over(  # noqa: PLR0913 - the parts of one sentence
    book: QuotaBook,
    quota: Quota,
    pod: QuotaPod,
    resource: str,
    used: Amounts,
    doubtful: Amounts,
    demand: Amounts,
    bound: Amounts,
    *,
    total: bool,
) -> Over:
    requested = pod.charge.get(resource, 0)
    return Over(
        quota=quota,
        resource=resource,
        total=total,
        used=used.get(resource, 0),
        doubtful=doubtful.get(resource, 0),
        claimed=demand.get(resource, 0) - requested,
        requested=requested,
        bound=bound.get(resource, 0),
        own=book.used(pod.namespace).get(resource, 0),
        total_min=book.total_min.get(resource, 0),
    )

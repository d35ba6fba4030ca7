"""Admission by quotas: its namespace's max, and the sum of all min."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler_plugins.quota.amounts import NOTHING, Amounts, aggregated_over_min_with, minus, over_max_with, plus
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.nominations import Nomination, Nominations
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota
from scheduler_plugins.quota.unconfirmed import NONE_BESIDE, NONE_UNCONFIRMED, UnconfirmedReservations, UnconfirmedUsage


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    """The refusal of a pod."""

    quota: Quota  # its namespace's quota
    resource: str  # the first resource of which there is not enough
    total: bool  # whether it is the sum of all min that is exceeded; else it is max
    used: int  # the charge of the namespace or, with `total`, of all with a quota
    unconfirmed: int  # the charge of pods that an earlier run may have admitted
    terminating: int  # the part of pods that were evicted for those with a claim
    claimed: int  # what further pods have a claim to
    requested: int  # by the pod
    bound: int  # what would be exceeded
    own: int  # the charge of the namespace
    total_min: int  # the sum of all min
    waits_for: tuple[str, ...] = ()  # Namespaces with pods that may have been admitted


def demands(pod: QuotaPod, ledger: QuotaLedger, nominations: Iterable[Nomination]) -> tuple[Amounts, Amounts]:
    """Return the pod's requests together with claims: of its own namespace (A), and of all (B).

    A: the pod, and the claims of its namespace of no less priority. B: A, and the claims of other namespaces whose
    quota is not over min, whatever their priority. A pod that is charged already is not counted again.
    """
    sums = nominations if isinstance(nominations, Nominations) else Nominations(nominations)
    if not len(sums):
        return pod.charge, pod.charge
    # A pod with a claim is not bound, so that its charge, if it has one, is tentative.
    without = ledger.tentative & sums.uids | {pod.uid}
    used = plus(pod.charge, sums.sum(pod.namespace, pod.priority, without))
    # The others, from the sum of all claims: less those of this namespace, of namespaces without a quota or over min,
    # and of pods that are not counted.
    uncounted = {pod.namespace, *(sums.namespaces - ledger.namespaces), *(sums.namespaces & ledger.over_min)}
    used_by_others = sums.total
    for namespace in uncounted:
        used_by_others = minus(used_by_others, sums.sum(namespace, None, frozenset()))
    for uid in without:
        nomination = sums.of(uid)
        if nomination is not None and nomination.namespace not in uncounted:
            used_by_others = minus(used_by_others, nomination.charge)
    return used, plus(used, used_by_others)


def terminating_charge(pod: QuotaPod, ledger: QuotaLedger, nominations: Nominations) -> tuple[Amounts, Amounts]:
    """Return the charge of pods that were evicted for claims which `demands` counts: in a namespace, and in all.

    Such a claim replaces their charge. Counting both would block the pod that they were evicted for.
    """
    in_namespace: Amounts = NOTHING
    in_all: Amounts = NOTHING
    counted: set[str] = set()
    for nomination in nominations.with_victims:
        if nomination.uid == pod.uid or nomination.uid in ledger.tentative:
            continue
        mine = nomination.namespace == pod.namespace
        if nomination.priority < pod.priority if mine else ledger.is_over_min(nomination.namespace):
            continue
        if ledger.quota(nomination.namespace) is None:
            continue
        for uid in nomination.victims:
            charge = ledger.charge_of(uid)
            if charge is None or not charge.bound or uid in counted:
                continue
            counted.add(uid)
            if mine and charge.namespace == pod.namespace:
                in_namespace = plus(in_namespace, charge.amounts)
            if ledger.quota(charge.namespace) is not None:
                in_all = plus(in_all, charge.amounts)
    return in_namespace, in_all


def refusal(
    pod: QuotaPod,
    ledger: QuotaLedger,
    nominations: Iterable[Nomination],
    unconfirmed: UnconfirmedReservations = NONE_UNCONFIRMED,
) -> QuotaExceeded | None:
    """Return why quota rejects a pod on every node; None: it does not. A namespace without a quota is not limited.

    The pod's own tentative charge or claim does not count. Where pods terminate for others' claims,
    both must hold: the pod fits beside all that is used now, and beside the claims once those are gone.
    """
    quota = ledger.quota(pod.namespace)
    if quota is None:
        return None
    beside = unconfirmed.beside(pod.uid, pod.namespace, ledger) if unconfirmed else NONE_BESIDE
    of_max, of_min = accounts(pod, ledger, quota, nominations, beside)
    for account, compare, total in ((of_max, over_max_with, False), (of_min, aggregated_over_min_with, True)):
        both = [replace(account, gone=NOTHING, claims=NOTHING), account] if of_max.gone or of_min.gone else [account]
        for usage in both:
            if over := compare(usage.before, usage.bound, pod.charge):
                return QuotaExceeded(
                    quota=quota,
                    resource=over[0],
                    total=total,
                    used=usage.used.get(over[0], 0),
                    unconfirmed=usage.unconfirmed.get(over[0], 0),
                    terminating=usage.gone.get(over[0], 0),
                    claimed=usage.claims.get(over[0], 0),
                    requested=pod.charge[over[0]],
                    bound=usage.bound[over[0]],
                    own=ledger.used(pod.namespace).get(over[0], 0),
                    total_min=ledger.total_min.get(over[0], 0),
                    waits_for=beside.waited_for(pod.namespace, over[0], total=total),
                )
    return None


@dataclass(frozen=True, slots=True)
class Account:
    """The amounts that are compared for a pod, without those of the pod."""

    used: Amounts  # the charge
    unconfirmed: Amounts  # of pods that may have been admitted
    gone: Amounts  # the part of pods that were evicted for claims
    claims: Amounts  # of other pods
    bound: Amounts  # what must not be exceeded

    @property
    def before(self) -> Amounts:
        """The amounts before the pod."""
        before = plus(self.used, self.unconfirmed) if self.unconfirmed else self.used
        before = plus(before, self.claims) if any(self.claims.values()) else before
        return minus(before, self.gone) if self.gone else before

    @property
    def claimed(self) -> Amounts:
        """The amounts that other pods claim, beyond the charge that terminates for them."""
        return {name: max(0, amount - self.gone.get(name, 0)) for name, amount in self.claims.items()}


def accounts(
    pod: QuotaPod,
    ledger: QuotaLedger,
    quota: Quota,
    nominations: Iterable[Nomination],
    beside: UnconfirmedUsage = NONE_BESIDE,
) -> tuple[Account, Account]:
    """Return the account of a pod's namespace, with its max, and that of all quotas, with the sum of min.

    Args:
        pod: the pod.
        ledger: the charges.
        quota: the quota of its namespace.
        nominations: the nominations of pods.
        beside: the charge of pods that may have been admitted.
    """
    nominations = nominations if isinstance(nominations, Nominations) else Nominations(nominations)
    used, total_used = ledger.used(pod.namespace), ledger.total_used
    if (charged := ledger.charge_of(pod.uid)) is not None:
        used = minus(used, charged.amounts) if charged.namespace == pod.namespace else used
        total_used = minus(total_used, charged.amounts) if ledger.quota(charged.namespace) else total_used
    own, everything = demands(pod, ledger, nominations)
    gone, total_gone = terminating_charge(pod, ledger, nominations) if nominations.with_victims else (NOTHING, NOTHING)
    return (
        Account(used, beside.own, gone, minus(own, pod.charge), quota.max),
        Account(total_used, beside.total, total_gone, minus(everything, pod.charge), ledger.total_min),
    )

"""The decision of quotas about a pod, and its victims: the extender's own code on live objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubectl_headroom.quota.reading import QuotaSnapshot
from scheduler_plugins.api import (
    CORE,
    UNLIMITED,
    Decision,
    FitModel,
    Nomination,
    Quota,
    QuotaPod,
    Undecided,
    accounts,
    decide,
    is_counted,
    refusal,
)
from scheduler_plugins.api import refusal_sentence as sentence


@dataclass(frozen=True, slots=True)
class Line:
    """A resource of a pod's admission. [milli-cores for cpu, else base units]"""

    resource: str  # its name
    requested: int  # the pod's charge
    used: int  # what its namespace is charged already
    claimed: int  # by further pods of the namespace, of no less priority, beyond the charge that terminates for them
    max: int | None  # the limit of these; None: unlimited
    all_used: int  # what all namespaces with a quota are charged
    all_claimed: int  # the same of all of them
    all_min: int | None  # the limit of these: the sum of min; None: no quota has it in its min
    over: str  # which is exceeded: "max", "sum of min" or ""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pending pod with a claim."""

    nomination: Nomination  # its claim
    pod: str  # `namespace/name`
    held_until: float | None  # the end of its reservation; None: it is nominated only [unix s]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A pod."""

    pod: QuotaPod  # the pod
    quota: Quota | None  # that of its namespace
    refusal: str  # why its quota, or all together, reject it, as in its events; empty: they do not
    lines: tuple[Line, ...]  # the arithmetic behind it, by resource; none without a quota
    claimants: tuple[Claimant, ...]  # other pods with a claim
    fits: tuple[str, ...]
    """Nodes that it fits as they are, by the model of kube-scheduler's filters; none for a pod that is bound."""
    misfits: Mapping[str, str]  # why not the others, by node
    unmodelled: tuple[str, ...]  # constraints that the model does not cover
    decision: Decision | Undecided | None  # the victims; None: it is bound
    obstacles: tuple[str, ...]  # why the extender would still not evict them now, one sentence each
    over_min: bool  # whether its namespace uses more than is guaranteed to it


def explain(seen: QuotaSnapshot, pod: QuotaPod) -> Explanation:
    """Evaluate a pod.

    Args:
        seen: the cluster.
        pod: one of its pods.
    """
    cluster, now = seen.cluster, seen.now
    quota, nominations = cluster.ledger.quota(pod.namespace), cluster.nominations(now)
    claimants = tuple(
        Claimant(nomination, result.key, result.hold.until if result.hold and result.hold.lasts(now) else None)
        for nomination in nominations
        if nomination.uid != pod.uid and (result := cluster.pods[nomination.uid])
    )
    over_min = cluster.ledger.is_over_min(pod.namespace)
    if pod.node:
        return Explanation(pod, quota, "", _lines(seen, pod, quota), claimants, (), {}, (), None, (), over_min)
    fitting, settings = FitModel(pod, cluster, nominations), seen.plugin.reclaim
    why_not = {node: fitting.misfit(node, frozenset()) for node in cluster.nodes}
    over = refusal(pod, cluster.ledger, nominations)
    return Explanation(
        pod,
        quota,
        sentence(over) if over is not None else "",
        _lines(seen, pod, quota),
        claimants,
        tuple(sorted(node for node, reason in why_not.items() if reason is None)),
        {node: reason for node, reason in sorted(why_not.items()) if reason is not None},
        tuple(fitting.unmodelled),
        decide(
            pod,
            cluster,
            now,
            fitting.misfit,
            budgets_rule=settings.disruption_budgets,
        ),
        tuple(_obstacles(seen, pod)),
        over_min,
    )


def _lines(seen: QuotaSnapshot, pod: QuotaPod, quota: Quota | None) -> tuple[Line, ...]:
    if quota is None:
        return ()
    ledger = seen.cluster.ledger
    of_max, of_min = accounts(pod, ledger, quota, seen.cluster.nominations(seen.now))
    used, all_used, all_min = ledger.used(pod.namespace), ledger.total_used, ledger.total_min
    named = (name for name in quota.named if is_counted(name))
    names = {*pod.charge, *of_max.claims, *of_min.claims, *named, *all_used}
    names = {name for name in names if quota.concerns(name) or name in all_min}
    result = []
    for name in sorted(names, key=lambda each: (CORE.index(each) if each in CORE else len(CORE), each)):
        most, charge = quota.max.get(name, UNLIMITED), pod.charge.get(name, 0)
        claimed, all_claimed = of_max.claimed.get(name, 0), of_min.claimed.get(name, 0)
        # As admission compares: a resource that the pod does not request does not count against it.
        over_max = charge > 0 and of_max.used.get(name, 0) + charge + claimed > most
        over_min = charge > 0 and of_min.used.get(name, 0) + charge + all_claimed > all_min.get(name, UNLIMITED)
        result.append(
            Line(
                name,
                charge,
                used.get(name, 0),
                claimed,
                None if most >= UNLIMITED else most,
                all_used.get(name, 0),
                all_claimed,
                all_min.get(name),
                "max" if over_max else "sum of min" if over_min else "",
            )
        )
    return tuple(result)


def _obstacles(seen: QuotaSnapshot, pod: QuotaPod) -> Sequence[str]:
    """Return the reasons why the extender does not evict for a pod, with any victims."""
    settings, given = seen.plugin.reclaim, pod.json or {}
    scheduler = str((given.get("spec") or {}).get("schedulerName") or "default-scheduler")
    result = []
    if not seen.enforced:
        result.append("the scheduler's profile does not list CapacityScheduling")
    if not settings.enabled:
        result.append("reclaim.enabled is false")
    if settings.dry_run:
        result.append("reclaim.dryRun is true: it only records Events")
    if not pod.gated and scheduler not in (names := settings.scheduler_names or seen.scheduler_names):
        result.append(f"the pod has scheduler {scheduler}, and reclaiming is for pods of {', '.join(names)}")
    if pod.terminating:
        result.append("the pod is being deleted")
    if pod.gated:
        result.append("scheduling gates hold the pod back")
    elif not _unschedulable(given):
        result.append("kube-scheduler has not yet marked the pod unschedulable (PodScheduled=False)")
    if pod.hold is not None and pod.hold.lasts(seen.now):
        result.append(f"resources are reserved for the pod on node {pod.hold.node} already")
    if seen.cluster.ledger.quota(pod.namespace) is None:
        result.append("the pod's namespace has no quota: kube-scheduler's own preemption serves it")
    return result


def _unschedulable(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        (condition.get("type"), condition.get("status"), condition.get("reason"))
        == ("PodScheduled", "False", "Unschedulable")
        for condition in conditions
    )

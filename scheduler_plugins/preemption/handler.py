"""The preempt verb: what kube-scheduler's own preemption may do where there are quotas.

It chooses among pods of lower priority and knows no quotas. Its victims stay where the rules of quotas would have
chosen the same; elsewhere the rules choose again, or the node is omitted.
"""

from collections.abc import Mapping

from scheduler_plugins.framework.plugin import Victims
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import BudgetsRule, PreemptionContext, ReleasedUsage
from scheduler_plugins.preemption.selection.victims import (
    Candidate,
    all_possible_victims,
    arithmetic,
    ineligible,
    select_victims,
)
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.preemption_grants import PreemptionGrant


def answer(
    pod: QuotaPod,
    cluster: QuotaCluster,
    now: float,
    proposed: Mapping[str, Victims],
    budgets_rule: BudgetsRule = BudgetsRule.RESPECT,
    *,
    reclaiming: bool = True,
) -> dict[str, Victims]:
    """Return the victims by node; none for a pod with preemptionPolicy Never, or with terminating victims.

    For pods without a quota, disruption budgets count as in kube-scheduler. For the others they are respected if they
    are when borrowed resources are reclaimed.
    """
    cached = cluster.pods.get(pod.uid, pod)  # a hold may be newer than what kube-scheduler has seen of the pod
    if pod.never_preempts or any(
        hold is not None and hold.lasts(cluster.present(now)) for hold in (pod.hold, cached.hold)
    ):
        return {}
    if not cluster.ledger.namespaces:
        return {node: victims for node, victims in proposed.items() if victims.uids}
    context = PreemptionContext.of(pod, cluster, now)
    if context.quota is not None:
        across = not context.beyond_min
        if (across and not reclaiming) or ineligible(pod, cluster, now) is not None:
            return {}
    fit = FitModel(pod, cluster, cluster.nominations(now))
    evaluated = not fit.unmodelled
    answered: dict[str, Candidate] = {}
    for node, victims in proposed.items():
        chosen = _as_proposed(context, node, victims)
        if chosen is None and evaluated and node in cluster.nodes:
            result = select_victims(context, node, fit.misfit)
            chosen = result if isinstance(result, Candidate) and result.admitted else None
        if chosen is not None and any(victim.node != node for victim in chosen.victims):
            chosen = None  # kube-scheduler evicts on that node alone: reclaiming may evict the whole group
        if chosen is not None and not _is_protected(context, chosen, budgets_rule):
            answered[node] = chosen
    if answered and context.quota is not None:
        cluster.preemption_grants.add(_grant(context, now, answered))
    return {
        node: Victims(tuple(victim.uid for victim in chosen.victims), chosen.violations)
        for node, chosen in answered.items()
    }


def _grant(context: PreemptionContext, now: float, answered: Mapping[str, Candidate]) -> PreemptionGrant:
    """Return the response with the numbers, which are the same for victims of the same namespaces."""
    sentences: dict[frozenset[str], str] = {}
    why = {}
    for node, chosen in answered.items():
        key = frozenset(victim.namespace for victim in chosen.victims)
        if key not in sentences:
            sentences[key] = arithmetic(context, chosen.victims)
        why[node] = sentences[key]
    return PreemptionGrant(context.pod, now, {node: chosen.victims for node, chosen in answered.items()}, why)


def _as_proposed(context: PreemptionContext, node: str, victims: Victims) -> Candidate | None:
    """Return the proposed victims, if the rules allow them and they suffice: then the rules would choose the same.

    kube-scheduler reprieves as many as it can, as the rules do. So all its victims are necessary, also where fewer
    may be evicted, and all others fit.
    """
    potential, _ = all_possible_victims(context, node)
    allowed = {pod.uid: pod for pod in potential}
    if not victims.uids or not allowed.keys() >= set(victims.uids):
        return None
    freed, leaving = ReleasedUsage(context), tuple(allowed[uid] for uid in victims.uids)
    if any(member.uid not in victims.uids for pod in leaving for member in context.unit(pod)):
        return None  # a part of a scheduling group
    for pod in leaving:
        freed.take(pod)
    return Candidate(node, leaving, victims.budget_violations) if freed.suffices() else None


def _is_protected(context: PreemptionContext, candidate: Candidate, rule: BudgetsRule) -> bool:
    if context.quota is None or rule is BudgetsRule.COUNT:
        return False
    return bool(context.budgets.refuse(candidate.victims))

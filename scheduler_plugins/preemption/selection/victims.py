"""The victims on one node, their cost, and the reason as a sentence."""

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler_plugins.preemption.selection.context import PreemptionContext, ReleasedUsage, importance
from scheduler_plugins.quota.amounts import quantity
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota

Misfit: TypeAlias = Callable[[str, AbstractSet[str]], str | None]
"""(node, uids of pods that are taken away) -> why the pod does not fit the node then; None: it fits."""

QUOTA: Final = "global quota max exceeded"  # reason for refusing a node that cannot free as much quota as it takes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and its victims."""

    node: str  # its name
    victims: tuple[QuotaPod, ...]  # by priority
    violations: int  # how many of them a PodDisruptionBudget protects [pods]
    admitted: bool = True  # whether its quota then admits the pod beside all claims of others


@dataclass(frozen=True, slots=True)
class Rejected:
    """A node on which no eviction helps."""

    node: str  # its name
    reason: str  # why, in kube-scheduler's words
    resolvable: bool  # whether an eviction could help; otherwise the node has no possible victims
    needless: bool = False  # whether the pod fits without an eviction


def select_victims(context: PreemptionContext, node: str, misfit: Misfit) -> Candidate | Rejected:
    """Select the victims of a node, as upstream's CapacityScheduling does.

    All possible victims are removed, in ascending priority. If the pod fits then, they are reprieved one by one, those
    protected by a PodDisruptionBudget first, then by priority; a pod that does not fit back is a victim. Pods of a
    scheduling group are removed and reprieved together, on all nodes.
    """
    potential, freed = all_possible_victims(context, node)
    gone = {*context.going, *(pod.uid for pod in potential)}
    if not potential:
        return Rejected(node, no_victims(context.pod, node), resolvable=False)
    reason = misfit(node, gone)
    if reason is not None:
        return Rejected(node, reason, resolvable=True)
    if not freed.suffices(nominations=False):
        return Rejected(node, QUOTA, resolvable=True)
    potential.sort(key=importance)
    protected, others = context.budgets.split(potential)
    victims: list[QuotaPod] = []
    evaluated: set[str] = set()
    for victim in (*protected, *others):
        if victim.uid in evaluated:
            continue
        unit = context.unit(victim)
        uids = {pod.uid for pod in unit}
        evaluated |= uids
        gone -= uids
        for pod in unit:
            freed.give(pod)
        if not freed.suffices() or misfit(node, gone) is not None:
            gone |= uids
            for pod in unit:
                freed.take(pod)
            victims += unit
    if not victims:
        return Rejected(node, f'expected at least one victim pod on node "{node}"', resolvable=True, needless=True)
    violations = len(_among(victims, protected))
    return Candidate(node, tuple(sorted(victims, key=importance)), violations, freed.suffices())


def all_possible_victims(context: PreemptionContext, node: str) -> tuple[list[QuotaPod], ReleasedUsage]:
    """Return all possible victims of a node, in ascending priority and with their groups, and their usage."""
    freed, result = ReleasedUsage(context), dict[str, QuotaPod]()
    for victim in context.possible(node):
        if victim.uid not in result and context.is_possible_victim(victim, freed):
            for pod in context.unit(victim):
                result[pod.uid] = pod
                freed.take(pod)
    return list(result.values()), freed


def no_victims(pod: QuotaPod, node: str) -> str:
    return f"No victims found on node {node} for preemptor pod {pod.name}"


def _among(pods: Sequence[QuotaPod], others: Sequence[QuotaPod]) -> list[QuotaPod]:
    uids = {victim.uid for victim in others}
    return [pod for pod in pods if pod.uid in uids]


LIFT: Final = 2**31  # lifts every priority above zero, so that one more victim always costs more
Loss: TypeAlias = tuple[int, int, int, int, float, str]  # sorts candidates, the smallest loss first


def loss(candidate: Candidate) -> Loss:
    """Return the cost of a candidate, as kube-scheduler compares.

    Fewest violated budgets, then the lowest priority of the most important victim, then the lowest sum of priorities
    (each lifted above zero), then fewest victims, then those that have run for the shortest time; names decide between
    equals.
    """
    victims = candidate.victims
    highest = victims[0].priority
    oldest = min(math.inf if pod.started is None else pod.started for pod in victims if pod.priority == highest)
    total = sum(pod.priority + LIFT for pod in victims)
    return candidate.violations, highest, total, len(victims), -oldest, candidate.node


def pick(candidates: Iterable[Candidate]) -> Candidate:
    return min(candidates, key=loss)


NEVER: Final = "not eligible due to preemptionPolicy=Never."  # the pod's policy
WAITING: Final = "not eligible due to a terminating pod on the nominated node."
"""Return why the pod must wait for terminating victims."""
LEAVING: Final = "not eligible due to pods that are leaving for it already."  # kube-scheduler has evicted them
UNRESOLVABLE: Final = "UnschedulableAndUnresolvable"
"""kube-scheduler's word for a node that no eviction makes available."""


def ineligible(pod: QuotaPod, cluster: QuotaCluster, now: float, nominated_status: str | None = None) -> str | None:
    """Return why a pod may not preempt now; None: it may. As upstream's CapacityScheduling decides."""
    if pod.never_preempts:
        return NEVER
    if cluster.preemption_grants.terminating(pod.uid, cluster.pods, now):
        return LEAVING
    if not pod.nominated or nominated_status == UNRESOLVABLE or pod.nominated not in cluster.nodes:
        return None
    ledger, context = cluster.ledger, PreemptionContext.of(pod, cluster, now)
    for victim in cluster.on_node(pod.nominated).values():
        if not victim.terminating:
            continue
        less = victim.priority < pod.priority
        if context.quota is None:
            waiting = less and ledger.quota(victim.namespace) is None
        elif victim.namespace == pod.namespace:
            waiting = less
        else:
            waiting = not context.beyond_min and ledger.is_over_min(victim.namespace)
        if waiting:
            return WAITING
    return None


_TOLD: Final = 3


def arithmetic(context: PreemptionContext, victims: Iterable[QuotaPod]) -> str:
    """Return the reason for these victims: the quota that uses more than its min, and the one that needs it.

    "quota a/qa uses 6 of min 4 (nvidia.com/gpu), quota b/qb needs 3 of its min 6"
    """
    pod, quota = context.pod, context.quota
    if quota is None:
        return f"no quota in namespace {pod.namespace}: pods of lower priority than {pod.priority} without a quota go"
    if context.beyond_min:
        resource = _decisive(context, context.beyond)
        needs = f"needs {quantity(resource, pod.charge.get(resource, 0))} more"
        return f"{_uses(context, quota, resource)} and {needs}: its own pods of lower priority than {pod.priority} go"
    texts, resources = [], []
    for namespace in dict.fromkeys(victim.namespace for victim in victims):
        lender = context.cluster.ledger.quota(namespace)
        if lender is not None and namespace in context.lenders:
            resources.append(_decisive(context, list(context.lenders[namespace])))
            texts.append(_uses(context, lender, resources[-1]))
    if len(texts) > _TOLD:
        texts[_TOLD:] = [f"{len(texts) - _TOLD} further quotas use more than their min"]
    return ", ".join([*texts, _needs(context, quota, resources)])


def _decisive(context: PreemptionContext, resources: Sequence[str]) -> str:
    """Return the resource for the sentence: one that is short, else one that the pod requests."""
    short = {**context.shortage[0], **context.shortage[1]}
    requested = (name for name in resources if context.pod.charge.get(name, 0) > 0)
    return next((name for name in resources if name in short), None) or next(requested, resources[0])


def _uses(context: PreemptionContext, quota: Quota, resource: str) -> str:
    used = context.used_by(quota.namespace).get(resource, 0)
    least = quota.min.get(resource, 0)
    return f"quota {quota.key} uses {quantity(resource, used)} of min {quantity(resource, least)} ({resource})"


def _needs(context: PreemptionContext, quota: Quota, resources: Sequence[str]) -> str:
    """Return the pod's needs within its namespace's min: of these resources if it requests any."""
    charge = context.pod.charge
    charged = (name for name in charge if name != "pods")
    requested = [name for name in (*resources, *charged) if charge.get(name, 0) > 0]
    if not requested:
        return f"quota {quota.key} needs a place for one more pod"
    name = requested[0]
    of = f" ({name})" if name not in resources else ""
    least = quantity(name, quota.min.get(name, 0))
    return f"quota {quota.key} needs {quantity(name, charge[name])} of its min {least}{of}"

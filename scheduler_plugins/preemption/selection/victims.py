"""Who would have to leave one node so that a pod can go there."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler_plugins.preemption.selection.context import Freed, PreemptionContext, importance
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod

Misfit: TypeAlias = Callable[[QuotaPod, str, AbstractSet[str]], str | None]
"""(pod, node, uids of pods that are taken away) -> why the pod does not fit the node then; None: it fits."""

QUOTA: Final = "global quota max exceeded"
"""Reason for refusing a node that cannot free as much quota as it takes."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, and who has to leave it."""

    node: str
    """Its name."""
    victims: tuple[QuotaPod, ...]
    """Who has to leave, the most important first."""
    violations: int
    """How many of them a PodDisruptionBudget protects. [pods]"""
    admitted: bool = True
    """Whether the pod will then be let through by its quota beside all claims of others."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A node on which no eviction helps."""

    node: str
    """Its name."""
    reason: str
    """Why, in kube-scheduler's words."""
    resolvable: bool
    """Whether eviction could ever help there; else the node has nobody who may be evicted."""
    needless: bool = False
    """Whether the pod fits there as it is."""


def select_victims(
    pod: QuotaPod,
    node: str,
    cluster: QuotaCluster,
    now: float,
    misfit: Misfit,
    context: PreemptionContext | None = None,
) -> Candidate | Rejected:
    """Who would have to leave a node, as upstream's CapacityScheduling chooses.

    All who may go are taken away, the least important first. If the pod fits then, they are put back one by one, those
    whom a PodDisruptionBudget protects first, then the most important first; who is in the way is a victim.

    Args:
        pod: the pod that found no node.
        node: the node.
        cluster: the cluster.
        now: the time to judge holds by. [unix s]
        misfit: judges whether the pod fits.
        context: of the pod, if it is known already.
    """
    found = context or PreemptionContext.of(pod, cluster, now)
    potential, freed = all_possible_victims(found, node)
    gone = {*found.going, *(each.uid for each in potential)}
    if not potential:
        return Rejected(node, no_victims(pod, node), resolvable=False)
    reason = misfit(pod, node, gone)
    if reason is not None:
        return Rejected(node, reason, resolvable=True)
    if not freed.suffices(nominations=False):
        return Rejected(node, QUOTA, resolvable=True)
    potential.reverse()
    protected, others = found.budgets.split(potential)
    victims: list[QuotaPod] = []
    for each in (*protected, *others):
        gone.remove(each.uid)
        freed.give(each)
        if not freed.suffices() or misfit(pod, node, gone) is not None:
            gone.add(each.uid)
            freed.take(each)
            victims.append(each)
    if not victims:
        return Rejected(node, f'expected at least one victim pod on node "{node}"', resolvable=True, needless=True)
    violations = len(_among(victims, protected))
    return Candidate(node, tuple(sorted(victims, key=importance)), violations, freed.suffices())


def all_possible_victims(context: PreemptionContext, node: str) -> tuple[list[QuotaPod], Freed]:
    """Everybody who may leave a node, the least important first, and what is freed when all do."""
    freed, found = Freed(context), []
    for each in context.possible(node):
        if context.is_possible_victim(each, freed):
            found.append(each)
            freed.take(each)
    return found, freed


def no_victims(pod: QuotaPod, node: str) -> str:
    """Reason for refusing a node that has nobody who may leave."""
    return f"No victims found on node {node} for preemptor pod {pod.name}"


def _among(pods: Sequence[QuotaPod], others: Sequence[QuotaPod]) -> list[QuotaPod]:
    uids = {other.uid for other in others}
    return [pod for pod in pods if pod.uid in uids]

"""Who has to leave for a pod that found no node: all rules together."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from scheduler_plugins.preemption.selection.budgets import BudgetsRule
from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.preemption.selection.cross_node import combine
from scheduler_plugins.preemption.selection.eligibility import ineligible
from scheduler_plugins.preemption.selection.reason import arithmetic
from scheduler_plugins.preemption.selection.search import search
from scheduler_plugins.preemption.selection.victims import Candidate, Misfit
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod

NOBODY: Final = "run no pod that may be evicted for it"
"""How nodes are told of that nobody may be evicted from."""
NOWHERE: Final[Mapping[str, str]] = MappingProxyType({})
"""No node is refused."""
_TOLD: Final = 4


@dataclass(frozen=True, slots=True)
class Decision:
    """Who has to leave."""

    node: str
    """Where the pod is to go."""
    victims: tuple[QuotaPod, ...]
    """Who has to leave, the most important first; with `cross_node` from other nodes, too."""
    violations: int
    """How many of them a PodDisruptionBudget protects. [pods]"""
    cross_node: bool
    """Whether some of them are on other nodes."""
    arithmetic: str
    """Why they and not others: one sentence with the numbers."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nobody is to leave."""

    reason: str
    """Why, one sentence for people."""
    rejected: Mapping[str, str]
    """Why not, by node, where it was looked at."""


def decide(  # noqa: PLR0913 - all but what is decided about by name
    pod: QuotaPod,
    cluster: QuotaCluster,
    now: float,
    misfit: Misfit,
    *,
    cross_node: bool = False,
    nodes: Iterable[str] | None = None,
    budgets_rule: BudgetsRule = BudgetsRule.RESPECT,
    nominated_status: str | None = None,
    refused: Mapping[str, str] = NOWHERE,
) -> Decision | Undecided:
    """Who has to leave for a pod that found no node.

    Nobody leaves where the pod could go without that, or once those are gone who were evicted for others; nor where it
    would be refused all the same for room that others have a claim to.

    Args:
        pod: the pod.
        cluster: the cluster.
        now: the time to judge holds by. [unix s]
        misfit: judges whether the pod fits.
        cross_node: whether pods of several nodes may be evicted together.
        nodes: names of the nodes that come into question; None: all.
        budgets_rule: what PodDisruptionBudgets mean.
        nominated_status: what kube-scheduler found of the node that the pod is nominated to; None: nothing.
        refused: nodes that are refused whoever leaves, and why: to be told of.
    """
    if (reason := ineligible(pod, cluster, now, nominated_status)) is not None:
        return Undecided(reason, {})
    context = PreemptionContext.of(pod, cluster, now)
    names = list(cluster.nodes if nodes is None else nodes)
    if context.admitted:
        roomy = next((name for name in names if misfit(pod, name, context.going) is None), None)
        if roomy is not None:
            return Undecided(f"node {roomy} has room for it without evicting anybody else", {})
    found = search(context, names, now, misfit, lambda each: _spared(context, each, budgets_rule))
    best = found.best
    if best is None and cross_node:
        best = combine(context, [name for name in names if name not in found.crowded], misfit, budgets_rule)
    if best is None:
        rejected = {**found.rejected, **refused}
        return Undecided(_in_short(rejected), rejected)
    elsewhere = any(victim.node != best.node for victim in best.victims)
    # A node's count is that of the worst case, in which everybody who may leave would; where budgets hold it is none.
    violations = 0 if budgets_rule is BudgetsRule.RESPECT else best.violations
    return Decision(best.node, best.victims, violations, elsewhere, arithmetic(context, best.victims))


def _spared(context: PreemptionContext, candidate: Candidate, rule: BudgetsRule) -> str | None:
    """Why nobody is evicted from a node although it would help; None: they may be."""
    if not candidate.admitted:
        return "its quota would refuse it all the same: others have a claim to what is freed"
    if rule is BudgetsRule.RESPECT and (protected := context.budgets.refuse(candidate.victims)):
        return f"PodDisruptionBudgets protect {', '.join(victim.key for victim in protected)}"
    return None


def _in_short(rejected: Mapping[str, str]) -> str:
    """Why no eviction helps, counted over the nodes."""
    counts = Counter(NOBODY if reason.startswith("No victims found") else reason for reason in rejected.values())
    told = ", ".join(f"{count} {reason}" for reason, count in counts.most_common(_TOLD))
    more = f", and {len(counts) - _TOLD} other reasons" if len(counts) > _TOLD else ""
    return f"no eviction helps on any of {len(rejected)} nodes: {told}{more}" if rejected else "there is no node"

"""The victims for an unschedulable pod: on the node with the least loss."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias
from zlib import crc32

from scheduler_plugins.preemption.selection.context import BudgetsRule, PreemptionContext
from scheduler_plugins.preemption.selection.victims import (
    Candidate,
    Misfit,
    Rejected,
    arithmetic,
    ineligible,
    pick,
    select_victims,
)
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod

MIN_CANDIDATES: Final = 100
"""kube-scheduler's default of `minCandidateNodesAbsolute`. [nodes]"""
MIN_CANDIDATES_PERCENTAGE: Final = 10
"""kube-scheduler's default of `minCandidateNodesPercentage`. [%]"""

Spared: TypeAlias = Callable[[Candidate], str | None]
"""Return why no pod is evicted from a node although it would help; None: pods may be evicted."""


@dataclass(slots=True)
class SearchResult:
    """The result of a search."""

    best: Candidate | None = None  # the candidate that loses least
    rejected: dict[str, str] = field(default_factory=dict)
    """The reason against each node that was tried; without a candidate that is every node."""


def candidates_needed(nodes: int) -> int:
    """After how many candidates no further node is tried, as kube-scheduler's GetOffsetAndNumCandidates has it."""
    return min(max(nodes * MIN_CANDIDATES_PERCENTAGE // 100, MIN_CANDIDATES), nodes)


def search(context: PreemptionContext, nodes: Sequence[str], misfit: Misfit, spared: Spared) -> SearchResult:
    """The candidate that loses least among enough candidates, as kube-scheduler's DryRunPreemption finds them.

    Nodes are tried from an offset that depends on the pod alone, so that the same pod gets the same candidates. The
    search ends when there are enough candidates and one of them violates no PodDisruptionBudget.
    """
    result, candidates = SearchResult(), list[Candidate]()
    needed, offset = candidates_needed(len(nodes)), crc32(context.pod.uid.encode()) % max(len(nodes), 1)
    for node in (*nodes[offset:], *nodes[:offset]):
        candidate = select_victims(context, node, misfit)
        if isinstance(candidate, Rejected):
            result.rejected[node] = candidate.reason
        elif (why_not := spared(candidate)) is not None:
            result.rejected[node] = why_not
        else:
            candidates.append(candidate)
            if len(candidates) >= needed and any(candidate.violations == 0 for candidate in candidates):
                break
    result.best = pick(candidates) if candidates else None
    return result


NO_VICTIMS: Final = "run no pod that may be evicted for it"  # the text about nodes without possible victims
NOWHERE: Final[Mapping[str, str]] = MappingProxyType({})  # no node is refused
_TOLD: Final = 4


@dataclass(frozen=True, slots=True)
class Decision:
    """The victims."""

    node: str  # where the pod is to go
    victims: tuple[QuotaPod, ...]  # the victims, by priority
    violations: int  # how many of them a PodDisruptionBudget protects [pods]
    arithmetic: str  # why they and not others: one sentence with the numbers


@dataclass(frozen=True, slots=True)
class Undecided:
    """No eviction."""

    reason: str  # why, one sentence for people
    rejected: Mapping[str, str]  # the reasons, by evaluated node


def decide(
    pod: QuotaPod,
    cluster: QuotaCluster,
    now: float,
    misfit: Misfit,
    *,
    nodes: Iterable[str] | None = None,
    budgets_rule: BudgetsRule = BudgetsRule.RESPECT,
    nominated_status: str | None = None,
    refused: Mapping[str, str] = NOWHERE,
) -> Decision | Undecided:
    """Select the victims for an unschedulable pod.

    No pod is evicted where the pod fits without that, or once terminating victims have ended; nor where it
    would still be refused because resources are reserved for others.
    """
    if (reason := ineligible(pod, cluster, now, nominated_status)) is not None:
        return Undecided(reason, {})
    context = PreemptionContext.of(pod, cluster, now)
    names = list(cluster.nodes if nodes is None else nodes)
    if context.admitted:
        roomy = next((name for name in names if misfit(name, context.going) is None), None)
        if roomy is not None:
            return Undecided(f"node {roomy} fits it without any eviction", {})
    result = search(context, names, misfit, lambda each: _spared(context, each, budgets_rule))
    best = result.best
    if best is None:
        rejected = {**result.rejected, **refused}
        return Undecided(_in_short(rejected), rejected)
    # A node's count is that of the worst case, with all possible victims evicted; none where budgets protect them.
    violations = 0 if budgets_rule is BudgetsRule.RESPECT else best.violations
    return Decision(best.node, best.victims, violations, arithmetic(context, best.victims))


def _spared(context: PreemptionContext, candidate: Candidate, rule: BudgetsRule) -> str | None:
    """Return why no pod is evicted from a node although it would help; None: they may be."""
    if not candidate.admitted:
        return "its quota would still refuse it: the freed resources are reserved for others"
    if rule is BudgetsRule.RESPECT and (protected := context.budgets.refuse(candidate.victims)):
        return f"PodDisruptionBudgets protect {', '.join(victim.key for victim in protected)}"
    return None


def _in_short(rejected: Mapping[str, str]) -> str:
    """Return why no eviction helps, counted over the nodes."""
    counts = Counter(NO_VICTIMS if reason.startswith("No victims found") else reason for reason in rejected.values())
    texts = ", ".join(f"{count} {reason}" for reason, count in counts.most_common(_TOLD))
    more = f", and {len(counts) - _TOLD} other reasons" if len(counts) > _TOLD else ""
    return f"no eviction helps on any of {len(rejected)} nodes: {texts}{more}" if rejected else "there is no node"

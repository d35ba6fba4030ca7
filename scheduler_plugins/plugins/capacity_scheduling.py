"""CapacityScheduling: no namespace uses more than its quota's max, and all together no more than the sum of min.

After upstream's CapacityScheduling. What it refuses is never a reason for kube-scheduler's own preemption, which knows
no quotas; `scheduler_plugins.reclaim` gives borrowed resources back.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from scheduler_plugins.framework.plugin import Problem
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.quota.admission import Over, refusal
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.reclaim.settings import ReclaimSettings
from scheduler_plugins.snapshot.arrays import IntArray, Nodes
from scheduler_plugins.snapshot.pod import PodRequest

NAME: Final = "CapacityScheduling"
"""How profiles and tables call it."""
HELD: Final = "node(s) room held for a pod that others were evicted for"
"""Reason for refusing a node whose free room belongs to another pod."""
_QUOTED: Final = "ElasticQuota "  # every refusal by quota begins with it
_MAX: Final = "ElasticQuota max exceeded"
_TOTAL: Final = "sum of min over all ElasticQuotas exceeded"


@dataclass(frozen=True, slots=True)
class CapacityScheduling:
    """The plugin; its fields are its arguments."""

    max_missing: MaxMissing = MaxMissing.ZERO
    """What a `max` says of cpu, memory and ephemeral-storage that it does not name: zero, as upstream's code has it, or
    infinite, as its design text has it."""
    reclaim: ReclaimSettings = field(default_factory=ReclaimSettings)
    """How borrowed resources are given back."""

    def defaulted(self) -> "CapacityScheduling":
        """Itself: no default depends on another argument."""
        return self

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the arguments."""
        found = self.reclaim.problems()
        return tuple(Problem(f"reclaim.{problem.field}", problem.kind, problem.message) for problem in found)

    def keep(self) -> QuotaCluster:
        """The cluster as quotas see it."""
        return QuotaCluster(NAME, self.max_missing)

    def facts(self, pod: Mapping[str, Any]) -> QuotaPod:
        """A pending pod as quotas see it."""
        return QuotaPod.from_json(pod)

    def alike(self, facts: QuotaPod) -> Hashable:
        """What of it decides how it is judged."""
        return (facts.namespace, facts.priority, *sorted(facts.charge.items()), *sorted(facts.requests.items()))

    def pre_filter(self, pod: PodRequest, nodes: Nodes) -> Refusal | None:
        """Refuse a pod that its namespace's max, or the sum of all min, leaves no room for."""
        cluster, asked = kept(nodes), _asked(pod)
        over = refusal(asked, cluster.book, cluster.claims(nodes.now))
        return None if over is None else Refusal(sentence(over), kind=_TOTAL if over.total else _MAX)

    def recognises(self, text: str) -> bool:
        """Whether a text quotes a refusal by quota."""
        return _QUOTED in text

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Refuse nodes whose room is held for another pod, of no less priority, that would no longer fit beside."""
        cluster, asked = kept(nodes), _asked(pod)
        refused: IntArray = np.full(len(nodes), PASSES, np.int64)
        rows = {name: row for row, name in enumerate(nodes.names)}
        for holder in cluster.holding(nodes.now):
            row = rows.get(holder.hold.node) if holder.hold is not None else None
            if row is None or holder.uid == asked.uid or holder.priority < asked.priority:
                continue
            if not _fit_together(cluster, holder, asked):
                refused[row] = 0
        return Verdict(refused, (Refusal(HELD),))


def kept(nodes: Nodes) -> QuotaCluster:
    """The cluster as quotas see it."""
    found = nodes.kept[NAME]
    assert isinstance(found, QuotaCluster)  # noqa: S101 - it is what `keep` made
    return found


def sentence(over: Over) -> str:
    """Why a pod is refused, with the arithmetic."""
    amounts = f"used {over.used}, claimed {over.claimed}, requested {over.requested}"
    bound = "sum of min" if over.total else "max"
    return f"{_QUOTED}{over.quota.key}: {over.resource}: {amounts}, {bound} {over.bound}"


def _asked(pod: PodRequest) -> QuotaPod:
    """The pod as quotas see it, under the identity that it is asked about with."""
    facts: QuotaPod = pod.facts[NAME]
    return facts if facts.uid == pod.uid else replace(facts, uid=pod.uid, name=pod.key.partition("/")[2])


def _fit_together(cluster: QuotaCluster, holder: QuotaPod, pod: QuotaPod) -> bool:
    """Whether a node has room for both once those that were evicted for the holder are gone."""
    node = holder.hold.node if holder.hold is not None else ""
    if node not in cluster.nodes:
        return True
    there = cluster.on_node(node)
    gone = [there[uid] for uid in (holder.hold.victims if holder.hold else ()) if uid in there]
    coming = [each for each in cluster.answered(node) if each.uid not in {holder.uid, pod.uid}]
    has, taken = cluster.nodes[node].allocatable, cluster.requested(node)
    for name, amount in pod.requests.items():
        free = has.get(name, 0) - taken.get(name, 0) + sum(each.requests.get(name, 0) for each in gone)
        free -= holder.requests.get(name, 0) + sum(each.requests.get(name, 0) for each in coming)
        if amount and amount > free:
            return False
    return True

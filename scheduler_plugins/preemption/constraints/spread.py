"""How evenly a pod must be spread (topologySpreadConstraints with DoNotSchedule), as kube-scheduler 1.36 judges it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from headroom.cluster.selector import matches
from scheduler_plugins.preemption.constraints.node_affinity import NodeTest
from scheduler_plugins.preemption.constraints.taints import keeps_away
from scheduler_plugins.quota.node import QuotaNode
from scheduler_plugins.quota.pod import QuotaPod

Json = Mapping[str, Any]

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
"""As kube-scheduler says it."""
NO_DOMAIN: Final = f"{UNEVEN} (missing required label)"
"""As kube-scheduler says it of a node without the label that domains are told by."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint that must hold."""

    key: str
    """Nodes with the same value of this label are one domain."""
    max_skew: int
    """How many more pods a domain may have than the one that has fewest. [pods]"""
    min_domains: int
    """While there are fewer domains than this, the one that has fewest counts as empty."""
    selector: Json | None
    """Which pods are counted; None: none."""
    keys: Mapping[str, str]
    """Labels that they must have, too: those of the pod itself that `matchLabelKeys` names."""
    honours_affinity: bool
    """Whether only nodes count that the pod asks for."""
    honours_taints: bool
    """Whether only nodes count whose taints the pod tolerates."""

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is counted."""
        return matches(self.selector, labels) and all(labels.get(key) == value for key, value in self.keys.items())

    @property
    def counts_no_pod(self) -> bool:
        """Whether its selector is empty: kube-scheduler then counts none of the pods that are there."""
        picks = (self.selector or {}).get("matchLabels") or (self.selector or {}).get("matchExpressions")
        return self.selector is None or not (picks or self.keys)


def hard_constraints(pod: Json) -> tuple[Constraint, ...]:
    """The constraints of a pod that must hold.

    Args:
        pod: Kubernetes JSON.
    """
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return tuple(
        Constraint(
            str(each.get("topologyKey") or ""),
            int(each.get("maxSkew") or 1),
            int(each.get("minDomains") or 1),
            each.get("labelSelector"),
            {key: labels[key] for key in each.get("matchLabelKeys") or () if key in labels},
            (each.get("nodeAffinityPolicy") or "Honor") == "Honor",
            each.get("nodeTaintsPolicy") == "Honor",
        )
        for each in (pod.get("spec") or {}).get("topologySpreadConstraints") or ()
        if each.get("whenUnsatisfiable") == "DoNotSchedule"
    )


class Spread:
    """How the pods are spread that one pod's constraints count.

    Args:
        pod: that is to be placed.
        constraints: its constraints; at least one.
        required_nodes: tests whether it asks for a node; None: for every node.
        tolerations: its tolerations.
        nodes: all nodes.
        pods: the bound pods of its namespace.
    """

    def __init__(
        self,
        pod: QuotaPod,
        constraints: Sequence[Constraint],
        required_nodes: NodeTest | None,
        tolerations: Sequence[Json],
        nodes: Mapping[str, QuotaNode],
        pods: Iterable[QuotaPod],
    ) -> None:
        self._pod = pod
        labelled = [node for node in nodes.values() if all(each.key in node.labels for each in constraints)]
        unwanted = {node.name for node in labelled if not (required_nodes is None or required_nodes(node))}
        tainted = {node.name for node in labelled if node.taints and keeps_away(node.taints, tolerations)}
        staying = [other for other in pods if not other.terminating]
        self._counted = [
            _Counted(
                each,
                pod.labels,
                {
                    node.name: node.labels[each.key]
                    for node in labelled
                    if not (each.honours_affinity and node.name in unwanted)
                    and not (each.honours_taints and node.name in tainted)
                },
                staying,
            )
            for each in constraints
        ]

    def missing(self, node: QuotaNode) -> str | None:
        """Why no eviction would help: the node belongs to no domain."""
        return None if all(each.constraint.key in node.labels for each in self._counted) else NO_DOMAIN

    def misfit(self, node: QuotaNode, without: AbstractSet[str], coming: Sequence[QuotaPod]) -> str | None:
        """Why the pod may not be placed on a node.

        Args:
            node: the node.
            without: uids of pods that are taken away.
            coming: pods that are expected on that node.
        """
        own = [pod for pod in coming if pod.namespace == self._pod.namespace]
        for each in self._counted:
            if each.constraint.key not in node.labels:
                return NO_DOMAIN
            if each.skewed(node, without, own):
                return UNEVEN
        return None


class _Counted:
    """One constraint, and the pods that it counts by domain."""

    def __init__(
        self,
        constraint: Constraint,
        labels: Mapping[str, str],
        domains: Mapping[str, str],
        pods: Iterable[QuotaPod],
    ) -> None:
        self.constraint = constraint
        self._itself = int(constraint.counts(labels))
        self._domains = domains
        self._where = {} if constraint.counts_no_pod else self._placed(pods)
        self._counts = Counter(dict.fromkeys(domains.values(), 0))
        self._counts.update(self._where.values())
        self._ascending = sorted((count, domain) for domain, count in self._counts.items())

    def _placed(self, pods: Iterable[QuotaPod]) -> Mapping[str, str]:
        """The domains of the pods that are counted. Labels are shared by many pods, and looked at once."""
        counted: dict[int, bool] = {}
        where = {}
        for pod in pods:
            if (domain := self._domains.get(pod.node)) is not None:
                known = id(pod.labels)
                if known not in counted:
                    counted[known] = self.constraint.counts(pod.labels)
                if counted[known]:
                    where[pod.uid] = domain
        return where

    def skewed(self, node: QuotaNode, without: AbstractSet[str], coming: Sequence[QuotaPod]) -> bool:
        """Whether the node's domain would have too many: count + 1 if it counts itself - fewest > maxSkew."""
        changes: Counter[str] = Counter()
        for uid in without:
            if uid in self._where:
                changes[self._where[uid]] -= 1
        if node.name in self._domains:
            changes[self._domains[node.name]] += sum(self.constraint.counts(pod.labels) for pod in coming)
        domain = node.labels[self.constraint.key]
        there = self._counts.get(domain, 0) + changes[domain]
        return there + self._itself - self._fewest(changes) > self.constraint.max_skew

    def _fewest(self, changes: Mapping[str, int]) -> int:
        """How many the domain has that has fewest."""
        if len(self._counts) < self.constraint.min_domains or not self._counts:
            return 0
        changed = [self._counts[domain] + change for domain, change in changes.items() if domain in self._counts]
        unchanged = next((count for count, domain in self._ascending if domain not in changes), None)
        return min(changed if unchanged is None else [*changed, unchanged])

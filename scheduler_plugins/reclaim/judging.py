"""Decisions as the controller needs them: with the verdicts of all other plugins of the profile."""

import json
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.reclaim.fitting import Fitting
from scheduler_plugins.reclaim.metrics import ReclaimMetrics
from scheduler_plugins.reclaim.pending import is_about_room, refusal_of
from scheduler_plugins.reclaim.selection.decide import Decision, Undecided, decide
from scheduler_plugins.reclaim.settings import ReclaimSettings
from scheduler_plugins.snapshot.cache import ClusterCache

_CONSTRAINTS = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "resourceClaims",
    "volumes",
    "containers",
    "initContainers",
    "resources",
    "overhead",
    "preemptionPolicy",
)


@dataclass(frozen=True, slots=True)
class Judge:
    """Decides for one pod, by all that is known at the moment."""

    cluster: QuotaCluster
    """Quotas, pods, nodes."""
    cache: ClusterCache
    """The cluster as the other plugins see it."""
    others: Cycle
    """The other plugins of the profile: a node that they refuse whoever leaves is no place for the pod."""
    settings: ReclaimSettings
    """What is allowed."""
    metrics: ReclaimMetrics
    """Where it is counted."""

    def __call__(self, pod: QuotaPod, now: float, nodes: Iterable[str] | None = None) -> Decision | Undecided:
        """Who has to leave for a pod.

        Args:
            pod: the pod; it is pending.
            now: the present time. [unix s]
            nodes: names of the nodes that come into question; None: all.

        Raises:
            PluginError: a plugin failed.
            ValueError: the pod cannot be read.
        """
        if self.cluster.book.quota(pod.namespace) is None:
            return Undecided("its namespace has no quota any more", {})
        started = time.perf_counter()
        try:
            fitting = Fitting(self.cluster, self.cluster.claims(now))
            beyond = fitting.unmodelled(pod)
            if beyond and not is_about_room(refusal_of(pod.json or {})):
                return Undecided(f"where it fits is for kube-scheduler alone to say: it has {', '.join(beyond)}", {})
            return decide(
                pod,
                self.cluster,
                now,
                fitting.misfit,
                cross_node=self.settings.cross_node,
                nodes=self._suitable(pod, now, nodes),
                budgets_rule=self.settings.disruption_budgets,
            )
        finally:
            self.metrics.decision_seconds.observe(time.perf_counter() - started)

    def _suitable(self, pod: QuotaPod, now: float, nodes: Iterable[str] | None) -> list[str]:
        """The nodes that no other plugin refuses, but for what eviction helps against."""
        names = [name for name in (self.cluster.nodes if nodes is None else nodes) if name in self.cluster.nodes]
        known, strange = self.cache.select(names, now)
        verdict = self.others.filter(self.cache.read(pod.json or {}), known)
        refusals = ((name, verdict.refusal(row)) for row, name in enumerate(known.names))
        return [name for name, refusal in refusals if refusal is None or refusal.eviction_helps] + strange


def alike(pod: QuotaPod) -> Hashable:
    """What decides about a pod: pods with the same are decided about alike."""
    spec = (pod.json or {}).get("spec") or {}
    constraints = json.dumps({name: spec.get(name) for name in _CONSTRAINTS}, sort_keys=True)
    labels, requests = tuple(sorted(pod.labels.items())), tuple(sorted(pod.requests.items()))
    about_room = is_about_room(refusal_of(pod.json or {}))
    return pod.namespace, pod.priority, requests, pod.nominated, labels, constraints, about_room


def as_asked(pod: QuotaPod) -> QuotaPod:
    """A pod as it was before anything was held for it: to decide about it once more."""
    return replace(pod, hold=None, nominated="")

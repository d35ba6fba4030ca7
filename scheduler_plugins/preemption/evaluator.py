"""Decisions as the controller needs them: with the verdicts of all other plugins of the profile."""

import json
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.pending import is_about_resources, refusal_of
from scheduler_plugins.preemption.plugin_verdicts import PluginVerdicts
from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.preemption.selection.decide import Decision, Undecided, decide
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.amounts import minus, over_max_with, over_min_with
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.cache import ClusterCache

OWN_MAX: Final = "the max of its namespace does not admit it, and no pod of lower priority runs there"
"""The evaluation of a pod that may preempt only in its own namespace."""
_LONGEST_CONSTRAINTS: Final = 8192
_CONSTRAINTS: Final = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Decides for one pod, by all that is known at the moment."""

    cluster: QuotaCluster  # quotas, pods, nodes
    cache: ClusterCache  # the cluster as the other plugins see it
    others: Cycle  # the other plugins of the profile: they may refuse a node also without the victims
    settings: PreemptionSettings  # settings
    metrics: PreemptionMetrics  # where it is counted

    def __call__(
        self, pod: QuotaPod, now: float, nodes: Iterable[str] | None = None, held: Hold | None = None
    ) -> Decision | Undecided:
        """Select the victims for a pod.

        Raises:
            PluginError: a plugin failed.
            ValueError: the pod cannot be read.
        """
        if self.cluster.ledger.quota(pod.namespace) is None:
            return Undecided("its namespace no longer has a quota", {})
        if self._preempts_own_namespace_only(pod, now):
            return Undecided(OWN_MAX, {})
        spec = (pod.json or {}).get("spec") or {}
        if (size := len(json.dumps([spec.get(name) for name in _CONSTRAINTS]))) > _LONGEST_CONSTRAINTS:
            # Each is compared with each node at one go, and thousands of them with thousands of nodes take a minute.
            why = f"{size} characters of JSON, {_LONGEST_CONSTRAINTS} are the most"
            return Undecided(f"its selectors, affinity, tolerations and spread constraints are {why}", {})
        started = time.perf_counter()
        try:
            fit = FitModel(pod, self.cluster, self.cluster.nominations(now))
            beyond = fit.unmodelled
            # Each eviction changes where pods run: there kube-scheduler's reason for resources alone is not enough.
            if beyond and (fit.pod_constraints or not is_about_resources(refusal_of(pod.json or {}))):
                return Undecided(f"only kube-scheduler can place it: it has {', '.join(beyond)}", {})
            plugin_verdicts = PluginVerdicts(
                self.cache, self.others, self.cluster, pod, held, now, self.cluster.nodes if nodes is None else nodes
            )
            hopeless: Mapping[str, str] = {}
            if plugin_verdicts.refused:
                context = PreemptionContext.of(pod, self.cluster, now)
                possible = {node: {victim.uid for victim in context.possible(node)} for node in plugin_verdicts.refused}
                hopeless = plugin_verdicts.hopeless({node: uids | context.going for node, uids in possible.items()})

            def misfit(node: str, without: AbstractSet[str]) -> str | None:
                return fit.misfit(node, without) or plugin_verdicts.misfit(node, without)

            return decide(
                pod,
                self.cluster,
                now,
                misfit if plugin_verdicts.refused else fit.misfit,
                nodes=[*plugin_verdicts.suitable, *(node for node in plugin_verdicts.refused if node not in hopeless)],
                budgets_rule=self.settings.disruption_budgets,
                refused=hopeless,
            )
        finally:
            self.metrics.decision_seconds.observe(time.perf_counter() - started)

    def _preempts_own_namespace_only(self, pod: QuotaPod, now: float) -> bool:
        """Return whether only pods of its own namespace could be victims, by its max, and none has a lower priority.

        No node is evaluated then. While pods terminate for others this does not hold.
        """
        ledger, quota = self.cluster.ledger, self.cluster.ledger.quota(pod.namespace)
        if quota is None or self.cluster.has_lower_priority(pod.namespace, pod.priority):
            return False
        used, charged = ledger.used(pod.namespace), ledger.charge_of(pod.uid)
        if charged is not None:
            used = minus(used, charged.amounts)
        beyond = over_max_with(used, quota.max, pod.charge) and over_min_with(
            used, quota.min, pod.charge, ledger.total_min
        )
        return bool(beyond) and not self.cluster.nominations(now).with_victims

    def relief(self, decision: Decision) -> Mapping[str, int]:
        """Return the victims' usage of the pod's node. [milli-cores for cpu, else base units]"""
        ledger = self.cache.ledger(decision.node)
        if ledger is None:
            return {}
        relief = ledger.relief(victim.uid for victim in decision.victims)
        return {name: amount for name, amount in zip(self.cache.rules.resources, relief, strict=True) if amount}


def as_requested(pod: QuotaPod) -> QuotaPod:
    """A pod as it was before anything was held for it: to decide about it once more."""
    return replace(pod, hold=None, nominated="")

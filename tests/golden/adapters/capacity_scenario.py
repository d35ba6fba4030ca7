"""capacity_preemption `scenario`: pods come one after the other, are admitted, placed, or have others evicted."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from scheduler_plugins.plugins.capacity_scheduling import NAME
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.preemption.selection.decide import Decision, decide
from scheduler_plugins.quota.admission import refusal
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from tests.golden.adapters.elasticquota import NOW, named

Json = Mapping[str, Any]

_ROUNDS: Final = 100  # more than pods that come: each of them is bound once


class _Loop:
    """kube-scheduler with our extender and controller, without either: what each would decide, one after the other."""

    def __init__(self, vector: Json) -> None:
        self.cluster = QuotaCluster(NAME, MaxMissing.ZERO)
        for node in vector["nodes"]:
            self.cluster.put_node(node)
        for quota in vector.get("elasticQuotas") or ():
            self.cluster.put_quota(quota)
        for budget in vector.get("podDisruptionBudgets") or ():
            self.cluster.put_budget(budget)
        self.pending: list[QuotaPod] = []
        self.evicted: set[str] = set()

    def bind(self, pod: QuotaPod, node: str) -> None:
        self.cluster.place(replace(pod, node=node, nominated="", own=b""))

    def run(self) -> None:
        """Try pods, the most important first, until nothing changes any more."""
        for _ in range(_ROUNDS):
            waiting = sorted(self.pending, key=lambda pod: -pod.priority)
            placed = next((pod for pod in waiting if self._tried(pod)), None)
            if placed is None:
                return
            self.pending.remove(placed)
        raise AssertionError("pods come and go without end")

    def _tried(self, pod: QuotaPod) -> bool:
        """Whether a pod was placed, others having been evicted for it if need be."""
        fitting = FitModel(pod, self.cluster, self.cluster.nominations(NOW))
        if refusal(pod, self.cluster.ledger, self.cluster.nominations(NOW)) is None:
            roomy = [node for node in self.cluster.nodes if fitting.misfit(node, frozenset()) is None]
            if roomy:
                self.bind(pod, min(roomy, key=self._load))
                return True
        decided = decide(pod, self.cluster, NOW, fitting.misfit, budgets_rule=BudgetsRule.COUNT)
        if not isinstance(decided, Decision):
            return False
        for victim in decided.victims:
            self.evicted.add(victim.uid)
            self.cluster.delete_pod(victim.uid)
        self.bind(pod, decided.node)
        return True

    def _load(self, node: str) -> float:
        """How full a node is, as kube-scheduler sees it by default: it places pods on the emptiest."""
        has, taken = self.cluster.nodes[node].allocatable, self.cluster.requested(node)
        return sum(taken.get(name, 0) / has[name] for name in ("cpu", "memory") if has.get(name))


def scenario(vector: Json) -> dict[str, Any]:
    """What becomes of all pods, in the order in which the vector has them."""
    loop = _Loop(vector)
    existing = [QuotaPod.from_json(named(pod)) for pod in vector.get("existingPods") or ()]
    for pod in existing:
        loop.cluster.place(pod)
    coming = [QuotaPod.from_json(named(pod)) for pod in vector.get("addPods") or ()]
    for pod in coming:
        loop.pending.append(pod)
        loop.run()
    pods, pending = [*existing, *coming], {pod.uid for pod in loop.pending}
    return {
        "mustBeBound": [pod.key for pod in pods if pod.uid not in pending and pod.uid not in loop.evicted],
        "evicted": [pod.key for pod in pods if pod.uid in loop.evicted],
        "pending": [pod.key for pod in pods if pod.uid in pending],
    }

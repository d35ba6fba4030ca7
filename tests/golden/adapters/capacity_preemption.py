"""capacity_preemption: the victims of CapacityScheduling; budgets as with `disruptionBudgets: count`.

In a `scenario` pods come one after the other, are admitted, placed, or have others evicted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from scheduler_plugins.plugins.capacity_scheduling import NAME
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import BudgetsRule, PreemptionContext
from scheduler_plugins.preemption.selection.decide import Decision, decide
from scheduler_plugins.preemption.selection.victims import (
    UNRESOLVABLE,
    Candidate,
    Rejected,
    ineligible,
    pick,
    select_victims,
)
from scheduler_plugins.quota.admission import QuotaExceeded, refusal
from scheduler_plugins.quota.amounts import amounts_of, minus
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from tests.golden.adapters import Adapter
from tests.golden.adapters.elasticquota import NOW, named, standing_in

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
        """Try pods, the most important first, until a pass changes nothing."""
        for _ in range(_ROUNDS):
            waiting = sorted(self.pending, key=lambda pod: -pod.priority)
            placed = next((pod for pod in waiting if self._tried(pod)), None)
            if placed is None:
                return
            self.pending.remove(placed)
        raise AssertionError("pods come and go without end")

    def _tried(self, pod: QuotaPod) -> bool:
        """Return whether a pod was placed, others having been evicted for it if need be."""
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
        """A node's share of used resources, as kube-scheduler computes it by default: it prefers the emptiest."""
        has, taken = self.cluster.nodes[node].allocatable, self.cluster.requested(node)
        return sum(taken.get(name, 0) / has[name] for name in ("cpu", "memory") if has.get(name))


def scenario(vector: Json) -> dict[str, Any]:
    """The outcome of all pods, in the vector's order."""
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


_OF_RESOURCES: Final = frozenset(
    ("containers", "initContainers", "overhead", "resources", "priority", "preemptionPolicy", "nodeName")
)
_UNHELPFUL: Final = "Preemption is not helpful for scheduling"


def cluster_of(vector: Json) -> QuotaCluster:
    cluster = QuotaCluster(NAME, MaxMissing.ZERO)
    for node in vector.get("nodes") or ():
        cluster.put_node({**node, "spec": {}})  # the peer had no filter but that for resources
    for quota in vector.get("elasticQuotas") or ():
        cluster.put_quota(quota.get("quota") or quota)
    for budget in vector.get("podDisruptionBudgets") or ():
        cluster.put_budget(budget)
    for pod in (*(vector.get("pods") or ()), *(vector.get("nominatedPods") or ()), vector["preemptor"]):
        cluster.put_pod(_by_resources(pod))
    return cluster


def _by_resources(pod: Json) -> Json:
    """A pod with no constraint but its requests."""
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key in _OF_RESOURCES}
    return named({**pod, "spec": spec})


def _preempt(vector: Json) -> dict[str, Any]:
    cluster, pod = cluster_of(vector), QuotaPod.from_json(_by_resources(vector["preemptor"]))
    claims = cluster.nominations(NOW)
    fitting, situation = FitModel(pod, cluster, claims), PreemptionContext.of(pod, cluster, NOW)
    statuses = vector.get("filterStatuses") or {}
    nodes = sorted(name for name in cluster.nodes if statuses.get(name) != UNRESOLVABLE)
    result = [select_victims(situation, name, fitting.misfit) for name in nodes]
    candidates = [entry for entry in result if isinstance(entry, Candidate)]
    rejected = [item for item in result if isinstance(item, Rejected)]
    codes = {element.node: _code(element, fitting.unresolvable(element.node)) for element in rejected}
    nominated = statuses.get(pod.nominated)
    return {
        "preFilter": _pre_filter(pod, refusal(pod, cluster.ledger, claims)),
        "candidates": [
            {
                "node": candidate.node,
                "victims": [victim.key for victim in candidate.victims],
                "numPDBViolations": candidate.violations,
            }
            for candidate in candidates
        ],
        "rejectedNodes": {each.node: {"code": codes[each.node], "message": each.reason} for each in rejected},
        "postFilter": _post_filter(ineligible(pod, cluster, NOW, nominated), candidates, rejected, len(cluster.nodes)),
    }


def _pre_filter(pod: QuotaPod, over: QuotaExceeded | None) -> dict[str, str]:
    if over is None:
        return {"code": "Success", "message": ""}
    what = (
        "total ElasticQuota used is more than min" if over.total else f"ElasticQuota {pod.namespace} is more than Max"
    )
    return {"code": "Unschedulable", "message": f"Pod {pod.key} is rejected in PreFilter because {what}"}


def _code(rejected: Rejected, never: str | None) -> str:
    if rejected.needless:
        return "Error"
    return "Unschedulable" if rejected.resolvable and never is None else UNRESOLVABLE


def _post_filter(
    reason: str | None, candidates: list[Candidate], rejected: list[Rejected], nodes: int
) -> dict[str, Any]:
    if reason is not None:
        return {"code": "Unschedulable", "message": reason, "nominatedNode": None, "deleted": []}
    if candidates:
        best = pick(candidates)
        deleted = sorted(victim.key for victim in best.victims if not victim.terminating)
        return {"code": "Success", "message": "", "nominatedNode": best.node, "deleted": deleted}
    errors = [entry.reason for entry in rejected if entry.needless]
    if errors:
        message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return {"code": "Error", "message": message, "nominatedNode": None, "deleted": []}
    counts = Counter(reason for item in rejected for reason in item.reason.split(", "))
    counts[_UNHELPFUL] += nodes - len(rejected)
    texts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items() if count))
    message = f"0/{nodes} nodes are available: {texts}."
    return {"code": "Unschedulable", "message": message, "nominatedNode": "", "deleted": []}


def _pod_eligible(vector: Json) -> dict[str, Any]:
    cluster = cluster_of(vector)
    for inputs in vector.get("elasticQuotas") or ():
        namespace = inputs["quota"]["metadata"]["namespace"]
        rest = minus(amounts_of(inputs.get("used")), cluster.ledger.used(namespace))
        cluster.place(standing_in(namespace, rest))
    reason = ineligible(
        QuotaPod.from_json(_by_resources(vector["preemptor"])), cluster, NOW, vector.get("nominatedNodeStatus")
    )
    return {"eligible": reason is None, "reason": reason or ""}


OPERATIONS: Final[Mapping[str, Adapter]] = {"preempt": _preempt, "pod_eligible": _pod_eligible, "scenario": scenario}

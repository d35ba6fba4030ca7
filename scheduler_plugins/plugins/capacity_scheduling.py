"""CapacityScheduling: used <= max per namespace, and total used <= sum of min.

After upstream's CapacityScheduling. Its refusals never trigger kube-scheduler's own preemption, which knows
no quotas; `scheduler_plugins.preemption` gives borrowed resources back.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from scheduler_plugins.framework.plugin import Problem, ProblemKind, Victims
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.preemption.handler import answer
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.admission import QuotaExceeded, accounts, refusal
from scheduler_plugins.quota.amounts import UNLIMITED, bound, is_extended, quantity
from scheduler_plugins.quota.available import crowded, holders_before
from scheduler_plugins.quota.charge import Charging
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.ignored import IgnoredResources
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.arrays import IntArray, Nodes
from scheduler_plugins.snapshot.in_flight import UNCONFIRMED_SECONDS
from scheduler_plugins.snapshot.ordinary import Prepared
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.steps.formula import Formula

NAME: Final = "CapacityScheduling"  # how profiles and tables call it
ROOM_HELD: Final = "node(s) resources reserved for a preempting pod"
_ROOM_HELD: Final = (Refusal(ROOM_HELD),)
"""Reason for refusing a node with free resources that are reserved for another pod."""
_SHOWN: Final = 3
_LONGEST_NAME: Final = 60
_QUOTED: Final = "ElasticQuota "  # every refusal by quota begins with it
_MAX: Final = "ElasticQuota max exceeded"
_TOTAL: Final = "sum of min over all ElasticQuotas exceeded"


@dataclass(frozen=True, slots=True)
class CapacityScheduling:
    """The plugin; its fields are its arguments."""

    max_missing: MaxMissing = MaxMissing.ZERO
    """The meaning of a `max` that does not name cpu, memory or ephemeral-storage: zero, as upstream's code has it, or
    infinite, as its design text has it."""
    charge: Charging = Charging.CONTAINERS
    """The counted requests of a pod: containers, as upstream's code adds them up, or scheduler, all that kube-scheduler
    reserves for it. By the former, requests of sidecars and pod-level requests are not counted."""
    reclaim: PreemptionSettings = field(default_factory=PreemptionSettings)  # how borrowed resources are given back
    ignored_resources: tuple[str, ...] = ()
    """Extended resources that do not decide where a pod fits: those of NodeResourcesFit's argument of that name, and
    those that another extender manages (`ignoredByScheduler`). A KubeSchedulerConfiguration has them already."""
    ignored_resource_groups: tuple[str, ...] = ()
    """The same for all extended resources with one of these names before the slash."""
    device_classes: Mapping[str, str] | None = None
    """The resource that quotas are charged for each device of a DeviceClass, by the name of the class. Other devices of
    ResourceClaims are not charged. Needs the right to list ResourceClaims and their templates."""

    def defaulted(self) -> "CapacityScheduling":
        return self

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the arguments."""
        inner = self.reclaim.problems()
        return (
            *_resource_problems(self),
            *(Problem(f"reclaim.{problem.field}", problem.kind, problem.message) for problem in inner),
        )

    def new_state(self) -> QuotaCluster:
        return QuotaCluster(NAME, self.max_missing, self.charge, self.ignored, self.device_classes)

    @property
    def ignored(self) -> IgnoredResources:
        """The resources that kube-scheduler ignores."""
        return IgnoredResources(frozenset(self.ignored_resources), frozenset(self.ignored_resource_groups))

    def facts(self, pod: Mapping[str, Any]) -> QuotaPod:
        return QuotaPod.from_json(pod, self.charge, self.reclaim.scheduler_names)

    def alike(self, facts: QuotaPod) -> Hashable:
        """The facts that decide about a pod. A pod with a reservation is unlike all others: it counts for theirs."""
        uid = facts.uid if facts.hold is not None or facts.nominated or facts.claims else ""
        return (facts.namespace, facts.priority, uid, *sorted(facts.charge.items()), *sorted(facts.requests.items()))

    def pre_filter(self, pod: PodRequest, nodes: Nodes) -> Refusal | None:
        """Refuse a pod that would exceed its namespace's max, or the sum of all min."""
        over = _refused(quota_cluster(nodes), as_requested(pod, nodes), nodes.now)
        return None if over is None else Refusal(sentence(over), kind=_TOTAL if over.total else _MAX)

    def recognises(self, text: str) -> bool:
        return _QUOTED in text

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Refuse nodes with resources reserved for other pods, of no less priority, if it would not fit as well."""
        cluster = quota_cluster(nodes)
        if not cluster.claiming:
            return Verdict.all_pass(len(nodes), _ROOM_HELD)
        requested = as_requested(pod, nodes)
        before = holders_before(requested, cluster, nodes.now)
        if not before:
            return Verdict.all_pass(len(nodes), _ROOM_HELD)
        refused: IntArray = np.full(len(nodes), PASSES, np.int64)
        rows = [row for row, name in enumerate(nodes.names) if name in before]
        full = crowded(requested, cluster, {nodes.names[row]: before[nodes.names[row]] for row in rows})
        refused[[row for row in rows if nodes.names[row] in full]] = 0
        return Verdict(refused, _ROOM_HELD)

    def formula(self) -> Formula:
        return Formula()

    def prepare(self, pod: PodRequest, nodes: Nodes) -> Prepared:
        """A pod passes if its quota admits it, and no resources are reserved for pods before it."""
        cluster, requested = quota_cluster(nodes), as_requested(pod, nodes)
        held = cluster.claiming and holders_before(requested, cluster, nodes.now)
        return False if held or _refused(cluster, requested, nodes.now) is not None else None

    def post_filter(self, pod: PodRequest, nodes: Nodes, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The victims that the rules of quotas allow kube-scheduler's own preemption, by node."""
        rule, reclaiming = self.reclaim.disruption_budgets, self.reclaim.enabled and not self.reclaim.dry_run
        return answer(as_requested(pod, nodes), quota_cluster(nodes), nodes.now, victims, rule, reclaiming=reclaiming)

    def explain(self, pod: PodRequest, nodes: Nodes) -> Sequence[Mapping[str, Any]]:
        """Return used, claimed and guaranteed amounts of the pod's quota and of all; of a node, its reservations."""
        cluster, requested = quota_cluster(nodes), as_requested(pod, nodes)
        over = _refused(cluster, requested, nodes.now)
        same: dict[str, Any] = account(cluster, requested, nodes.now)
        if over is not None:
            same["binding"] = sentence(over)
        before = holders_before(requested, cluster, nodes.now)
        full = crowded(requested, cluster, before)
        explained = []
        for name in nodes.names:
            each = {**same, "reservedFor": [holder.key for holder in before.get(name, ())]}
            if over is None and name in full:
                each["binding"] = f"it does not fit beside resources reserved for {', '.join(each['reservedFor'])}"
            explained.append(each)
        return explained


def _resource_problems(plugin: CapacityScheduling) -> Iterator[Problem]:
    """Yield names that are not of extended resources, as kube-scheduler checks its own arguments."""
    for index, name in enumerate(plugin.ignored_resources):
        if not is_extended(name):
            text = f"{name[:_LONGEST_NAME]!r} is not an extended resource: write it like example.com/gpu"
            yield Problem(f"ignoredResources[{index}]", ProblemKind.INVALID, text)
    for name, resource in (plugin.device_classes or {}).items():
        if not is_extended(resource):
            text = f"{resource[:_LONGEST_NAME]!r} is not an extended resource: write it like example.com/gpu"
            yield Problem(f"deviceClasses.{name[:_LONGEST_NAME]}", ProblemKind.INVALID, text)
    for index, name in enumerate(plugin.ignored_resource_groups):
        if not name or "/" in name:
            text = f"{name[:_LONGEST_NAME]!r} is not a group: write the part before the slash, like example.com"
            yield Problem(f"ignoredResourceGroups[{index}]", ProblemKind.INVALID, text)


def quota_cluster(nodes: Nodes) -> QuotaCluster:
    """The cluster as quotas see it."""
    result = nodes.plugin_states[NAME]
    assert isinstance(result, QuotaCluster)  # noqa: S101 - it is what `keep` made
    return result


def as_requested(pod: PodRequest, nodes: Nodes) -> QuotaPod:
    """Return the pod of a request with its charge."""
    facts = quota_cluster(nodes).devices.charged(pod.facts[NAME])
    return facts if facts.uid == pod.uid else replace(facts, uid=pod.uid, name=pod.key.partition("/")[2])


def sentence(over: QuotaExceeded) -> str:
    """Return why a pod is refused, with the arithmetic.

    One: "ElasticQuota a/qa: nvidia.com/gpu used 6 + requested 1 > max 6 (min 4, sum of min 10)". The other:
    "ElasticQuota a/qa: memory used by all quotas 9Gi + requested 2Gi > sum of min 10Gi (used 3Gi, min 4Gi, max 6Gi)".
    """
    name, quota = over.resource, over.quota
    parts = [f"{'used by all quotas' if over.total else 'used'} {quantity(name, over.used)}"]
    if over.terminating:
        parts[0] += f" - terminating {quantity(name, over.terminating)}"
    if over.unconfirmed:
        parts.append(f"possibly admitted before a restart {quantity(name, over.unconfirmed)}")
    if over.claimed:
        parts.append(f"claimed by pods before it {quantity(name, over.claimed)}")
    parts.append(f"requested {quantity(name, over.requested)}")
    least = quantity(name, quota.min.get(name, 0))
    if over.total:
        most = bound(name, quota.max.get(name, UNLIMITED))
        exceeded = f"sum of min {quantity(name, over.bound)}"
        beside = f"used {quantity(name, over.own)}, min {least}, max {most}"
    else:
        exceeded = f"max {quantity(name, over.bound)}"
        beside = f"min {least}, sum of min {quantity(name, over.total_min)}"
        beside += f"; {name} is not in its max" if name in quota.left_out else ""
    if over.waits_for:
        shown = ", ".join(over.waits_for[:_SHOWN]) + (" and others" if len(over.waits_for) > _SHOWN else "")
        beside += f"; waits until pods of {shown} that were pending at the extender's start are bound or requested,"
        beside += f" {UNCONFIRMED_SECONDS:.0f} s at most"
    return f"{_QUOTED}{quota.key}: {name} {' + '.join(parts)} > {exceeded} ({beside})"


def account(cluster: QuotaCluster, pod: QuotaPod, now: float) -> dict[str, Any]:
    """Return the compared amounts of a pod, by resource, as quantities."""
    ledger, quota = cluster.ledger, cluster.ledger.quota(pod.namespace)
    if quota is None:
        return {"quota": None}
    of_max, of_min = accounts(pod, ledger, quota, cluster.nominations(now))
    lines = {
        "requested": pod.charge,
        "used": of_max.used,
        "claimedInNamespace": of_max.claimed,
        "max": quota.max,
        "min": quota.min,
        "usedByAll": of_min.used,
        "claimedByAll": of_min.claimed,
        "sumOfMin": ledger.total_min,
    }
    shown = {
        line: {
            name: bound(name, amount)
            for name, amount in amounts.items()
            if quota.concerns(name) and (amount or name in pod.charge)
        }
        for line, amounts in lines.items()
    }
    return {"quota": quota.key, **shown}


def _refused(cluster: QuotaCluster, pod: QuotaPod, now: float) -> QuotaExceeded | None:
    if cluster.ledger.quota(pod.namespace) is None:
        return None
    return refusal(pod, cluster.ledger, cluster.nominations(now), cluster.unconfirmed)

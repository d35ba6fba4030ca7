"""The fit of a pod on a node without some others: a model of kube-scheduler 1.36's filters with default settings.

Reasons are in kube-scheduler's words. `FitModel.unresolvable` names the unresolvable ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from headroom.cluster.node_selection import required_nodes
from scheduler_plugins.preemption.constraints import (
    CORDONED,
    OTHER_NODES,
    PORTS_TAKEN,
    TAINTED,
    beyond_model,
    insufficient,
    keeps_away,
    pod_constraints,
    ports_conflict,
    tolerates_cordon,
)
from scheduler_plugins.quota.amounts import CORE, NOTHING, Amounts, is_extended, plus
from scheduler_plugins.quota.available import is_before
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.nominations import Nomination
from scheduler_plugins.quota.objects import QuotaNode
from scheduler_plugins.quota.pod import QuotaPod

GONE: Final = "node is gone"  # of a node that is not known
OTHER_NAME: Final = "node(s) didn't match the requested node name"  # kube-scheduler's text
TOO_MANY: Final = "Too many pods"  # kube-scheduler's text


class FitModel:
    """The model for one pod at one moment: the cluster must not change while it is in use.

    Pods that are expected on a node, because they were admitted to it or nominated with a higher rank, take
    resources there. As in kube-scheduler, a pod must fit with them and, as they may not come, without them.
    """

    def __init__(self, pod: QuotaPod, cluster: QuotaCluster, nominations: Iterable[Nomination]) -> None:
        self._pod, self._cluster = pod, cluster
        self._spec: Mapping[str, Any] = (pod.json or {}).get("spec") or {}
        self._tolerations = tuple(self._spec.get("tolerations") or ())
        self._required = required_nodes(self._spec)
        names = sorted(pod.requests, key=lambda name: (name != "pods", name not in CORE))
        self._requests = {name: pod.requests[name] for name in names if pod.requests[name] > 0}
        # An extended resource that kube-scheduler found too little of is one that it counts on the nodes.
        counted = insufficient(pod.json or {})
        self._extended = [name for name in self._requests if is_extended(name) and name not in counted]
        self._expected: dict[str, dict[str, Nomination | QuotaPod]] = defaultdict(dict)
        for nomination in nominations:
            self._expected[nomination.node][nomination.uid] = nomination
        self._on_their_way: dict[str, QuotaPod] = {}
        for other, nodes in cluster.on_their_way:
            self._on_their_way[other.uid] = other
            for node in nodes:
                self._expected[node][other.uid] = other
        self._unresolvable: dict[str, str | None] = {}
        self._coming: dict[str, _Coming] = {}

    def misfit(self, node: str, without: AbstractSet[str]) -> str | None:
        """Return why the pod would not fit a node without the pods of these uids, on any nodes; None: it fits."""
        if reason := self._mismatch(node):
            return reason
        coming = self._comes_to(node)
        reason = self._misfit(node, without, coming)
        return self._misfit(node, without, _NOTHING_COMES) if reason is None and coming.pods else reason

    def unresolvable(self, node: str) -> str | None:
        """Return why the pod would not fit a node after any eviction; None: it might."""
        return self._mismatch(node) or _lacking(self._requests_on(node), self._cluster.nodes[node].allocatable, NOTHING)

    @property
    def unmodelled(self) -> list[str]:
        """The constraints of the pod that the model does not cover: only kube-scheduler knows where such a pod fits."""
        return [*self.pod_constraints, *beyond_model(self._spec)]

    @cached_property
    def pod_constraints(self) -> list[str]:
        """The constraints through which its fit depends on other pods."""
        return list(pod_constraints(self._pod, self._cluster.with_anti_affinity, self._cluster.namespaces))

    def _mismatch(self, name: str) -> str | None:
        """Return why a node can never take this pod, in the order of kube-scheduler's filters."""
        if name not in self._unresolvable:
            self._unresolvable[name] = self._why_mismatch(self._cluster.nodes.get(name))
        return self._unresolvable[name]

    def _why_mismatch(self, node: QuotaNode | None) -> str | None:
        if node is None:
            return GONE
        if node.unschedulable and not tolerates_cordon(self._tolerations):
            return CORDONED
        if (wanted := self._spec.get("nodeName")) and wanted != node.name:
            return OTHER_NAME
        if node.taints and keeps_away(node.taints, self._tolerations):
            return TAINTED
        return None if self._required is None or self._required(node) else OTHER_NODES

    def _comes_to(self, name: str) -> "_Coming":
        """Yield the pods expected on a node beside the bound ones."""
        if name not in self._expected:
            return _NOTHING_COMES
        if name not in self._coming:
            requests: Amounts = NOTHING
            pods = []
            for uid, expected in self._expected[name].items():
                cached = self._on_their_way.get(uid) or self._cluster.pods.get(uid)
                yields = isinstance(expected, Nomination) and expected.priority < self._pod.priority
                if yields and isinstance(expected, Nomination) and expected.victims and cached is not None:
                    yields = not is_before(cached, self._pod, self._cluster)
                if uid == self._pod.uid or yields or (cached is not None and uid in self._cluster.on_node(cached.node)):
                    continue
                requests = plus(requests, expected.requests)
                if cached is not None:
                    pods.append(cached)
            self._coming[name] = _Coming(requests, tuple(pods))
        return self._coming[name]

    def _misfit(self, name: str, without: AbstractSet[str], coming: "_Coming") -> str | None:
        """Return which ports or resources are taken, in the order of kube-scheduler's filters."""
        there = self._cluster.on_node(name)
        if self._pod.host_ports:
            staying = (pod for uid, pod in there.items() if uid not in without)
            used = (port for pods in (staying, coming.pods) for pod in pods for port in pod.host_ports)
            if ports_conflict(self._pod.host_ports, used):
                return PORTS_TAKEN
        if len(without) < len(there):
            gone = [there[uid].requests for uid in without if uid in there]
        else:
            gone = [pod.requests for uid, pod in there.items() if uid in without]
        has, taken = self._cluster.nodes[name].allocatable, self._cluster.requested(name)
        return _lacking(self._requests_on(name), has, taken, coming.requests, gone)

    def _requests_on(self, node: str) -> Amounts:
        """Return the requests that the model of a node covers."""
        has, ignored = self._cluster.nodes[node].allocatable, self._cluster.ignored
        outside = {name for name in self._extended if ignored.outside(name, has)}
        if not outside:
            return self._requests
        return {name: amount for name, amount in self._requests.items() if name not in outside}


@dataclass(frozen=True, slots=True)
class _Coming:
    """The pods expected on a node."""

    requests: Amounts  # all together
    pods: tuple[QuotaPod, ...]  # the pods


_NOTHING_COMES: Final = _Coming(NOTHING, ())


def _lacking(
    requests: Amounts, has: Amounts, taken: Amounts, coming: Amounts = NOTHING, gone: Iterable[Amounts] = ()
) -> str | None:
    """Return the missing resources: requests > has - (taken + coming - gone)."""
    lacking = []
    for name, amount in requests.items():
        free = has.get(name, 0) - taken.get(name, 0) - coming.get(name, 0)
        if amount > free and amount > free + sum(pod.get(name, 0) for pod in gone):
            lacking.append(TOO_MANY if name == "pods" else f"Insufficient {name}")
    return ", ".join(lacking) or None

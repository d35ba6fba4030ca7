"""Whether a pod fits a node once others are gone: a model of kube-scheduler 1.36's filters with its default settings.

Reasons are in kube-scheduler's words. What kube-scheduler reports as unresolvable is what `FitModel.never` names.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler_plugins.preemption.constraints import (
    CORDONED,
    OTHER_NODES,
    PORTS_TAKEN,
    TAINTED,
    NodeTest,
    between_pods,
    beyond_model,
    keeps_away,
    ports_conflict,
    required_nodes,
    tolerates_cordon,
)
from scheduler_plugins.quota.amounts import CORE, NOTHING, Amounts, plus
from scheduler_plugins.quota.available import is_before
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.nominations import Nomination
from scheduler_plugins.quota.objects import QuotaNode
from scheduler_plugins.quota.pod import QuotaPod

GONE: Final = "node is gone"  # of a node that is not known
OTHER_NAME: Final = "node(s) didn't match the requested node name"  # as kube-scheduler says it
TOO_MANY: Final = "Too many pods"  # as kube-scheduler says it


class FitModel:
    """The model, for one moment: the cluster must not change while it is in use. Make a new one for each decision.

    Pods that are expected on a node, because it was answered for them or they have a claim to it and come first, take
    room there. As in kube-scheduler, a pod must fit with them and, as they may not come, without them.
    """

    def __init__(self, cluster: QuotaCluster, nominations: Iterable[Nomination]) -> None:
        self._cluster = cluster
        self._expected: dict[str, dict[str, Nomination | QuotaPod]] = defaultdict(dict)
        for nomination in nominations:
            self._expected[nomination.node][nomination.uid] = nomination
        self._on_their_way: dict[str, QuotaPod] = {}
        for pod, nodes in cluster.on_their_way:
            self._on_their_way[pod.uid] = pod
            for node in nodes:
                self._expected[node][pod.uid] = pod
        self._asked: dict[str, _Asked] = {}

    def misfit(self, pod: QuotaPod, node: str, without: AbstractSet[str]) -> str | None:
        """Why a pod would not fit a node.

        Returns:
            The reason; None: it fits.
        """
        asked = self._of(pod)
        if reason := self._unwanted(asked, node):
            return reason
        coming = self._coming(asked, node)
        reason = self._misfit(asked, node, without, coming)
        return self._misfit(asked, node, without, _NOTHING_COMES) if reason is None and coming.pods else reason

    def never(self, pod: QuotaPod, node: str) -> str | None:
        """Why a pod would not fit a node whoever were evicted; None: it might."""
        asked = self._of(pod)
        if node not in asked.never:
            asked.never[node] = self._unwanted(asked, node) or self._unresolvable(asked, node)
        return asked.never[node]

    def unmodelled(self, pod: QuotaPod) -> list[str]:
        """What of a pod cannot be judged here: kube-scheduler alone knows where such a pod fits."""
        return [*self.between_pods(pod), *beyond_model((pod.json or {}).get("spec") or {})]

    def between_pods(self, pod: QuotaPod) -> list[str]:
        """What of a pod makes a node depend on which pods run where."""
        asked = self._of(pod)
        if asked.between is None:
            asked.between = list(between_pods(pod, self._cluster.with_anti_affinity, self._cluster.namespaces))
        return asked.between

    # What does not depend on the node

    def _of(self, pod: QuotaPod) -> "_Asked":
        asked = self._asked.get(pod.uid)
        if asked is None or asked.pod is not pod:
            asked = self._asked[pod.uid] = self._read(pod)
        return asked

    def _read(self, pod: QuotaPod) -> "_Asked":
        spec: Mapping[str, Any] = (pod.json or {}).get("spec") or {}
        tolerations, required = tuple(spec.get("tolerations") or ()), required_nodes(spec)
        names = sorted(pod.requests, key=lambda name: (name != "pods", name not in CORE))
        requests = {name: pod.requests[name] for name in names if pod.requests[name] > 0}
        return _Asked(pod, requests, tolerations, str(spec.get("nodeName") or ""), required)

    # What does

    def _unwanted(self, asked: "_Asked", name: str) -> str | None:
        """Why a node is not for this pod whoever is there."""
        if name not in asked.unwanted:
            node = self._cluster.nodes.get(name)
            asked.unwanted[name] = GONE if node is None else asked.why_unwanted(node)
        return asked.unwanted[name]

    def _unresolvable(self, asked: "_Asked", name: str) -> str | None:
        """Why it would not fit a node even if that were empty."""
        return _lacking(asked.requests, self._cluster.nodes[name].allocatable, NOTHING)

    def _misfit(self, asked: "_Asked", name: str, without: AbstractSet[str], coming: "_Coming") -> str | None:
        """In the order of kube-scheduler's filters."""
        node = self._cluster.nodes[name]
        return self._ports(asked, name, without, coming) or self._resources(asked, node, without, coming)

    def _coming(self, asked: "_Asked", name: str) -> "_Coming":
        """What is expected on a node beside what is bound there."""
        if name not in self._expected:
            return _NOTHING_COMES
        if name not in asked.coming:
            requests: Amounts = NOTHING
            pods = []
            for uid, expected in self._expected[name].items():
                known = self._on_their_way.get(uid) or self._cluster.pods.get(uid)
                yields = isinstance(expected, Nomination) and expected.priority < asked.pod.priority
                if yields and isinstance(expected, Nomination) and expected.victims and known is not None:
                    yields = not is_before(known, asked.pod, self._cluster)
                if uid == asked.pod.uid or yields or (known is not None and uid in self._cluster.on_node(known.node)):
                    continue
                requests = plus(requests, expected.requests)
                if known is not None:
                    pods.append(known)
            asked.coming[name] = _Coming(requests, tuple(pods))
        return asked.coming[name]

    def _ports(self, asked: "_Asked", name: str, without: AbstractSet[str], coming: "_Coming") -> str | None:
        if not asked.pod.host_ports:
            return None
        there = (pod for uid, pod in self._cluster.on_node(name).items() if uid not in without)
        used = (port for pods in (there, coming.pods) for pod in pods for port in pod.host_ports)
        return PORTS_TAKEN if ports_conflict(asked.pod.host_ports, used) else None

    def _resources(self, asked: "_Asked", node: QuotaNode, without: AbstractSet[str], coming: "_Coming") -> str | None:
        there = self._cluster.on_node(node.name)
        if len(without) < len(there):
            gone = [there[uid].requests for uid in without if uid in there]
        else:
            gone = [pod.requests for uid, pod in there.items() if uid in without]
        taken = self._cluster.requested(node.name)
        return _lacking(asked.requests, node.allocatable, taken, coming.requests, gone)


@dataclass(frozen=True, slots=True)
class _Coming:
    """What is expected on a node."""

    requests: Amounts  # all together
    pods: tuple[QuotaPod, ...]  # whose they are


_NOTHING_COMES: Final = _Coming(NOTHING, ())


@dataclass(slots=True)
class _Asked:
    """What does not depend on the node, and what was found out of nodes."""

    pod: QuotaPod
    requests: Amounts  # of which it asks for any, in the order of kube-scheduler's reasons
    tolerations: tuple[Mapping[str, Any], ...]
    node_name: str
    required_nodes: NodeTest | None
    between: list[str] | None = None
    unwanted: dict[str, str | None] = field(default_factory=dict)
    never: dict[str, str | None] = field(default_factory=dict)
    coming: dict[str, _Coming] = field(default_factory=dict)

    def why_unwanted(self, node: QuotaNode) -> str | None:
        """Why the node is not for this pod whoever is there, in the order of kube-scheduler's filters."""
        if node.unschedulable and not tolerates_cordon(self.tolerations):
            return CORDONED
        if self.node_name and self.node_name != node.name:
            return OTHER_NAME
        if node.taints and keeps_away(node.taints, self.tolerations):
            return TAINTED
        return None if self.required_nodes is None or self.required_nodes(node) else OTHER_NODES


def _lacking(
    requests: Amounts, has: Amounts, taken: Amounts, coming: Amounts = NOTHING, gone: Iterable[Amounts] = ()
) -> str | None:
    """What there is too little of: requests > has - (taken + coming - gone)."""
    lacking = []
    for name, amount in requests.items():
        free = has.get(name, 0) - taken.get(name, 0) - coming.get(name, 0)
        if amount > free and amount > free + sum(each.get(name, 0) for each in gone):
            lacking.append(TOO_MANY if name == "pods" else f"Insufficient {name}")
    return ", ".join(lacking) or None

"""Whether a pod fits a node once others are gone: a model of kube-scheduler 1.36's filters with its default settings.

Reasons are in kube-scheduler's words. What kube-scheduler reports as unresolvable is what `Fitting.never` names.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler_plugins.quota.admission import Claim
from scheduler_plugins.quota.amounts import CORE, NOTHING, Amounts, plus
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.node import QuotaNode
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.reclaim.constraints import ports
from scheduler_plugins.reclaim.constraints.node_affinity import REASON as OTHER_NODES
from scheduler_plugins.reclaim.constraints.node_affinity import NodeTest, required_nodes
from scheduler_plugins.reclaim.constraints.taints import CORDONED, TAINTED, keeps_away, tolerates_cordon
from scheduler_plugins.reclaim.constraints.unmodelled import beyond_model

GONE: Final = "node is gone"
"""Of a node that is not known."""
OTHER_NAME: Final = "node(s) didn't match the requested node name"
"""As kube-scheduler says it."""
TOO_MANY: Final = "Too many pods"
"""As kube-scheduler says it."""


class Fitting:
    """The model, for one moment: the cluster must not change while it is in use. Make a new one for each decision.

    Args:
        cluster: nodes and pods.
        claims: of all pods; those of no less priority than a pod's take room from it.
    """

    def __init__(self, cluster: QuotaCluster, claims: Iterable[Claim]) -> None:
        self._cluster = cluster
        self._claims: dict[str, list[Claim]] = defaultdict(list)
        for claim in claims:
            self._claims[claim.node].append(claim)
        self._asked: dict[str, _Asked] = {}

    def misfit(self, pod: QuotaPod, node: str, without: AbstractSet[str]) -> str | None:
        """Why a pod would not fit a node.

        Args:
            pod: the pod; it is pending.
            node: the node's name.
            without: uids of pods, on any nodes, that are taken away.

        Returns:
            The reason; None: it fits.
        """
        if reason := self.never(pod, node):
            return reason
        asked, found = self._of(pod), self._cluster.nodes[node]
        return self._ports(asked, node, without) or self._resources(asked, found, without)

    def never(self, pod: QuotaPod, node: str) -> str | None:
        """Why a pod would not fit a node whoever were evicted; None: it might."""
        asked = self._of(pod)
        if node not in asked.never:
            asked.never[node] = self._never(asked, node)
        return asked.never[node]

    def unmodelled(self, pod: QuotaPod) -> list[str]:
        """What of a pod cannot be judged here: kube-scheduler alone knows where such a pod fits."""
        return list(beyond_model(_spec(pod)))

    def _of(self, pod: QuotaPod) -> "_Asked":
        asked = self._asked.get(pod.uid)
        if asked is None or asked.pod is not pod:
            asked = self._asked[pod.uid] = _Asked.of_pod(pod)
        return asked

    def _never(self, asked: "_Asked", name: str) -> str | None:
        """In the order of kube-scheduler's filters."""
        node = self._cluster.nodes.get(name)
        if node is None:
            return GONE
        if node.unschedulable and not asked.tolerates_cordon:
            return CORDONED
        if asked.node_name and asked.node_name != name:
            return OTHER_NAME
        if node.taints and keeps_away(node.taints, asked.tolerations):
            return TAINTED
        if asked.required_nodes is not None and not asked.required_nodes(node):
            return OTHER_NODES
        return _lacking(asked.requests, node.allocatable, NOTHING)

    def _ports(self, asked: "_Asked", name: str, without: AbstractSet[str]) -> str | None:
        if not asked.pod.host_ports:
            return None
        pods = [pod for uid, pod in self._cluster.on_node(name).items() if uid not in without]
        pods += [pod for _, pod in self._coming(asked, name) if pod is not None]
        used = (port for pod in pods for port in pod.host_ports)
        return ports.REASON if ports.conflict(asked.pod.host_ports, used) else None

    def _resources(self, asked: "_Asked", node: QuotaNode, without: AbstractSet[str]) -> str | None:
        if node.name not in asked.coming:
            coming: Amounts = NOTHING
            for requests, _ in self._coming(asked, node.name):
                coming = plus(coming, requests)
            asked.coming[node.name] = coming
        there = self._cluster.on_node(node.name)
        gone = [there[uid].requests for uid in without if uid in there]
        return _lacking(
            asked.requests, node.allocatable, self._cluster.requested(node.name), asked.coming[node.name], gone
        )

    def _coming(self, asked: "_Asked", name: str) -> Iterator[tuple[Amounts, QuotaPod | None]]:
        """What is expected on a node beside what is bound there: requests, and whose they are where that is known."""
        seen = {asked.pod.uid}
        for pod in self._cluster.answered(name):
            if pod.uid not in seen:
                seen.add(pod.uid)
                yield pod.requests, pod
        for claim in self._claims.get(name, ()):
            if claim.uid not in seen and claim.priority >= asked.pod.priority:
                yield claim.requests, self._cluster.pods.get(claim.uid)


@dataclass(slots=True)
class _Asked:
    """What does not depend on the node, and what was found out of nodes."""

    pod: QuotaPod
    requests: Mapping[str, int]
    """Of which it asks for any, in the order of kube-scheduler's reasons."""
    tolerations: tuple[Mapping[str, Any], ...]
    tolerates_cordon: bool
    node_name: str
    required_nodes: NodeTest | None
    never: dict[str, str | None] = field(default_factory=dict)
    coming: dict[str, Amounts] = field(default_factory=dict)

    @classmethod
    def of_pod(cls, pod: QuotaPod) -> "_Asked":
        spec = _spec(pod)
        tolerations = tuple(spec.get("tolerations") or ())
        names = sorted(pod.requests, key=lambda name: (name != "pods", name not in CORE))
        return cls(
            pod,
            {name: pod.requests[name] for name in names if pod.requests[name] > 0},
            tolerations,
            tolerates_cordon(tolerations),
            str(spec.get("nodeName") or ""),
            required_nodes(spec),
        )


def _spec(pod: QuotaPod) -> Mapping[str, Any]:
    return (pod.json or {}).get("spec") or {}


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

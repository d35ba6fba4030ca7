"""What uninstalling takes away, and what stays because Mid pods still run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli import manager_state
from crds.names import ANNOTATION_CONFIG_STATE, LAST_GOOD_NAME
from kubeapi import paths
from manager import node_metric
from manager.explain.terms import amount
from manager.facts import Amounts, PodFacts, Resource
from manager.node_metric import Kept as OurPart
from manager.patches import offers, status_patch

WEBHOOK_SECRET: Final = "headroom-manager-webhook-tls"  # noqa: S105 - a name
"""The Secret with the webhook's certificates."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One object that is changed or deleted."""

    kind: str
    """Kind of the object."""
    name: str
    """Its name, with the namespace where it has one."""
    what: str
    """What happens, in words."""
    path: str
    """Where it is."""
    patch: Json | None = None
    """What is merged into it; None deletes it."""
    uid: str = ""
    """Only this very object is deleted; empty for any."""


@dataclass(frozen=True, slots=True)
class OfferingNode:
    """A Node that has Mid resources."""

    name: str
    """Its name."""
    offered: Mapping[Resource, int | None]
    """What it offers; None for no such resource. [milli-cores, bytes]"""
    consistent: bool
    """Whether capacity and allocatable say the same."""


@dataclass(frozen=True, slots=True)
class Busy:
    """A Node that keeps Mid resources, because Mid pods run there."""

    node: str
    """Its name."""
    bought: Amounts
    """What they bought."""
    pods: tuple[str, ...]
    """The pods, namespace/name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    changes: tuple[Change, ...]
    """In order of kinds: Nodes first, the Lease last."""
    busy: tuple[Busy, ...]
    """Nodes with running Mid pods."""
    foreign: int
    """NodeMetrics that somebody else made; they stay."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is in the cluster."""

    namespace: str
    """Headroom's namespace."""
    nodes: Sequence[OfferingNode]
    """Nodes with Mid resources."""
    node_metrics: Sequence[Change]
    """Deletions of the NodeMetrics that the manager wrote."""
    foreign: int
    """How many others there are."""
    mid_pods: Sequence[PodFacts]
    """Bound Mid pods that have not ended."""
    config_map: Json | None
    """The user's colocation ConfigMap."""
    last_good: Json | None
    """The manager's own ConfigMap."""
    secret: Json | None
    """The webhook's Secret."""
    lease: Json | None
    """The manager's Lease."""


def offering(node: Json) -> OfferingNode | None:
    """What is kept of a Node; None when it offers nothing."""
    found = offers(node)
    if all(each.amount is None for each in found.values()):
        return None
    return OfferingNode(
        str(node["metadata"]["name"]),
        {resource: offer.amount for resource, offer in found.items()},
        all(each.consistent for each in found.values()),
    )


def deletion_of_metric(metric: Json) -> Change | None:
    """The deletion of a NodeMetric; None when somebody else made it."""
    if not OurPart.from_object(metric).is_ours:
        return None
    metadata = metric["metadata"]
    name = str(metadata["name"])
    return Change("NodeMetric", name, "deleted", node_metric.path(name), uid=str(metadata.get("uid", "")))


def plan(found: Found, *, force: bool) -> Plan:
    """What is to be done about what there is.

    A Node with Mid pods keeps exactly what they bought: with less, the kubelet would fail them at its next restart,
    and with more, further pods could come.

    Args:
        found: what there is.
        force: take everything from such Nodes, too.
    """
    running: dict[str, list[PodFacts]] = {}
    for pod in found.mid_pods:
        running.setdefault(pod.node, []).append(pod)
    busy = tuple(_busy(node.name, running[node.name]) for node in found.nodes if node.name in running)
    bought = {} if force else {each.node: each.bought for each in busy}
    changes = [_of_node(node, bought.get(node.name)) for node in found.nodes]
    return Plan(
        (*(each for each in changes if each is not None), *found.node_metrics, *_of_namespace(found)),
        busy,
        found.foreign,
    )


def _busy(node: str, pods: Sequence[PodFacts]) -> Busy:
    bought = sum((pod.mid_requests for pod in pods), Amounts())
    return Busy(node, bought, tuple(sorted(pod.key for pod in pods)))


def _of_node(node: OfferingNode, bought: Amounts | None) -> Change | None:
    """The change of one Node; None when it offers just what its pods bought."""
    writes: dict[Resource, int | None] = {}
    words = []
    for resource, offered in node.offered.items():
        if offered is None:
            continue
        left = None if bought is None else min(bought[resource], max(offered, 0))
        if left == offered and node.consistent:
            continue
        writes[resource] = left
        shown = f"{resource.mid_name.rpartition('/')[2]} {amount(resource, offered)}"
        words.append(f"{shown} removed" if left is None else f"{shown} lowered to {amount(resource, left)}")
    if not writes:
        return None
    return Change("Node", node.name, ", ".join(words), paths.status(paths.node(node.name)), status_patch(writes))


def _of_namespace(found: Found) -> Iterable[Change]:
    namespace = found.namespace
    if found.config_map is not None:
        metadata = found.config_map["metadata"]
        if ANNOTATION_CONFIG_STATE in (metadata.get("annotations") or {}):
            name = str(metadata["name"])
            yield Change(
                "ConfigMap",
                f"{namespace}/{name}",
                f"annotation {ANNOTATION_CONFIG_STATE} removed, the rest is yours and stays",
                paths.config_map(namespace, name),
                {"metadata": {"annotations": {ANNOTATION_CONFIG_STATE: None}}},
            )
    owned = (
        ("ConfigMap", found.last_good, paths.config_map(namespace, LAST_GOOD_NAME)),
        ("Secret", found.secret, secret_path(namespace)),
        ("Lease", found.lease, paths.lease(namespace, manager_state.NAME)),
    )
    for kind, obj, path in owned:
        if obj is not None:
            yield Change(kind, f"{namespace}/{path.rpartition('/')[2]}", "deleted", path, uid=_uid(obj))


def secret_path(namespace: str) -> str:
    """Path of the webhook's Secret."""
    return f"/api/v1/namespaces/{namespace}/secrets/{WEBHOOK_SECRET}"


def mid_pod(pod: Json) -> PodFacts | None:
    """What is kept of a pod; None when it holds no Mid resources."""
    facts = PodFacts.from_object(pod)
    return facts if facts.holds_mid else None


def _uid(obj: Json) -> str:
    return str(obj["metadata"].get("uid") or "")

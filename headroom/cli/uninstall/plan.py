"""What uninstalling takes away, and what stays because Mid pods still run. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crds.names import ANNOTATION_CONFIG_STATE, LAST_GOOD_NAME
from headroom.cli.uninstall import services
from headroom.kube import paths
from manager import node_metric
from manager.inputs import Amounts, PodInputs, Resource, total
from manager.mid.explanation.managed_fields import sold_by_koordinator
from manager.mid.explanation.terms import amount
from manager.mid.publish import published_amounts, status_patch
from manager.node_metric import ManagedFields as OurPart

WEBHOOK_SECRET: Final = "headroom-manager-webhook-tls"  # noqa: S105 - a name
"""The Secret with the webhook's certificates."""
TEST_POD: Final = "headroom-doctor"
"""The pod of `helm test`, which stays when it fails."""
PRIORITY_CLASSES: Final = ("koord-prod", "koord-mid", "koord-batch", "koord-free")
"""The PriorityClasses that the chart makes where there are none."""
_PART_OF: Final = "app.kubernetes.io/part-of"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asks for."""

    force: bool = False
    """Take Mid resources away although Mid pods run."""
    stop_selling: bool = False
    """Where Mid pods run, take away all but what they bought."""
    delete_config: bool = False
    """Delete the colocation ConfigMap too, if the chart made it."""
    delete_priority_classes: bool = False
    """Delete the PriorityClasses that the chart made and no pod or workload names."""

    def refuses(self, plan: "Plan") -> bool:
        """Whether nothing at all is to be done, because Mid pods run."""
        return bool(plan.busy) and not (self.force or self.stop_selling)

    def is_over(self, plan: "Plan") -> bool:
        """Whether nothing of ours is to work on afterwards."""
        return not plan.busy or self.force


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
    foreign: bool = False
    """Whether Koordinator's manager wrote them: they stay."""


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
    named: tuple[str, ...] = ()
    """PriorityClasses that stay because pods or workloads name them."""
    foreign_nodes: int = 0
    """Nodes whose Mid resources Koordinator's manager wrote; they stay."""
    scheduler: str = ""
    """What pods call our scheduler, which places none afterwards."""
    unplaced: tuple[str, ...] = ()
    """What names that scheduler: workloads, and pods of nobody's that wait; kind and namespace/name."""


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes pods, or is one."""

    name: str
    """Kind and namespace/name."""
    priority_class: str
    """What its pods name; empty for none."""
    scheduler: str
    """What its pods name; empty for the cluster's own."""


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
    mid_pods: Sequence[PodInputs]
    """Bound Mid pods that have not ended."""
    config_map: Json | None
    """The user's colocation ConfigMap."""
    last_good: Json | None
    """The manager's copy of the last good config."""
    shadow: Mapping[str, Json]
    """The ConfigMaps with accounts of shadow mode, by name."""
    secret: Json | None
    """The webhook's Secret."""
    lease: Json | None
    """The manager's Lease."""
    test_pod: Json | None = None
    """What a failed `helm test` left."""
    scheduler: Json | None = None
    """The scheduler's Deployment."""
    scheduler_lease: Json | None = None
    """The Lease of its replicas."""
    priority_classes: Sequence[Json] = ()
    """The PriorityClasses of our names, where they are asked for."""
    class_names: Mapping[str, int] = field(default_factory=Counter)
    """How many pods and workloads name a PriorityClass."""
    makers: Sequence[Maker] = ()
    """Workloads, and waiting pods that no workload made."""


def offering(node: Json) -> OfferingNode | None:
    """What is kept of a Node; None when it offers nothing."""
    found = published_amounts(node)
    if all(each.amount is None for each in found.values()):
        return None
    return OfferingNode(
        str(node["metadata"]["name"]),
        {resource: offer.amount for resource, offer in found.items()},
        all(each.consistent for each in found.values()),
        sold_by_koordinator(node),
    )


def deletion_of_metric(metric: Json) -> Change | None:
    """The deletion of a NodeMetric; None when somebody else made it."""
    if not OurPart.from_object(metric).written_by_manager:
        return None
    metadata = metric["metadata"]
    name = str(metadata["name"])
    return Change("NodeMetric", name, "deleted", node_metric.path(name), uid=str(metadata.get("uid", "")))


def plan(found: Found, asked: Asked) -> Plan:
    """What is to be done about what there is.

    A Node with Mid pods keeps exactly what they bought: with less, the kubelet would fail them at its next restart,
    and with more, further pods could come.

    Args:
        found: what there is.
        asked: what the user asks for.
    """
    running: dict[str, list[PodInputs]] = {}
    for pod in found.mid_pods:
        running.setdefault(pod.node, []).append(pod)
    ours = [node for node in found.nodes if not node.foreign]
    busy = tuple(_busy(node.name, running[node.name]) for node in ours if node.name in running)
    bought = {} if asked.force else {each.node: each.bought for each in busy}
    changes = [_of_node(node, bought.get(node.name)) for node in ours]
    over = asked.force or not busy
    others = [*_of_namespace(found, delete_config=asked.delete_config and over)]
    if over:
        others += [*_of_scheduler(found), *_of_classes(found)]
    return Plan(
        (*(each for each in changes if each is not None), *found.node_metrics, *others),
        busy,
        found.foreign,
        tuple(
            each["metadata"]["name"] for each in found.priority_classes if is_chart_made(each) and _named(each, found)
        ),
        len(found.nodes) - len(ours),
        services.scheduler(found.scheduler).lease,
        _unplaced(found) if over else (),
    )


def _unplaced(found: Found) -> tuple[str, ...]:
    ours = services.scheduler(found.scheduler).lease
    return tuple(sorted(each.name for each in found.makers if each.scheduler == ours))


def _busy(node: str, pods: Sequence[PodInputs]) -> Busy:
    bought = total(pod.mid_requests for pod in pods)
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


def _of_namespace(found: Found, *, delete_config: bool) -> Iterable[Change]:
    namespace = found.namespace
    if found.config_map is not None:
        yield from _of_config(found.config_map, namespace, delete=delete_config)
    owned = (
        ("ConfigMap", found.last_good, paths.config_map(namespace, LAST_GOOD_NAME)),
        *(("ConfigMap", each, paths.config_map(namespace, name)) for name, each in found.shadow.items()),
        ("Secret", found.secret, secret_path(namespace)),
        ("Pod", found.test_pod, paths.pod(namespace, TEST_POD)),
        ("Lease", found.lease, services.MANAGER.lease_path(namespace)),
    )
    for kind, obj, path in owned:
        if obj is not None:
            yield _deletion(kind, f"{namespace}/{path.rpartition('/')[2]}", path, obj)


def _of_config(config: Json, namespace: str, *, delete: bool) -> Iterable[Change]:
    name = str(config["metadata"]["name"])
    path = paths.config_map(namespace, name)
    if delete and is_chart_made(config):
        yield _deletion("ConfigMap", f"{namespace}/{name}", path, config)
    elif ANNOTATION_CONFIG_STATE in (config["metadata"].get("annotations") or {}):
        yield Change(
            "ConfigMap",
            f"{namespace}/{name}",
            f"annotation {ANNOTATION_CONFIG_STATE} removed, the rest is yours and stays",
            path,
            {"metadata": {"annotations": {ANNOTATION_CONFIG_STATE: None}}},
        )


def _of_scheduler(found: Found) -> Iterable[Change]:
    """Its Lease; while it goes on, it would come back."""
    if found.scheduler_lease is not None:
        service = services.scheduler(found.scheduler)
        path = service.lease_path(found.namespace)
        yield _deletion("Lease", f"{found.namespace}/{service.lease}", path, found.scheduler_lease)


def _of_classes(found: Found) -> Iterable[Change]:
    """PriorityClasses of the chart; a pod that names one that is missing cannot be made again."""
    for each in found.priority_classes:
        if is_chart_made(each) and not _named(each, found):
            name = str(each["metadata"]["name"])
            yield _deletion("PriorityClass", name, priority_class_path(name), each)


def _named(priority_class: Json, found: Found) -> bool:
    return bool(found.class_names.get(priority_class["metadata"]["name"]))


def is_chart_made(obj: Json) -> bool:
    """Whether the chart has made an object that outlives its release."""
    return (obj["metadata"].get("labels") or {}).get(_PART_OF) == "headroom"


def _deletion(kind: str, name: str, path: str, obj: Json) -> Change:
    return Change(kind, name, "deleted", path, uid=str(obj["metadata"].get("uid") or ""))


def priority_class_path(name: str) -> str:
    """Path of a PriorityClass."""
    return f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"


def secret_path(namespace: str) -> str:
    """Path of the webhook's Secret."""
    return f"/api/v1/namespaces/{namespace}/secrets/{WEBHOOK_SECRET}"


def mid_pod(pod: Json) -> PodInputs | None:
    """What is kept of a pod; None when it holds no Mid resources."""
    facts = PodInputs.from_object(pod)
    return facts if facts.holds_mid else None

"""Pods on this node as the other stages need them: names, requests and cgroups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

from agent.host.cgroup import PodCgroup
from agent.host.cgroup_names import BEST_EFFORT, BURSTABLE
from crds.priority import PriorityBand, QoS, priority_class, qos, tier
from crds.quantity import milli_value, value
from headroom.cluster.pod import cgroup_uid, is_terminal, pod_limits, pod_requests, workload_key
from headroom.cluster.resize import Resize
from headroom.cluster.templates import TEMPLATES, Template
from headroom.cluster.typed_pod import check_amounts

_LARGEST: Final = 2**63 - 1  # Kubernetes counts no further
_COUNTED: Final = ("cpu", "memory")

Resources = Mapping[str, int]
"""Amounts by resource name: ``cpu`` in milli-cores, ``memory`` in bytes. A resource without a request is absent."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod on this node."""

    uid: str  # its metadata.uid; the entity of its samples
    namespace: str  # its namespace; empty when found in the cgroup tree alone
    name: str  # its name; the uid when found in the cgroup tree alone
    band: PriorityBand
    """The tier that it counts to in every sum: PROD for band prod and none; MID when it requests Mid resources."""
    qos: QoS  # its QoS class, with the default of its Kubernetes QoS
    requests: Resources = field(default_factory=dict)
    """Its requests, granted ones where it is being resized. [milli-cores, bytes]"""
    limits: Resources = field(default_factory=dict)  # its limits. [milli-cores, bytes]
    priority_label: str = ""  # its priority class as reported (with the default of its QoS): `koord-prod` … or empty
    cgroup_uid: str = ""  # the uid in its cgroup directory's name: the config hash for a static pod, else the uid
    created: float = 0.0  # when it was created, or first found where it is not listed. [seconds since 1970]
    workload: str | None = None  # its workload, which shares its history, or None
    containers: frozenset[str] = frozenset()  # ids of its containers, as far as its status has them
    terminal: bool = False  # whether it has ended: Succeeded or Failed. Terminal pods are not measured.
    running: bool = True  # whether its containers were started, so that it must have a cgroup
    terminating: bool = False  # whether it is being deleted; it still runs for a while
    listed: bool = True
    """True if the source lists the pod; False for a pod with a cgroup that no source lists."""

    @property
    def title(self) -> str:
        """Return its name in messages: namespace/name, or the name alone where no namespace is known."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def pod_ref(pod: Mapping[str, Any], templates: Sequence[Template] = TEMPLATES) -> PodRef:
    """A typed pod as the other stages need it. Raises ValueError: it has no uid, or an amount that is no quantity."""
    metadata = pod.get("metadata") or {}
    uid = metadata.get("uid")
    if not uid:
        raise ValueError("metadata.uid is missing")
    check_amounts(pod)
    return PodRef(
        uid=uid,
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or uid,
        band=tier(pod),
        qos=qos(pod),
        requests=_amounts(pod_requests(pod, Resize.GRANTED, _COUNTED)),
        limits=_amounts(pod_limits(pod, Resize.GRANTED, _COUNTED)),
        priority_label=str(priority_class(pod)),
        cgroup_uid=cgroup_uid(pod),
        created=_unix(metadata.get("creationTimestamp")),
        containers=frozenset(_container_ids(pod)),
        workload=workload_key(pod, templates),
        terminal=is_terminal(pod),
        running=(pod.get("status") or {}).get("phase") == "Running",
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def pod_of_cgroup(cgroup: PodCgroup) -> PodRef:
    """A pod of which only the cgroup is known: its tier is that of its QoS folder, and it requests nothing.

    Guaranteed and Burstable count as Prod, BestEffort as Batch, as for pods without label and priority.
    """
    best_effort = cgroup.qos == BEST_EFFORT
    band = PriorityBand.BATCH if best_effort else PriorityBand.PROD
    return PodRef(
        uid=cgroup.uid,
        namespace="",
        name=cgroup.uid,
        band=band,
        qos=QoS.BE if best_effort else QoS.LS if cgroup.qos == BURSTABLE else QoS.LSR,
        priority_label=str(band),
        cgroup_uid=cgroup.uid,
    )


def unlisted_pod(cgroup: PodCgroup, now: float) -> PodRef:
    """A running pod that is on no list: force-deleted, or a static one with a refused mirror.

    Its tier is unknown, so it counts as Prod and requests nothing: its usage can only lower the reclaimable amount.
    """
    prod = PriorityBand.PROD
    return replace(pod_of_cgroup(cgroup), band=prod, priority_label=str(prod), created=now, listed=False)


def _container_ids(pod: Mapping[str, Any]) -> Iterator[str]:
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(kind) or ():
            if identifier := (container.get("containerID") or "").rpartition("/")[2]:
                yield identifier


def _amounts(resources: Mapping[str, Fraction]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    if "cpu" in resources:
        amounts["cpu"] = milli_value(resources["cpu"])
    if "memory" in resources:
        amounts["memory"] = value(resources["memory"])
    return {name: min(max(amount, 0), _LARGEST) for name, amount in amounts.items()}


def _unix(timestamp: str | None) -> float:
    if not timestamp:
        return 0.0
    try:
        return max(datetime.fromisoformat(timestamp).timestamp(), 0.0)
    except (ValueError, OverflowError):
        return 0.0

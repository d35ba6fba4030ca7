"""A pod for quotas: its namespace, its charge, and the properties that decide about its eviction."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from headroom.cluster.pod import is_mirror_pod, is_terminal
from headroom.cluster.resize import Resize, in_effect
from headroom.runtime.bounded_cache import BoundedCache
from scheduler_plugins.quota.affinity import AffinityTerm, required_anti_affinity
from scheduler_plugins.quota.amounts import Amounts, larger
from scheduler_plugins.quota.charge import Charging, charge_of, reserved_requests
from scheduler_plugins.quota.claims import ClaimKey, claims_of
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.nominations import refused_since, waits_for_resources
from scheduler_plugins.snapshot.pod_template import TEMPLATE_BYTES, shared_spec, template_key
from scheduler_plugins.snapshot.units import unix_time

_REMEMBERED_BYTES: Final = 16 * 2**20  # what equal labels, and equal amounts, of pods may take each, kept once. [bytes]
_SEPARATE: Final = frozenset({"labels", "managedFields"})  # metadata that is kept elsewhere, or not at all
_ENCODE: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)  # not frozen, which would take three times as long to construct; it is never changed
class QuotaPod:
    """A pod, pending or placed."""

    uid: str  # its identity
    namespace: str  # the namespace of its quota
    name: str  # its name
    node: str  # where it is bound; empty while it is pending
    live: bool  # whether its phase is neither Succeeded nor Failed
    terminating: bool  # whether it is being deleted
    priority: int  # its `spec.priority`; 0 where it states none
    never_preempts: bool  # whether its preemptionPolicy is Never
    started: float | None  # its `status.startTime`; None: not yet. [unix s]
    created: float  # when it was created. [unix s]
    charge: Amounts  # what its quota is charged. [milli-cores for cpu, else base units]
    requests: Amounts
    """Its reserved resources on a node; one pod in `pods`. [milli-cores for cpu, else base units]"""
    labels: Mapping[str, str]  # its labels
    nominated: str  # its `status.nominatedNodeName`; empty where it has none
    hold: Hold | None  # its reservation
    claims_nomination: bool = True  # whether its nomination is a claim: it may wait there for other pods to end
    refused_since: float | None = None  # since when it is refused, of a nominated pod; None: unknown [unix s]
    host_ports: tuple[tuple[str, str, int], ...] = ()  # ports of the node that it takes: (address, protocol, port)
    anti_affinity: tuple[AffinityTerm, ...] = ()  # its required anti-affinity
    lost: bool = False
    """True if its phase is Unknown: its node is silent, and its quota is not charged, as upstream has it."""
    static: bool = False  # whether kubelet runs it from a file: deleted, it is there again at once
    gated: bool = False  # whether a scheduling gate holds it back
    claims: tuple[ClaimKey, ...] = ()  # its ResourceClaims
    requested: Amounts = field(default_factory=dict)  # its charge without devices of claims
    devices_counted: bool = True  # whether its charge has all devices that it claims
    group: str = ""  # the scheduling group in its namespace that it is bound with; empty where it has none
    own: bytes = field(default=b"", compare=False)
    """JSON of the metadata and status that are its own; empty unless kube-scheduler may look for a node for it."""
    spec: bytes = field(default=b"", compare=False)  # JSON of its spec, one object for all pods of its template

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def json(self) -> Mapping[str, Any] | None:
        """The typed pod, while kube-scheduler may schedule it. Decoded again each time."""
        if not self.own:
            return None
        metadata, status = msgspec.json.decode(self.own)
        metadata["labels"] = dict(self.labels)
        return {"metadata": metadata, "spec": msgspec.json.decode(self.spec), "status": status}

    @property
    def counted(self) -> bool:
        return bool(self.node) and self.live

    @property
    def charged(self) -> bool:
        """Return whether its quota is charged for it: it takes resources on a node that is not silent."""
        return bool(self.node) and self.live and not self.lost

    @classmethod
    def from_json(
        cls,
        pod: Mapping[str, Any],
        charging: Charging = Charging.CONTAINERS,
        schedulers: Collection[str] = (),
    ) -> "QuotaPod":
        """Read a typed pod. Values equal for many of the up to 150,000 pods are kept once.

        Of a pending pod that is gated, or of a scheduler other than `schedulers`, only numbers are kept.

        Raises:
            QuantityError: a request is not a quantity.
            ValueError: a time is not RFC 3339.
        """
        metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
        common = _templates((template_key(pod), charging), pod, charging)
        node, gated = str(spec.get("nodeName") or ""), bool(spec.get("schedulingGates"))
        idle = node or gated or (schedulers and spec.get("schedulerName") not in schedulers)
        nominated = str(status.get("nominatedNodeName") or "")
        return cls(
            uid=sys.intern(str(metadata.get("uid") or "")),
            namespace=sys.intern(str(metadata.get("namespace") or "")),
            name=str(metadata.get("name") or ""),
            node=sys.intern(node),
            live=not is_terminal(pod),
            terminating=bool(metadata.get("deletionTimestamp")),
            priority=common.priority,
            never_preempts=spec.get("preemptionPolicy") == "Never",
            started=unix_time(status.get("startTime")),
            created=unix_time(metadata.get("creationTimestamp")) or 0.0,
            charge=common.charge,
            requests=common.requests,
            labels=common.labels,
            nominated=nominated,
            claims_nomination=not nominated or waits_for_resources(status),
            refused_since=refused_since(status) if nominated else None,
            hold=Hold.of_pod(pod),
            host_ports=common.host_ports,
            anti_affinity=common.anti_affinity,
            lost=status.get("phase") == "Unknown",
            static=is_mirror_pod(pod),
            gated=gated,
            claims=common.claims,
            requested=common.charge,
            devices_counted=not common.claims,
            group=_group(spec),
            own=b"" if idle else _own(metadata, status),
            spec=b"" if idle else common.spec,
        )


def _own(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> bytes:
    return _ENCODE([{name: part for name, part in metadata.items() if name not in _SEPARATE}, status])


def _group(spec: Mapping[str, Any]) -> str:
    """Return the PodGroup of a pod, or its group of a Workload as Kubernetes 1.35 names it; empty without either."""
    named = spec.get("schedulingGroup") or spec.get("workloadRef")
    return sys.intern("/".join(str(part) for part in named.values() if part) or "?") if named else ""


class _Template(NamedTuple):
    """The common part of pods with the same `template_key`."""

    priority: int
    charge: Amounts
    requests: Amounts
    labels: Mapping[str, str]
    host_ports: tuple[tuple[str, str, int], ...]
    anti_affinity: tuple[AffinityTerm, ...]
    spec: bytes
    claims: tuple[ClaimKey, ...]


def _read_template(pod: Mapping[str, Any], charging: Charging) -> _Template:
    spec = pod.get("spec") or {}
    priority = spec.get("priority")
    counted = {**in_effect(pod, Resize.SET_ASIDE), "status": {}}  # once for both: there may be many containers
    charge, requests = charge_of(counted), reserved_requests(counted)
    if charging is Charging.SCHEDULER:
        charge = larger(charge, {name: amount for name, amount in requests.items() if name != "pods"})
    charge = {**charge, "pods": 1}
    return _Template(
        priority=priority if type(priority) is int else 0,
        charge=_shared(tuple(charge.items())),
        requests=_shared(tuple(requests.items())),
        labels=_shared_labels(tuple(((pod.get("metadata") or {}).get("labels") or {}).items())),
        host_ports=tuple(_host_ports(spec)),
        anti_affinity=required_anti_affinity(pod),
        spec=b"" if spec.get("nodeName") else _ENCODE(shared_spec(spec)),
        claims=claims_of(pod),
    )


def _host_ports(spec: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    sidecars = (
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    )
    return [
        (str(port.get("hostIP") or "0.0.0.0"), str(port.get("protocol") or "TCP"), int(port["hostPort"]))  # noqa: S104
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def _amounts(items: tuple[tuple[str, int], ...]) -> Amounts:
    return MappingProxyType(dict(items))


def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(items))


_templates: Final[BoundedCache[tuple[bytes, Charging], _Template]] = BoundedCache(_read_template, TEMPLATE_BYTES)
_shared: Final[BoundedCache[tuple[tuple[str, int], ...], Amounts]] = BoundedCache(_amounts, _REMEMBERED_BYTES)
_shared_labels: Final[BoundedCache[tuple[tuple[str, str], ...], Mapping[str, str]]] = BoundedCache(
    _labels, _REMEMBERED_BYTES
)

"""A pod, reduced to what formulas need."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

from crds import names
from crds.mid_amounts import unlimited_resources
from crds.priority import VALUES, PriorityBand, priority_class_raw, priority_value, tier
from crds.quantity import QuantityError, milli_value, value
from headroom.cluster.pod import is_admitted, is_mirror_pod, is_terminal, pod_key, pod_requests, workload_key
from manager.inputs.amounts import LARGEST, Amounts
from manager.inputs.reading import Json, get_path, parse_time

_NOTHING: Final = Fraction(0)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_READ: Final = ("cpu", "memory", names.MID_CPU, names.MID_MEMORY)
_SYSTEM_CRITICAL: Final = 2_000_000_000  # from this priority on Kubernetes itself evicts nothing


@dataclass(frozen=True, slots=True)
class MidPod:
    """The parts of a Mid pod that eviction and the check of limits read; other pods have none."""

    priority: int
    created: float  # when it was made; 0 where that is not stated [unix s]
    terminating: bool
    workload: str  # what outlives it: "namespace/Kind/name" of its controller, or of itself when it has none
    eviction_priority: int = 0  # `koordinator.sh/eviction-priority`; the lowest is evicted first
    kept: str = ""  # why it is never evicted, as the end of a sentence; empty when it may be
    unlimited: tuple[str, ...] = ()  # native resources that a container may use without a limit

    @classmethod
    def from_object(cls, pod: Json) -> Self:
        """Reduce a Pod. What cannot be read protects the pod for longer."""
        metadata = pod.get("metadata") or {}
        try:
            created = parse_time(str(metadata.get("creationTimestamp") or ""))
        except ValueError:
            created = 0.0
        return cls(
            priority=_priority(pod),
            created=created,
            terminating=bool(metadata.get("deletionTimestamp")),
            workload=workload_key(pod) or f"{metadata.get('namespace', '')}/Pod/{metadata.get('name', '')}",
            eviction_priority=_eviction_priority(metadata),
            kept=_kept(pod),
            unlimited=unlimited_resources(pod),
        )


def _eviction_priority(metadata: Json) -> int:
    """The pod's label, else its annotation; 0 for anything that is no integer of 32 bits."""
    for field in ("labels", "annotations"):
        text = str((metadata.get(field) or {}).get(names.LABEL_EVICTION_PRIORITY, ""))
        if _INTEGER.fullmatch(text) and abs(int(text)) < 1 << 31:
            return int(text)
    return 0


def _priority(pod: Json) -> int:
    try:
        return priority_value(pod)
    except QuantityError:  # the API server admits no such pod
        return VALUES[PriorityBand.MID][1]


def _kept(pod: Json) -> str:
    """Return why a Mid pod is never evicted: one that returns to the same node frees nothing."""
    if is_mirror_pod(pod):
        return "is a static pod, which its node starts again"
    owners = get_path(pod, "metadata", "ownerReferences") or ()
    if any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners):
        return "is of a DaemonSet, which would put it on the same node again"
    spec = pod.get("spec") or {}
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        return "is of a scheduling group, which needs it"
    # The label decides; a number counts without a label, and where Kubernetes calls it critical.
    band, priority = priority_class_raw(pod), _priority(pod)
    above = band is PriorityBand.NONE and priority > VALUES[PriorityBand.MID][1]
    if above or band is PriorityBand.PROD or priority >= _SYSTEM_CRITICAL:
        return "has a priority above Mid"
    return ""


def _amount(requested: Mapping[str, Fraction], name: str, convert: Callable[[Fraction], int]) -> int:
    """Return a request as a number that can be summed and written: not below zero, at most Kubernetes' largest."""
    return min(max(convert(requested.get(name, _NOTHING)), 0), LARGEST)


@dataclass(frozen=True, slots=True)
class PodInputs:
    """A pod, reduced: 150,000 of them must fit into a gigabyte with everything else."""

    key: str
    uid: str
    node: str  # Node it is bound to; empty while it waits for one
    band: PriorityBand  # tier in every sum; a pod that requests Mid resources is Mid
    terminal: bool
    requests: Amounts  # native requests (`cpu`, `memory`)
    mid_requests: Amounts  # requests of `kubernetes.io/mid-*`
    admitted: bool = False  # whether the kubelet of its node has taken it in
    mid: MidPod | None = None  # what eviction needs to know; `None` when it requests no Mid resources

    @classmethod
    def from_object(cls, pod: Json) -> Self:
        """Reduce a Pod to what formulas need. An amount that cannot be read counts as not requested."""
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        try:
            requested, band = pod_requests(pod, only=_READ), tier(pod)
        except QuantityError:  # the API server admits no such pod
            requested, band = {}, PriorityBand.PROD
        mid_requests = Amounts(_amount(requested, names.MID_CPU, value), _amount(requested, names.MID_MEMORY, value))
        return cls(
            key=pod_key(pod),
            uid=str(metadata.get("uid", "")),
            node=str(spec.get("nodeName") or ""),
            band=band,
            terminal=is_terminal(pod),
            requests=Amounts(_amount(requested, "cpu", milli_value), _amount(requested, "memory", value)),
            mid_requests=mid_requests,
            admitted=is_admitted(pod),
            mid=MidPod.from_object(pod) if mid_requests else None,
        )

    @property
    def above_mid(self) -> bool:
        """Return whether its requests come before anything that Mid may have: Prod, and pods without a band."""
        return self.band is PriorityBand.PROD and not self.terminal

    @property
    def holds_mid(self) -> bool:
        """Return whether it is a Mid pod that its kubelet admitted and that has not ended: its requests stay published.

        A pod can be created with any node and any amount in it; only the kubelet compares them.
        """
        return bool(self.mid_requests) and self.admitted and not self.terminal

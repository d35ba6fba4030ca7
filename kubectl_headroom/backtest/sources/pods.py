"""Pods of a backtest: name, node, workload, requests, limits, and whether they are Prod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from crds.priority import PriorityBand, tier
from headroom.cluster.pod import pod_key, pod_limits, pod_requests, workload_key
from headroom.cluster.resize import Resize
from headroom.cluster.typed_pod import check_amounts, typed_pod
from kubectl_headroom.backtest.sources import LIMITS
from kubectl_headroom.backtest.sources.files import Json, objects
from kubectl_headroom.backtest.trace import Resource, TraceError

PODS_COMMAND: Final = "kubectl get pods --all-namespaces -o json"  # what writes a file of pods
RESOURCES: Final[tuple[Resource, ...]] = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod."""

    name: str  # namespace/name, or its uid where that is not known
    uid: str = ""
    node: str = ""  # empty where it is not known
    workload: str | None = None  # its workload, "namespace/Kind/name"
    prod: bool = True  # whether it counts as Prod: other bands have no prediction, and their requests are not reclaimed
    requests: Mapping[Resource, float] = field(default_factory=dict)  # [cores, bytes]
    limits: Mapping[Resource, float] = field(default_factory=dict)  # [cores, bytes]

    def amount(self, resource: Resource, basis: str) -> float:
        """Return its basis: its request, else its limit; with basis `LIMITS` its limit alone; 0 for none."""
        limit = self.limits.get(resource, 0.0)
        return limit if basis == LIMITS else self.requests.get(resource, 0.0) or limit


def read_pods(paths: Sequence[str]) -> list[Pod]:
    """The pods of files that kubectl wrote; raises TraceError if one is no such file."""
    return [_pod(path, item) for path in paths for item in objects(Path(path), "Pod", PODS_COMMAND)]


def merge_pod(known: Pod | None, given: Pod | None) -> Pod | None:
    """The pod from the source, or from a file of pods where the source has no amounts.

    An agent without a cluster finds pods in the cgroup tree alone.
    """
    if given is None or (known is not None and any((*known.requests.values(), *known.limits.values()))):
        return known
    return given


def _pod(path: str, item: Json) -> Pod:
    try:
        item = typed_pod(item)
        check_amounts(item)
        requests, limits = pod_requests(item, Resize.GRANTED), pod_limits(item, Resize.GRANTED)  # as the agent counts
        band, workload = tier(item), workload_key(item)
        requested, limited = _known(requests, "requests"), _known(limits, "limits")
    except ValueError as error:
        title = pod_key(item) if isinstance(item.get("metadata"), Mapping) else "without metadata"
        raise TraceError(f"{path}: pod {title}: {error}") from error
    metadata: Mapping[str, Any] = item.get("metadata") or {}
    return Pod(
        name=pod_key(item),
        uid=str(metadata.get("uid") or ""),
        node=str((item.get("spec") or {}).get("nodeName") or ""),
        workload=workload,
        prod=band in (PriorityBand.PROD, PriorityBand.NONE),
        requests=requested,
        limits=limited,
    )


def _known(amounts: Mapping[str, Fraction], part: str) -> dict[Resource, float]:
    try:
        return {name: float(amounts[name]) for name in RESOURCES if name in amounts}
    except OverflowError:
        raise ValueError(f"{part}: cpu and memory must be below 1e308") from None

"""A NodeMetric report as vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from crds.duration import parse_duration
from crds.priority import PriorityBand
from scheduler_plugins.snapshot.units import Vector, unix_time, vector

DEFAULT_REPORT_INTERVAL: Final = 60.0
"""How often a node is taken to report when its NodeMetric does not say. [s]"""
LONGEST: Final = 0.0
"""The duration that stands for the longest reported one of an aggregation type. [s]"""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What one pod was measured to use."""

    usage: Vector
    """Its usage. [per resource of the load rules]"""
    prod: bool
    """Whether the report calls it Prod."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node's NodeMetric."""

    update_time: float | None = None
    """When it was measured, by the node's clock; None: never. [unix s]"""
    interval: float = DEFAULT_REPORT_INTERVAL
    """Time between two reports. [s]"""
    node_usage: Vector | None = None
    """Usage of the whole node; None while it reports nothing about itself."""
    system_usage: Vector | None = None
    """The part of it that belongs to no pod."""
    aggregated: Mapping[tuple[str, float], Vector] = field(default_factory=lambda: MappingProxyType({}))
    """Usage of the node by (aggregation type, duration in seconds); duration `LONGEST` is the longest of its type."""
    pods: Mapping[str, PodUsage] = field(default_factory=lambda: MappingProxyType({}))
    """What was measured of the pods, by `namespace/name`."""

    @classmethod
    def from_json(cls, node_metric: Mapping[str, Any], resources: Sequence[str]) -> "NodeReport":
        """Read a NodeMetric.

        Raises:
            QuantityError: an amount is not a quantity.
            ValueError: a time or duration cannot be read.
        """
        status = node_metric.get("status") or {}
        measured = status.get("nodeMetric")
        policy = (node_metric.get("spec") or {}).get("metricCollectPolicy") or {}
        interval = policy.get("reportIntervalSeconds")
        return cls(
            update_time=unix_time(status.get("updateTime")),
            interval=DEFAULT_REPORT_INTERVAL if interval is None else float(interval),
            node_usage=None if measured is None else _usage(measured.get("nodeUsage"), resources),
            system_usage=None if measured is None else _usage(measured.get("systemUsage"), resources),
            aggregated=_aggregated(measured or {}, resources),
            pods=_pods(status, resources),
        )

    def aggregated_usage(self, kind: str, duration: float) -> Vector | None:
        """Usage of the node by one aggregation, or None when nothing stands for it.

        Without a duration (`LONGEST`) it is the longest one that was reported of that type, and the plain node usage
        when none was. A stated duration has to match.
        """
        found = self.aggregated.get((kind, duration))
        return self.node_usage if found is None and duration == LONGEST else found


def _usage(resource_map: Mapping[str, Any] | None, resources: Sequence[str]) -> Vector:
    return vector(resources, (resource_map or {}).get("resources"))


def _aggregated(measured: Mapping[str, Any], resources: Sequence[str]) -> dict[tuple[str, float], Vector]:
    usages: dict[tuple[str, float], Vector] = {}
    longest: dict[str, float] = {}
    for window in measured.get("aggregatedNodeUsages") or ():
        duration = parse_duration(window.get("duration") or "0s")
        for kind, resource_map in (window.get("usage") or {}).items():
            if not (resource_map or {}).get("resources"):
                continue
            usages[kind, duration] = _usage(resource_map, resources)
            longest[kind] = max(duration, longest.get(kind, duration))
    return usages | {(kind, LONGEST): usages[kind, duration] for kind, duration in longest.items()}


def _pods(status: Mapping[str, Any], resources: Sequence[str]) -> dict[str, PodUsage]:
    """What was measured of the pods. An entry without amounts counts as unreported, one with zeros as reported."""
    usages = {}
    for pod in status.get("podsMetric") or ():
        amounts = ((pod or {}).get("podUsage") or {}).get("resources")
        if amounts:
            key = f"{pod.get('namespace', '')}/{pod.get('name', '')}"
            usages[key] = PodUsage(vector(resources, amounts), prod=pod.get("priority") == PriorityBand.PROD)
    return usages

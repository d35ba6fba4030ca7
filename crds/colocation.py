"""The colocation strategy of ConfigMap `slo-controller-config`: its fields, defaults and ranges.

Koordinator's fields come first, ours after them. How a ConfigMap is validated and what happens with a bad one is the
manager's business; this module only states the contract.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crds.codec import JSON_NAME, Part
from crds.node_metric import LONGEST_AGGREGATE_SECONDS, MEMORY_COLLECT_POLICIES, WITHOUT_PAGE_CACHE
from crds.predict_policy import PredictPolicy
from crds.ranges import Allowed, Choice, Range


@dataclass(frozen=True, slots=True)
class MetricAggregatePolicy(Part):
    """Which windows the agents report as percentiles."""

    durations: tuple[str, ...] | None = None
    """Windows as Go durations, at most ten, each at most 168h; above 30m of 1-minute averages. Empty: the default."""


@dataclass(frozen=True, slots=True)
class MidEviction(Part):
    """The policy for Mid pods on a node with a deficit: it has published more Mid resources than it has."""

    mode: str | None = None
    """off, dry-run (events and metrics only) or on."""
    after_seconds: int | None = None
    """The time a deficit must last before an eviction. [s]"""
    max_per_node_per_minute: int | None = None
    """Evictions on one node. [1/min]"""
    max_per_minute: int | None = None
    """Evictions in the cluster. [1/min]"""


@dataclass(frozen=True, slots=True)
class HotNodes(Part):
    """The policy for hot nodes: a taint keeps new pods away from nodes with usage above a threshold."""

    mode: str | None = None
    """off, dryRun (condition and metrics only), or the effect of the taint: prefer or noSchedule."""
    measure: str | None = None
    """usage, or peak: the larger of the usage and the predicted peak of Prod pods and system."""
    cpu_threshold_percent: int | None = None
    """A node is hot above this share of allocatable CPU; 0: CPU is not checked. [percent]"""
    memory_threshold_percent: int | None = None
    """A node is hot above this share of allocatable memory; 0: memory is not checked. [percent]"""
    margin_percent: int | None = None
    """The taint is removed so far below the thresholds, and at half of them at the latest. [percentage points]"""
    after_seconds: int | None = None
    """The time that reports must show a node hot before it gets the taint. [s]"""
    max_nodes_percent: int | None = None
    """At most this share of the nodes has the taint, rounded down; of several nodes always one. [percent]"""
    max_per_minute: int | None = None
    """New taints in the cluster; 0: none. [1/min]"""


@dataclass(frozen=True, slots=True)
class ColocationStrategy(Part):
    """The policy by which a node, or the cluster, publishes unused resources. An absent field is inherited."""

    enable: bool | None = None
    """True if Mid resources are published; false removes them from Nodes, except the part held by running Mid pods."""
    metric_aggregate_duration_seconds: int | None = None
    """Window of the averages in a report; each of their samples is read for it. [s]"""
    metric_report_interval_seconds: int | None = None
    """Time between two full reports. [s]"""
    metric_aggregate_policy: MetricAggregatePolicy | None = None
    """Windows of the reported percentiles."""
    metric_memory_collect_policy: str | None = None
    """The memory that counts as used."""
    cpu_reclaim_threshold_percent: int | None = None
    """Batch tier of Koordinator: accepted, not used. [percent]"""
    memory_reclaim_threshold_percent: int | None = None
    """Batch tier of Koordinator: accepted, not used. [percent]"""
    cpu_calculate_policy: str | None = None
    """Batch tier of Koordinator: accepted, not used."""
    memory_calculate_policy: str | None = None
    """Batch tier of Koordinator: accepted, not used."""
    batch_cpu_threshold_percent: int | None = field(default=None, metadata={JSON_NAME: "batchCPUThresholdPercent"})
    """Batch tier of Koordinator: accepted, not used. [percent]"""
    batch_memory_threshold_percent: int | None = None
    """Batch tier of Koordinator: accepted, not used. [percent]"""
    degrade_time_minutes: int | None = None
    """A report older than this counts as absent: Mid becomes 0. [min]"""
    update_time_threshold_seconds: int | None = None
    """Any difference at all is written after this time. [s]"""
    resource_diff_threshold: float | None = None
    """An increase by more than this share is written (after its hold). [ratio]"""
    mid_cpu_threshold_percent: int | None = field(default=None, metadata={JSON_NAME: "midCPUThresholdPercent"})
    """Mid CPU never exceeds this share of allocatable. [percent]"""
    mid_memory_threshold_percent: int | None = None
    """Mid memory never exceeds this share of allocatable. [percent]"""
    mid_unallocated_percent: int | None = None
    """Share of what no pod has requested that is published too. [percent]"""
    mid_reclaim_mode: str | None = None
    """static: publish a fixed share instead of the prediction."""
    mid_static_cpu_reserved_percent: int | None = field(
        default=None, metadata={JSON_NAME: "midStaticCPUReservedPercent"}
    )
    """Share of allocatable CPU that static mode publishes. [percent]"""
    mid_static_memory_reserved_percent: int | None = None
    """Share of allocatable memory that static mode publishes. [percent]"""
    extensions: Mapping[str, Any] | None = None
    """Third-party content: accepted, not used."""

    mode: str | None = None
    """active, or shadow: calculate and report, but publish nothing on Nodes."""
    mid_policy: str | None = None
    """The formula: reclaimable, or one of the design text's two."""
    mid_shrink_policy: str | None = None
    """floor: never publish less than running Mid pods request; exact: publish the calculated amount."""
    mid_increase_hold_seconds: int | None = None
    """An increase is written when it has held this long. [s]"""
    mid_eviction: MidEviction | None = None
    """The policy for a deficit."""
    hot_nodes: HotNodes | None = None
    """The policy for hot nodes."""
    node_predict_policy: PredictPolicy | None = None
    """Copied to `spec.predictPolicy` of the NodeMetric."""


@dataclass(frozen=True, slots=True)
class NodeStrategy(ColocationStrategy):
    """An entry of `nodeConfigs`: what differs for the nodes that the selector matches."""

    name: str | None = None
    """Name of the entry, for messages."""
    node_selector: Mapping[str, Any] | None = None
    """A Kubernetes label selector; absent matches no node, empty matches all."""


@dataclass(frozen=True, slots=True)
class ColocationConfig(ColocationStrategy):
    """The whole of `colocation-config`: the cluster's strategy and the entries for some nodes."""

    node_configs: tuple[NodeStrategy, ...] | None = None
    """The first entry that matches a node applies to it."""


DEFAULTS: Final = ColocationStrategy(
    enable=False,
    metric_aggregate_duration_seconds=300,
    metric_report_interval_seconds=60,
    metric_aggregate_policy=MetricAggregatePolicy(durations=("5m0s", "10m0s", "30m0s")),
    metric_memory_collect_policy=WITHOUT_PAGE_CACHE,
    cpu_reclaim_threshold_percent=60,
    memory_reclaim_threshold_percent=65,
    cpu_calculate_policy="usage",
    memory_calculate_policy="usage",
    degrade_time_minutes=15,
    update_time_threshold_seconds=300,
    resource_diff_threshold=0.1,
    mid_cpu_threshold_percent=100,
    mid_memory_threshold_percent=100,
    mid_unallocated_percent=0,
    mid_static_cpu_reserved_percent=0,
    mid_static_memory_reserved_percent=0,
    mode="active",
    mid_policy="reclaimable",
    mid_shrink_policy="floor",
    mid_increase_hold_seconds=120,
    mid_eviction=MidEviction(mode="dry-run", after_seconds=300, max_per_node_per_minute=1, max_per_minute=10),
    hot_nodes=HotNodes(
        mode="off",
        measure="usage",
        cpu_threshold_percent=65,
        memory_threshold_percent=95,
        margin_percent=10,
        after_seconds=300,
        max_nodes_percent=20,
        max_per_minute=10,
    ),
)
"""The strategy where nothing is configured; the prediction policy has its own in `crds.predict_policy.DEFAULTS`."""

_PERCENT: Final = Range(0, 100)
_WEEK: Final = 7 * 24 * 3600

ALLOWED: Final[Mapping[str, Allowed]] = {
    "metricAggregateDurationSeconds": Range(1, LONGEST_AGGREGATE_SECONDS),
    "metricReportIntervalSeconds": Range(1, _WEEK),
    "metricMemoryCollectPolicy": Choice(MEMORY_COLLECT_POLICIES),
    "cpuReclaimThresholdPercent": _PERCENT,
    "memoryReclaimThresholdPercent": _PERCENT,
    "cpuCalculatePolicy": Choice(("usage", "request", "maxUsageRequest")),
    "memoryCalculatePolicy": Choice(("usage", "request", "maxUsageRequest")),
    "batchCPUThresholdPercent": _PERCENT,
    "batchMemoryThresholdPercent": _PERCENT,
    "degradeTimeMinutes": Range(1, _WEEK // 60),
    "updateTimeThresholdSeconds": Range(1, _WEEK),
    "midCPUThresholdPercent": _PERCENT,
    "midMemoryThresholdPercent": _PERCENT,
    "midUnallocatedPercent": _PERCENT,
    "midReclaimMode": Choice(("", "static")),
    "midStaticCPUReservedPercent": _PERCENT,
    "midStaticMemoryReservedPercent": _PERCENT,
    "resourceDiffThreshold": Range(0.001, 1),
    "mode": Choice(("active", "shadow")),
    "midPolicy": Choice(("reclaimable", "design", "designMixed")),
    "midShrinkPolicy": Choice(("floor", "exact")),
    "midIncreaseHoldSeconds": Range(0, 3600),
}
"""Allowed values by JSON name, for the cluster's part and each node's."""

ALLOWED_MID_EVICTION: Final[Mapping[str, Allowed]] = {
    "mode": Choice(("off", "dry-run", "on")),
    "afterSeconds": Range(0, _WEEK),
    "maxPerNodePerMinute": Range(0, 1000),
    "maxPerMinute": Range(0, 100_000),
}
"""Allowed values inside `midEviction`."""

ALLOWED_HOT_NODES: Final[Mapping[str, Allowed]] = {
    "mode": Choice(("off", "dryRun", "prefer", "noSchedule")),
    "measure": Choice(("usage", "peak")),
    "cpuThresholdPercent": _PERCENT,
    "memoryThresholdPercent": _PERCENT,
    "marginPercent": _PERCENT,
    "afterSeconds": Range(0, _WEEK),
    "maxNodesPercent": Range(1, 100),
    "maxPerMinute": Range(0, 100_000),
}
"""Allowed values inside `hotNodes`."""

CLUSTER_LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "midEviction": ("maxPerMinute",),
    "hotNodes": ("maxNodesPercent", "maxPerMinute"),
}
"""Limits that hold for the whole cluster, by the field that they are part of: layers above the cluster's lower them."""

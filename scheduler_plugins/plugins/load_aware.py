"""LoadAwareScheduling: refuse nodes above their usage thresholds, prefer nodes with little load.

A counterpart of Koordinator's plugin of that name: same arguments, annotations and numbers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from crds import names
from crds.duration import parse_duration
from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.snapshot.arrays import BoolArray, FloatArray, IntArray, Nodes, NodeState, Table
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import LONGEST
from scheduler_plugins.snapshot.rounding import round_half_away

NAME: Final = "LoadAwareScheduling"
"""How profiles and tables call it."""
AGGREGATION_TYPES: Final = ("avg", "p50", "p90", "p95", "p99")
"""The statistics over a window that a NodeMetric may report."""
EXPIRED: Final = "node(s) nodeMetric expired"
"""Reason for refusing a node whose report is too old."""

_PERCENT: Final = 100
_DEFAULT_WEIGHTS: Final = MappingProxyType({"cpu": 1, "memory": 1})
_DEFAULT_THRESHOLDS: Final = MappingProxyType({"cpu": 65, "memory": 95})
_DEFAULT_FACTORS: Final = MappingProxyType({"cpu": 85, "memory": 70})
_DEFAULT_EXPIRATION: Final = 180


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Judge by a statistic over a window instead of the plain usage."""

    usage_thresholds: Mapping[str, int] | None = None
    """Usage in percent of allocatable above which a node is refused, per resource; replaces `usageThresholds`."""
    usage_aggregation_type: str = ""
    """Which statistic the filter compares: avg, p50, p90, p95 or p99; empty: the filter does not aggregate."""
    usage_aggregated_duration: float = LONGEST
    """Over which window, as the nodes report it; 0s: the longest they report. A window nobody reports counts the sum
    of the pods' estimates in place of the measured load. [s, written as a Go duration]"""
    score_aggregation_type: str = ""
    """Which statistic the score uses; empty: the plain usage."""
    score_aggregated_duration: float = LONGEST
    """Over which window. [s, written as a Go duration]"""

    @property
    def filters(self) -> bool:
        """Whether the filter aggregates: it takes thresholds and a type."""
        return bool(self.usage_thresholds) and self.usage_aggregation_type != ""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The usage thresholds that hold on one node; each group is in percent, by resource name."""

    usage: Mapping[str, int]
    """Of all that the node uses."""
    prod: Mapping[str, int]
    """Of what Prod pods use."""
    aggregated: Aggregated
    """Of an aggregate of what the node uses."""


@dataclass(frozen=True, slots=True)
class LoadAware:
    """The plugin; its fields are its arguments, None is "not given"."""

    filter_expired_node_metrics: bool | None = None
    """Whether the filter looks at the age of reports (true). False compares stale usage as if it were fresh."""
    node_metric_expiration_seconds: int | None = None
    """Age from which a report is too old (180). [s]"""
    enable_schedule_when_node_metrics_expired: bool | None = None
    """Whether a node with a report that is too old passes unchecked instead of being refused (false)."""
    resource_weights: Mapping[str, int] | None = None
    """Weight of each resource in the score (cpu 1, memory 1, unless `dominantResourceWeight` is given); 1..100."""
    dominant_resource_weight: int = 0
    """Weight of the worst resource of a node in its score; 0..100."""
    usage_thresholds: Mapping[str, int] | None = None
    """Usage in percent of allocatable above which a node is refused (cpu 65, memory 95); 0: not checked."""
    prod_usage_thresholds: Mapping[str, int] | None = None
    """Usage of the Prod pods in percent of allocatable above which a node is refused to Prod pods; none: off."""
    prod_usage_include_sys: bool = False
    """Whether the system's usage counts as the Prod pods'."""
    score_according_prod_usage: bool | None = None
    """Whether Prod pods are scored by the usage of the Prod pods alone (false)."""
    estimator: str = ""
    """Name of the estimator. There is one, and as with Koordinator every name means it."""
    estimated_scaling_factors: Mapping[str, int] | None = None
    """Percent of a pod's request that it is expected to use (cpu 85, memory 70; each is kept unless given); 1..100."""
    estimated_seconds_after_pod_scheduled: int | None = None
    """For how long after scheduling the estimate counts even if less is reported; 0: not at all. [s]"""
    estimated_seconds_after_initialized: int | None = None
    """The same, from the end of the init containers on. [s]"""
    allow_customize_estimation: bool = False
    """Whether annotations of a pod may replace the factors and seconds."""
    aggregated: Aggregated | None = None
    """Judge by a statistic over a window instead of the plain usage."""
    supported_resources: tuple[str, ...] | None = None
    """Resources that only node annotations name, beside those of all maps here."""

    # Arguments

    def defaulted(self) -> Self:
        """A copy in which every argument that was not given has its default."""
        weights = self.resource_weights or (None if self.dominant_resource_weight else _DEFAULT_WEIGHTS)
        expiration = self.node_metric_expiration_seconds
        return replace(
            self,
            filter_expired_node_metrics=self.filter_expired_node_metrics is not False,
            node_metric_expiration_seconds=_DEFAULT_EXPIRATION if expiration is None else expiration,
            enable_schedule_when_node_metrics_expired=bool(self.enable_schedule_when_node_metrics_expired),
            resource_weights=weights,
            usage_thresholds=self.usage_thresholds or _DEFAULT_THRESHOLDS,
            score_according_prod_usage=bool(self.score_according_prod_usage),
            estimated_scaling_factors={**_DEFAULT_FACTORS, **(self.estimated_scaling_factors or {})},
        )

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the arguments."""
        return tuple(_problems(self))

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that are looked at: cpu, memory, and all that any argument names, sorted by their bytes."""
        aggregated = self.aggregated.usage_thresholds if self.aggregated else None
        maps = (
            self.usage_thresholds,
            self.prod_usage_thresholds,
            self.resource_weights,
            self.estimated_scaling_factors,
            aggregated,
        )
        named = {name for amounts in maps for name in amounts or ()} | set(self.supported_resources or ())
        return tuple(sorted(named | {"cpu", "memory"}, key=str.encode))

    @property
    def scoring_enabled(self) -> bool:
        """Whether the weights leave anything to score."""
        return any((self.resource_weights or {}).values()) or self.dominant_resource_weight != 0

    def load_rules(self) -> LoadRules:
        """How load is counted."""
        return LoadRules(
            resources=self.resources,
            factors=dict(self.estimated_scaling_factors or {}),
            seconds_after_scheduled=self.estimated_seconds_after_pod_scheduled,
            seconds_after_initialized=self.estimated_seconds_after_initialized,
            allow_customize=self.allow_customize_estimation,
            prod_includes_system=self.prod_usage_include_sys,
        )

    # A node's record

    def dtype(self) -> np.dtype[Any]:
        """The fields of a node's record; amounts are per resource, as in the load rules."""
        shape = (len(self.resources),)
        return np.dtype(
            [
                ("allocatable", np.int64, shape),
                ("limit", np.int64, shape),  # thresholds in percent, for every pod
                ("prod_limit", np.int64, shape),  # the same for Prod pods, where by_prod is set
                ("load", np.int64, shape),  # measured and expected, that the filter compares
                ("score_load", np.int64, shape),  # the same for the score
                ("prod_load", np.int64, shape),  # the part of the Prod pods
                ("updated", np.float64),  # time of the report; -inf: it states none [unix s]
                ("reported", np.bool_),  # there is a NodeMetric
                ("measured", np.bool_),  # it says something about the node itself
                ("aggregated", np.bool_),  # limit and load are of the aggregated group
                ("by_prod", np.bool_),  # Prod pods have their own thresholds here
            ]
        )

    def record(self, node: NodeState) -> tuple[Any, ...]:
        """A node's record."""
        resources, report = self.resources, node.ledger.report
        thresholds = self.thresholds(node.annotations)
        group = thresholds.aggregated
        limit = group.usage_thresholds if group.filters else thresholds.usage
        load = node.ledger.load(
            (group.usage_aggregation_type, group.usage_aggregated_duration) if group.filters else None
        )
        by_score = self.aggregated
        scored = (by_score.score_aggregation_type, by_score.score_aggregated_duration) if by_score else ("", LONGEST)
        prod_limit = _vector(resources, thresholds.prod)
        return (
            _vector(resources, node.allocatable),
            _vector(resources, limit),
            prod_limit,
            load,
            node.ledger.load(scored if scored[0] else None),
            node.ledger.prod_load,
            -np.inf if report is None or report.update_time is None else report.update_time,
            report is not None,
            report is not None and report.node_usage is not None,
            group.filters,
            any(prod_limit),
        )

    def thresholds(self, annotations: Mapping[str, str]) -> Thresholds:
        """The thresholds of a node: each group of its annotation replaces the one of the arguments as a whole."""
        given = Thresholds(
            self.usage_thresholds or {}, self.prod_usage_thresholds or {}, self.aggregated or Aggregated()
        )
        custom = _custom_thresholds(annotations.get(names.ANNOTATION_USAGE_THRESHOLDS, ""))
        if custom is None:
            return given
        return Thresholds(
            custom.usage or given.usage,
            custom.prod or given.prod,
            custom.aggregated if custom.aggregated.filters else given.aggregated,
        )

    # Filter and score

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Refuse nodes whose usage, with this pod, would exceed a threshold, and nodes whose report is too old."""
        if pod.of_daemon_set:
            return Verdict.all_pass(len(nodes))
        table = nodes.tables[NAME]
        by_prod = table["by_prod"] & pod.prod
        limit = np.where(by_prod[:, None], table["prod_limit"], table["limit"])
        load = np.where(by_prod[:, None], table["prod_load"] + nodes.in_flight_prod, table["load"] + nodes.in_flight)
        checked = limit.any(axis=1) & table["reported"]
        expired = (
            self._expired(table, nodes.now) if self.filter_expired_node_metrics else np.zeros(len(nodes), np.bool_)
        )
        over = _over(load + np.array(pod.estimate, np.int64), table["allocatable"], limit)
        exceeds = checked & ~expired & table["measured"] & over.any(axis=1)
        refused = np.full(len(nodes), PASSES, np.int64)
        refused[exceeds] = (2 * over.argmax(axis=1) + (table["aggregated"] & ~by_prod))[exceeds]
        if self.enable_schedule_when_node_metrics_expired is False:
            refused[checked & expired] = 2 * len(self.resources)
        return Verdict(refused, self._refusals())

    def _refusals(self) -> tuple[Refusal, ...]:
        return (*(Refusal(reason) for name in self.resources for reason in _exceeds(name)), Refusal(EXPIRED))

    def _expired(self, table: Table, now: float) -> BoolArray:
        limit = self.node_metric_expiration_seconds
        if limit is None:
            return np.zeros(len(table), np.bool_)
        age: FloatArray = now - table["updated"]
        return np.greater_equal(age, limit) if limit > 0 else np.isinf(age)

    def score(self, pod: PodRequest, nodes: Nodes) -> IntArray:
        """How much of a node would be left, 0..100, shape (N,).

        score = (sum of weight * free% over resources + dominantResourceWeight * least free%) // sum of weights

        Free percents are truncated: 79.5 and 80 with weights 1 and 1 give (79 + 80) // 2 = 79.
        """
        table = nodes.tables[NAME]
        if not self.scoring_enabled:
            return np.zeros(len(nodes), np.int64)
        by_prod = pod.prod and bool(self.score_according_prod_usage)
        load = table["prod_load"] + nodes.in_flight_prod if by_prod else table["score_load"] + nodes.in_flight
        free = _free_percent(load + np.array(pod.estimate, np.int64), table["allocatable"])
        weights = np.array(_vector(self.resources, self.resource_weights), np.int64)
        dominant = np.minimum(free.min(axis=1), _PERCENT) * self.dominant_resource_weight
        score: IntArray = (free @ weights + dominant) // (weights.sum() + self.dominant_resource_weight)
        known = table["reported"] & table["measured"] & ~self._expired(table, nodes.now)
        return np.where(known, score, 0)


def _vector(resources: Sequence[str], amounts: Mapping[str, int] | None) -> tuple[int, ...]:
    given = amounts or {}
    return tuple(given.get(name, 0) for name in resources)


def _exceeds(resource: str) -> tuple[str, str]:
    return f"node(s) {resource} usage exceed threshold", f"node(s) {resource} aggregated usage exceed threshold"


def usage_percent(load: IntArray, allocatable: IntArray) -> IntArray:
    """Load in percent of allocatable, used/total*100 rounded half away from zero; 0 where there is nothing to use."""
    total = np.where(allocatable == 0, 1, allocatable).astype(np.float64)
    return np.where(allocatable == 0, 0, round_half_away(load.astype(np.float64) / total * _PERCENT))


def _over(load: IntArray, allocatable: IntArray, limit: IntArray) -> BoolArray:
    over: BoolArray = (limit != 0) & (allocatable != 0) & (usage_percent(load, allocatable) > limit)
    return over


def _free_percent(load: IntArray, allocatable: IntArray) -> IntArray:
    """What is left in percent of allocatable, truncated; 0 where there is nothing or it is overused."""
    fits = (allocatable > 0) & (load <= allocatable)
    return np.where(fits, (allocatable - load) * _PERCENT // np.where(fits, allocatable, 1), 0)


@lru_cache(maxsize=8192)
def _custom_thresholds(text: str) -> Thresholds | None:
    """The thresholds of a node annotation; None if any part of it cannot be read. Names match in any case, as in Go."""
    try:
        data = _lowered(json.loads(text)) if text else None
        if data is None:
            return None
        part = _lowered(data.get("aggregatedusage"))
        aggregated = Aggregated(
            usage_thresholds=_percents(part.get("usagethresholds")),
            usage_aggregation_type=_text(part.get("usageaggregationtype")),
            usage_aggregated_duration=parse_duration(_text(part.get("usageaggregatedduration")) or "0s"),
        )
        return Thresholds(
            _percents(data.get("usagethresholds")), _percents(data.get("produsagethresholds")), aggregated
        )
    except ValueError:
        return None


def _lowered(data: object) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ValueError(f"{data!r} is not an object")  # noqa: TRY004 - one kind of error for all that is unreadable
    return {str(name).lower(): part for name, part in data.items()}


def _percents(data: object) -> dict[str, int]:
    if data is None:
        return {}
    if not isinstance(data, dict) or any(type(percent) is not int for percent in data.values()):
        raise ValueError(f"{data!r} is not a map of integers")
    return data


def _text(data: object) -> str:
    if data is None:
        return ""
    if not isinstance(data, str):
        raise ValueError(f"{data!r} is not text")  # noqa: TRY004 - one kind of error for all that is unreadable
    return data


def _problems(args: LoadAware) -> Iterator[Problem]:
    expiration = args.node_metric_expiration_seconds
    if expiration is not None and expiration <= 0:
        yield _invalid("nodeMetricExpirationSeconds", f"{expiration}: must be positive")
    yield from _out_of_range("resourceWeights", args.resource_weights, 1)
    if not 0 <= args.dominant_resource_weight <= _PERCENT:
        yield _invalid("dominantResourceWeight", f"{args.dominant_resource_weight}: must be 0..100")
    yield from _out_of_range("usageThresholds", args.usage_thresholds, 0)
    yield from _out_of_range("prodUsageThresholds", args.prod_usage_thresholds, 0)
    yield from _out_of_range("estimatedScalingFactors", args.estimated_scaling_factors, 1)
    missing = [name for name in args.resource_weights or () if name not in (args.estimated_scaling_factors or {})]
    if missing:
        text = f"{', '.join(missing)}: every resource with a weight needs a factor"
        yield Problem("estimatedScalingFactors", ProblemKind.NOT_FOUND, text)
    for name, seconds in (
        ("estimatedSecondsAfterPodScheduled", args.estimated_seconds_after_pod_scheduled),
        ("estimatedSecondsAfterInitialized", args.estimated_seconds_after_initialized),
    ):
        if seconds is not None and seconds < 0:
            yield _invalid(name, f"{seconds}: must not be negative")
    if args.aggregated is not None:
        yield from _aggregated_problems(args.aggregated)


def _aggregated_problems(args: Aggregated) -> Iterator[Problem]:
    yield from _out_of_range("aggregated.usageThresholds", args.usage_thresholds, 0)
    for name, kind in (("usage", args.usage_aggregation_type), ("score", args.score_aggregation_type)):
        if kind and kind not in AGGREGATION_TYPES:
            text = f'"{kind}": supported are {", ".join(AGGREGATION_TYPES)}'
            yield Problem(f"aggregated.{name}AggregationType", ProblemKind.NOT_SUPPORTED, text)
    for name, seconds in (("usage", args.usage_aggregated_duration), ("score", args.score_aggregated_duration)):
        if seconds < 0:
            yield _invalid(f"aggregated.{name}AggregatedDuration", f"{seconds:g}s: must not be negative")


def _out_of_range(field: str, amounts: Mapping[str, int] | None, least: int) -> Iterator[Problem]:
    bad = [f"{name} {amount}" for name, amount in (amounts or {}).items() if not least <= amount <= _PERCENT]
    if bad:
        yield _invalid(field, f"{', '.join(bad)}: must be {least}..100")


def _invalid(field: str, message: str) -> Problem:
    return Problem(field, ProblemKind.INVALID, message)

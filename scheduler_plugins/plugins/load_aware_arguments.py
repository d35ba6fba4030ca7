"""The arguments of LoadAwareScheduling: defaults, checks, and a node's annotation that replaces them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Self

from crds import names
from crds.codec import json_name
from crds.duration import parse_duration
from crds.ranges import ALLOWED, Range
from headroom.runtime.bounded_cache import BoundedCache, of_json
from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.snapshot.estimate import LoadRules, annotated, integers, shortened
from scheduler_plugins.snapshot.report import LONGEST

AGGREGATION_TYPES: Final = ("avg", "p50", "p90", "p95", "p99")
"""The statistics over a window that a NodeMetric may report."""

_PERCENT: Final = {ALLOWED: Range(0, 100)}
_SHARE: Final = {ALLOWED: Range(1, 100)}
_DEFAULT_WEIGHTS: Final = MappingProxyType({"cpu": 1, "memory": 1})
_DEFAULT_THRESHOLDS: Final = MappingProxyType({"cpu": 65, "memory": 95})
_DEFAULT_FACTORS: Final = MappingProxyType({"cpu": 85, "memory": 70})
_DEFAULT_EXPIRATION: Final = 180


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Evaluate by a statistic over a window instead of the plain usage."""

    usage_thresholds: Mapping[str, int] | None = field(default=None, metadata=_PERCENT)
    """Usage in percent of allocatable above which a node is refused, per resource; replaces `usageThresholds`."""
    usage_aggregation_type: str = ""
    """Which statistic the filter compares: avg, p50, p90, p95 or p99; empty: the filter does not aggregate."""
    usage_aggregated_duration: float = LONGEST
    """Over which window, as the nodes report it; 0s: the longest they report. A window without a report counts the sum
    of the pods' estimates in place of the measured load. [s, written as a Go duration]"""
    score_aggregation_type: str = ""
    """Which statistic the score uses; empty: the plain usage."""
    score_aggregated_duration: float = LONGEST
    """Over which window. [s, written as a Go duration]"""

    @property
    def filters(self) -> bool:
        """Return whether the filter aggregates: it takes thresholds and a type."""
        return bool(self.usage_thresholds) and self.usage_aggregation_type != ""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The usage thresholds that hold on one node; each group is in percent, by resource name."""

    usage: Mapping[str, int]  # of all that the node uses
    prod: Mapping[str, int]  # of what Prod pods use
    aggregated: Aggregated  # of an aggregate of the node's usage


@dataclass(frozen=True)
class LoadAwareArguments:
    """The arguments; None is "not given"."""

    filter_expired_node_metrics: bool | None = None
    """True if the filter checks the age of reports (true). False compares stale usage as if it were fresh."""
    node_metric_expiration_seconds: int | None = None
    """Age from which a report is too old (180). [s]"""
    enable_schedule_when_node_metrics_expired: bool | None = None
    """True if a node with a report that is too old passes unchecked instead of being refused (false)."""
    resource_weights: Mapping[str, int] | None = field(default=None, metadata=_SHARE)
    """Weight of each resource in the score (cpu 1, memory 1, unless `dominantResourceWeight` is given); 1..100."""
    dominant_resource_weight: int = field(default=0, metadata=_PERCENT)
    """Weight of the worst resource of a node in its score; 0..100."""
    usage_thresholds: Mapping[str, int] | None = field(default=None, metadata=_PERCENT)
    """Usage in percent of allocatable above which a node is refused (cpu 65, memory 95); 0: not checked."""
    prod_usage_thresholds: Mapping[str, int] | None = field(default=None, metadata=_PERCENT)
    """Usage of the Prod pods in percent of allocatable above which a node is refused to Prod pods; none: off."""
    prod_usage_include_sys: bool = False
    """True if the system's usage counts as the Prod pods'."""
    score_according_prod_usage: bool | None = None
    """True if Prod pods are scored by the usage of the Prod pods alone (false)."""
    estimator: str = ""
    """Name of the estimator. There is one, and as with Koordinator every name means it."""
    estimated_scaling_factors: Mapping[str, int] | None = field(default=None, metadata=_SHARE)
    """Percent of a pod's request that it is expected to use (cpu 85, memory 70; each is kept unless given); 1..100."""
    estimated_seconds_after_pod_scheduled: int | None = None
    """For how long after scheduling the estimate counts even if less is reported; 0: not at all. [s]"""
    estimated_seconds_after_initialized: int | None = None
    """The same, from the end of the init containers on. [s]"""
    allow_customize_estimation: bool = False
    """True if annotations of a pod may replace the factors and seconds."""
    aggregated: Aggregated | None = None
    """Evaluate by a statistic over a window instead of the plain usage."""
    supported_resources: tuple[str, ...] | None = None
    """Resources that only node annotations name, beside those of all maps here."""
    use_prediction: bool = False
    """True if the predicted peak of a node counts in place of its measured usage, in the filter (`usageThresholds`) and
    in the score. Where a node reports none, or one that is too old or not ready, its measured usage counts."""
    prediction_expiration_seconds: int = 900
    """Age from which a prediction is too old; 1 or more. A peak of a day is good for longer than an average of five
    minutes: as long as the manager publishes by it (`degradeTimeMinutes`, 15). [s]"""

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
        return tuple(_problems(self))

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The compared resources: cpu, memory, and all that an argument names, sorted by their bytes."""
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
        return any((self.resource_weights or {}).values()) or self.dominant_resource_weight != 0

    def load_rules(self) -> LoadRules:
        """The rules of load."""
        return LoadRules(
            resources=self.resources,
            factors=dict(self.estimated_scaling_factors or {}),
            seconds_after_scheduled=self.estimated_seconds_after_pod_scheduled,
            seconds_after_initialized=self.estimated_seconds_after_initialized,
            allow_customize=self.allow_customize_estimation,
            prod_includes_system=self.prod_usage_include_sys,
        )

    def thresholds(self, annotations: Mapping[str, str]) -> Thresholds:
        """The thresholds of a node: each group of its annotation replaces the one of the arguments as a whole."""
        thresholds = Thresholds(
            self.usage_thresholds or {}, self.prod_usage_thresholds or {}, self.aggregated or Aggregated()
        )
        custom, _ = custom_thresholds(annotations)
        if custom is None:
            return thresholds
        return Thresholds(
            custom.usage or thresholds.usage,
            custom.prod or thresholds.prod,
            custom.aggregated if custom.aggregated.filters else thresholds.aggregated,
        )


def custom_thresholds(annotations: Mapping[str, str]) -> tuple[Thresholds | None, str]:
    """Return the thresholds of a node's annotation, None without usable ones, and the reason."""
    return _thresholds(annotations.get(names.ANNOTATION_USAGE_THRESHOLDS, ""))


def _read_thresholds(text: str) -> tuple[Thresholds | None, str]:
    """As `custom_thresholds`; any part that cannot be read spoils all of it. Names match in any case, as in Go."""
    if not text:
        return None, ""
    try:
        data = _lowered(annotated(text))
        part = _lowered(data.get("aggregatedusage"))
        aggregated = Aggregated(
            usage_thresholds=_percents(part.get("usagethresholds")),
            usage_aggregation_type=_text(part.get("usageaggregationtype")),
            usage_aggregated_duration=parse_duration(_text(part.get("usageaggregatedduration", "0s"), "0s")),
        )
        result = Thresholds(
            _percents(data.get("usagethresholds")), _percents(data.get("produsagethresholds")), aggregated
        )
    except (ValueError, RecursionError) as error:
        return None, f"annotation {names.ANNOTATION_USAGE_THRESHOLDS} is ignored: {shortened(error)}"
    return result, ""


_thresholds: Final = BoundedCache(_read_thresholds, 4 * 2**20, of_json)  # Nodes of a pool have the same text


def _lowered(data: object) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ValueError(f"{data!r} is not an object")  # noqa: TRY004 - one kind of error for all that is unreadable
    return {str(name).lower(): part for name, part in data.items()}


def _percents(data: object) -> dict[str, int]:
    if data is None:
        return {}
    result = integers(data)
    if result is None:
        raise ValueError(f"{data!r} is not a map of integers")
    for name, percent in result.items():
        if not _PERCENT[ALLOWED].allows(percent):
            raise ValueError(f"{name}: {percent} is not a threshold, write 0..100 (0: not checked)")
    return result


def _text(data: object, default: str = "") -> str:
    if data is None:
        return default
    if not isinstance(data, str):
        raise ValueError(f"{data!r} is not text")  # noqa: TRY004 - one kind of error for all that is unreadable
    return data


def _problems(args: LoadAwareArguments) -> Iterator[Problem]:
    expiration = args.node_metric_expiration_seconds
    if expiration is not None and expiration <= 0:
        yield _invalid("nodeMetricExpirationSeconds", f"{expiration}: must be positive")
    yield from _out_of_range(args)
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
    if args.prediction_expiration_seconds <= 0:
        yield _invalid("predictionExpirationSeconds", f"{args.prediction_expiration_seconds}: must be positive")
    aggregated = args.aggregated or Aggregated()
    for name, given in (("usage", aggregated.filters), ("score", aggregated.score_aggregation_type != "")):
        if args.use_prediction and given:
            text = f"together with aggregated.{name}AggregationType: both select the usage, remove one"
            yield _invalid("usePrediction", text)


def _aggregated_problems(args: Aggregated) -> Iterator[Problem]:
    yield from _out_of_range(args, "aggregated.")
    for name, kind in (("usage", args.usage_aggregation_type), ("score", args.score_aggregation_type)):
        if kind and kind not in AGGREGATION_TYPES:
            text = f'"{kind}": supported are {", ".join(AGGREGATION_TYPES)}'
            yield Problem(f"aggregated.{name}AggregationType", ProblemKind.NOT_SUPPORTED, text)
    for name, seconds in (("usage", args.usage_aggregated_duration), ("score", args.score_aggregated_duration)):
        if seconds < 0:
            yield _invalid(f"aggregated.{name}AggregatedDuration", f"{seconds:g}s: must not be negative")


def _out_of_range(args: LoadAwareArguments | Aggregated, above: str = "") -> Iterator[Problem]:
    """The numbers that lie outside what their field allows."""
    for argument in fields(args):
        allowed, given = argument.metadata.get(ALLOWED), getattr(args, argument.name)
        if allowed is None or given is None:
            continue
        if isinstance(given, Mapping):
            bad = [f"{resource} {amount}" for resource, amount in given.items() if not allowed.allows(amount)]
        else:
            bad = [] if allowed.allows(given) else [str(given)]
        if bad:
            yield _invalid(
                f"{above}{json_name(argument.name)}", f"{', '.join(bad)}: must be {allowed.low:g}..{allowed.high:g}"
            )


def _invalid(field: str, message: str) -> Problem:
    return Problem(field, ProblemKind.INVALID, message)

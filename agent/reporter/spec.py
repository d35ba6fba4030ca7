"""The NodeMetric's spec as the manager writes it: validated, with defaults. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from agent.pods import Resources
from agent.samples import CPU, MEMORY
from crds.codec import CodecError, from_json, to_json
from crds.duration import DurationError, canonical, parse_duration
from crds.node_metric import (
    LONGEST_AGGREGATE_SECONDS,
    LONGEST_DURATION_SECONDS,
    MEMORY_COLLECT_POLICIES,
    MOST_DURATIONS,
    WITHOUT_PAGE_CACHE,
    MetricCollectPolicy,
    NodeAggregatePolicy,
    NodeMetricSpec,
)
from crds.predict_policy import PredictPolicy, with_defaults
from crds.quantity import milli_value, value
from crds.ranges import Range, problems

SHORTEST_REPORT_SECONDS: Final = 30  # A shorter report interval is taken as this. [s]
SHORTEST_WINDOW_SECONDS: Final = 60  # A shorter averaging window is taken as this. [s]
_LONGEST_SECONDS: Final = 366 * 86400
_COLLECT: Final = "spec.metricCollectPolicy"
_AT_MOST: Final = {
    "aggregateDurationSeconds": Range(float("-inf"), LONGEST_AGGREGATE_SECONDS),
    "reportIntervalSeconds": Range(float("-inf"), _LONGEST_SECONDS),
}
_PARTS: Final = {
    "metricCollectPolicy": "metric_collect_policy",
    "predictPolicy": "predict_policy",
    "workloadHistory": "workload_history",
}
_AMOUNTS: Final = {CPU: milli_value, MEMORY: value}
_DEFAULT_WINDOW_SECONDS: Final = 300
_DEFAULT_REPORT_SECONDS: Final = 60
_DEFAULT_DURATIONS: Final = ("5m0s", "10m0s", "30m0s")


@dataclass(frozen=True, slots=True)
class SpecInForce:
    """The spec that the agent obeys."""

    spec: NodeMetricSpec  # with every default filled in
    problem: str = ""
    """The fault of the spec, in one line, while its last valid version is in force. Empty for a valid spec."""
    generation: int | None = None  # which version of the NodeMetric's spec this was read from; what conditions speak of

    @property
    def report_interval_seconds(self) -> int:
        """Time from one full report to the next, at least `SHORTEST_REPORT_SECONDS` [s]."""
        return max(_collect(self.spec).report_interval_seconds or 0, SHORTEST_REPORT_SECONDS)

    @property
    def window_seconds(self) -> int:
        """Window of the averages, at least `SHORTEST_WINDOW_SECONDS` [s]."""
        return max(_collect(self.spec).aggregate_duration_seconds or 0, SHORTEST_WINDOW_SECONDS)

    @property
    def durations_seconds(self) -> tuple[float, ...]:
        """Windows of the percentiles [s]."""
        aggregate = _collect(self.spec).node_aggregate_policy or NodeAggregatePolicy()
        return tuple(parse_duration(duration) for duration in aggregate.durations or ())

    @property
    def memory_policy(self) -> str:
        return _collect(self.spec).node_memory_collect_policy or WITHOUT_PAGE_CACHE

    @property
    def workloads(self) -> Mapping[str, Resources]:
        """The usage of workloads on other nodes, by id. [milli-cores, bytes]"""
        return {
            key: {name: amount(one[name]) for name, amount in _AMOUNTS.items() if name in one}
            for key, one in (self.spec.workload_history or {}).items()
        }

    @property
    def predict_policy(self) -> PredictPolicy:
        return with_defaults(self.spec.predict_policy)


def merged(spec: NodeMetricSpec | None) -> NodeMetricSpec:
    """The spec with the built-in default for each absent key, and durations as Go writes them."""
    spec = spec or NodeMetricSpec()
    collect = _collect(spec)
    aggregate = collect.node_aggregate_policy
    if not (aggregate and aggregate.durations):
        aggregate = NodeAggregatePolicy(durations=_DEFAULT_DURATIONS)
    window, interval = collect.aggregate_duration_seconds, collect.report_interval_seconds
    filled = replace(
        collect,
        aggregate_duration_seconds=_DEFAULT_WINDOW_SECONDS if window is None else window,
        report_interval_seconds=_DEFAULT_REPORT_SECONDS if interval is None else interval,
        node_aggregate_policy=replace(aggregate, durations=tuple(map(_written, aggregate.durations or ()))),
        node_memory_collect_policy=collect.node_memory_collect_policy or WITHOUT_PAGE_CACHE,
    )
    return replace(spec, metric_collect_policy=filled)


def read(spec: Mapping[str, Any] | None, last: SpecInForce) -> SpecInForce:
    """The spec to obey from now on; None for an absent one. A part that is not valid keeps its last good value.

    A prediction policy that is well-formed passes: whether its model and numbers can be followed is for the
    prediction to evaluate, which keeps its own last good one.
    """
    result = []
    parts: dict[str, Any] = {}
    for name, field in _PARTS.items():
        parsed = NodeMetricSpec()
        try:
            parsed = from_json(NodeMetricSpec, _part(spec, name))
            wrong = _collect_problems(_collect(parsed))
        except CodecError as error:
            wrong = [f"spec.{error}".replace("spec.the object:", "spec:")]
        result += wrong
        parts[field] = getattr(last.spec if wrong else parsed, field)
    return SpecInForce(merged(NodeMetricSpec(**parts)), "; ".join(dict.fromkeys(result)))


def default() -> SpecInForce:
    return SpecInForce(merged(None))


def _collect(spec: NodeMetricSpec) -> MetricCollectPolicy:
    return spec.metric_collect_policy or MetricCollectPolicy()


def _written(duration: str) -> str:
    try:
        return canonical(duration)
    except DurationError:  # it is named where the spec is evaluated
        return duration


def _part(spec: Any, name: str) -> Any:  # noqa: ANN401 - as it came
    """Return a part of a spec; a value that is no mapping is returned for the check to refuse."""
    return {name: spec.get(name)} if isinstance(spec, Mapping) else {name: None} if spec is None else spec


def _collect_problems(collect: MetricCollectPolicy) -> list[str]:
    result = problems(to_json(collect), _AT_MOST, _COLLECT)
    policy = collect.node_memory_collect_policy
    if policy is not None and policy not in MEMORY_COLLECT_POLICIES:
        allowed = ", ".join(MEMORY_COLLECT_POLICIES)
        result.append(f"{_COLLECT}.nodeMemoryCollectPolicy: must be one of {allowed}, got {policy[:80]!r}")
    path = f"{_COLLECT}.nodeAggregatePolicy.durations"
    durations = (collect.node_aggregate_policy and collect.node_aggregate_policy.durations) or ()
    if len(durations) > MOST_DURATIONS:
        return [*result, f"{path}: must list at most {MOST_DURATIONS}, got {len(durations)}"]
    for duration in durations:
        try:
            good = 0 < parse_duration(duration) <= LONGEST_DURATION_SECONDS
        except ValueError as error:
            result.append(f"{path}: {error}")
            continue
        if not good:
            longest = LONGEST_DURATION_SECONDS // 3600
            result.append(f"{path}: must be positive and at most {longest}h, got {duration[:80]!r}")
    return result

"""The NodeMetric's spec as the manager writes it: validated, with defaults. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

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
from crds.ranges import Range, problems

SHORTEST_REPORT_SECONDS: Final = 30
"""A shorter report interval is taken as this. [s]"""
SHORTEST_WINDOW_SECONDS: Final = 60
"""A shorter averaging window is taken as this. [s]"""
_LONGEST_SECONDS: Final = 366 * 86400
_AT_MOST: Final = {
    "aggregateDurationSeconds": Range(float("-inf"), LONGEST_AGGREGATE_SECONDS),
    "reportIntervalSeconds": Range(float("-inf"), _LONGEST_SECONDS),
}
_COLLECT_DEFAULTS: Final = MetricCollectPolicy(
    aggregate_duration_seconds=300,
    report_interval_seconds=60,
    node_aggregate_policy=NodeAggregatePolicy(durations=("5m0s", "10m0s", "30m0s")),
    node_memory_collect_policy=WITHOUT_PAGE_CACHE,
)


@dataclass(frozen=True, slots=True)
class SpecInForce:
    """The spec that the agent obeys."""

    spec: NodeMetricSpec
    """With every default filled in."""
    problem: str = ""
    """What is wrong with the spec as written, in one line; then this is the last good one. Empty when it is fine."""
    generation: int | None = None
    """Which version of the NodeMetric's spec this was read from; what conditions speak of."""

    @property
    def report_interval_seconds(self) -> int:
        """Time from one full report to the next [s]."""
        return report_interval_seconds(self.spec)

    @property
    def window_seconds(self) -> int:
        """Window of the averages [s]."""
        return window_seconds(self.spec)

    @property
    def durations_seconds(self) -> tuple[float, ...]:
        """Windows of the percentiles [s]."""
        collect = self.spec.metric_collect_policy or _COLLECT_DEFAULTS
        aggregate = collect.node_aggregate_policy or NodeAggregatePolicy()
        return tuple(parse_duration(duration) for duration in aggregate.durations or ())

    @property
    def memory_policy(self) -> str:
        """What counts as memory in use."""
        collect = self.spec.metric_collect_policy or _COLLECT_DEFAULTS
        return collect.node_memory_collect_policy or WITHOUT_PAGE_CACHE

    @property
    def predict_policy(self) -> PredictPolicy:
        """The prediction policy, every general key set."""
        return with_defaults(self.spec.predict_policy)


def merged(spec: NodeMetricSpec | None) -> NodeMetricSpec:
    """The spec with the built-in default for each absent key, and durations as Go writes them."""
    spec = spec or NodeMetricSpec()
    collect = spec.metric_collect_policy or MetricCollectPolicy()
    durations = collect.node_aggregate_policy and collect.node_aggregate_policy.durations
    filled = replace(
        collect,
        aggregate_duration_seconds=_or(
            collect.aggregate_duration_seconds, _COLLECT_DEFAULTS.aggregate_duration_seconds
        ),
        report_interval_seconds=_or(collect.report_interval_seconds, _COLLECT_DEFAULTS.report_interval_seconds),
        node_aggregate_policy=(
            replace(collect.node_aggregate_policy, durations=tuple(map(_written, durations)))
            if collect.node_aggregate_policy and durations
            else _COLLECT_DEFAULTS.node_aggregate_policy
        ),
        node_memory_collect_policy=collect.node_memory_collect_policy or _COLLECT_DEFAULTS.node_memory_collect_policy,
    )
    return replace(spec, metric_collect_policy=filled)


def _written(duration: str) -> str:
    try:
        return canonical(duration)
    except DurationError:  # it is named where the spec is judged
        return duration


def report_interval_seconds(spec: NodeMetricSpec | None) -> int:
    """Time between two full reports, at least `SHORTEST_REPORT_SECONDS` [s]."""
    collect = merged(spec).metric_collect_policy or _COLLECT_DEFAULTS
    return max(collect.report_interval_seconds or 0, SHORTEST_REPORT_SECONDS)


def window_seconds(spec: NodeMetricSpec | None) -> int:
    """Window of the averages, at least `SHORTEST_WINDOW_SECONDS` [s]."""
    collect = merged(spec).metric_collect_policy or _COLLECT_DEFAULTS
    return max(collect.aggregate_duration_seconds or 0, SHORTEST_WINDOW_SECONDS)


def read(spec: Mapping[str, Any] | None, last: SpecInForce) -> SpecInForce:
    """The spec to obey from now on.

    A prediction policy that is well-formed passes: whether its model and numbers can be followed is for the
    prediction to judge, which keeps its own last good one.

    Args:
        spec: As the API server has it; None when it is absent.
        last: What was obeyed so far: a part that is not valid keeps its last good value, with the reason.
    """
    found = []
    parts: dict[str, Any] = {}
    for name, field, check in (
        ("metricCollectPolicy", "metric_collect_policy", _collect_problems),
        ("predictPolicy", "predict_policy", _no_problems),
    ):
        try:
            parsed = from_json(NodeMetricSpec, _part(spec, name))
            wrong = check(parsed)
        except CodecError as error:
            wrong = [f"spec.{error}".replace("spec.the object:", "spec:")]
        found += wrong
        parts[field] = getattr(last.spec if wrong else parsed, field)
    return SpecInForce(merged(NodeMetricSpec(**parts)), "; ".join(dict.fromkeys(found)))


def default() -> SpecInForce:
    """What holds until a NodeMetric was seen, and for a machine without one."""
    return SpecInForce(merged(None))


def _part(spec: Any, name: str) -> Any:  # noqa: ANN401 - as it came
    """One part of a spec; something else than a map as it is, to be refused."""
    return {name: spec.get(name)} if isinstance(spec, Mapping) else {name: None} if spec is None else spec


def _no_problems(_: NodeMetricSpec) -> list[str]:
    return []


def _collect_problems(spec: NodeMetricSpec) -> list[str]:
    found = []
    collect = spec.metric_collect_policy or MetricCollectPolicy()
    found += problems(to_json(collect), _AT_MOST, "spec.metricCollectPolicy")
    policy = collect.node_memory_collect_policy
    if policy is not None and policy not in MEMORY_COLLECT_POLICIES:
        allowed = ", ".join(MEMORY_COLLECT_POLICIES)
        found.append(f"spec.metricCollectPolicy.nodeMemoryCollectPolicy: must be one of {allowed}, got {policy[:80]!r}")
    aggregate = collect.node_aggregate_policy or NodeAggregatePolicy()
    durations = aggregate.durations or ()
    if len(durations) > MOST_DURATIONS:
        count = f"must list at most {MOST_DURATIONS}, got {len(durations)}"
        return [*found, f"spec.metricCollectPolicy.nodeAggregatePolicy.durations: {count}"]
    for duration in durations:
        try:
            if not 0 < parse_duration(duration) <= LONGEST_DURATION_SECONDS:
                wrong = f"must be positive and at most {LONGEST_DURATION_SECONDS // 3600}h, got {duration[:80]!r}"
                raise ValueError(wrong)  # noqa: TRY301 - the same answer as garbage
        except ValueError as error:
            found.append(f"spec.metricCollectPolicy.nodeAggregatePolicy.durations: {error}")
    return found


def _or(value: int | None, default_value: int | None) -> int | None:
    return default_value if value is None else value

"""LoadAwareScheduling: arguments, defaults, and what is wrong with them."""

import pytest

from scheduler_plugins.arguments import decode, encode
from scheduler_plugins.framework.plugin import ProblemKind
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.plugins.load_aware_arguments import Aggregated

DEFAULTS = {
    "filterExpiredNodeMetrics": True,
    "nodeMetricExpirationSeconds": 180,
    "enableScheduleWhenNodeMetricsExpired": False,
    "resourceWeights": {"cpu": 1, "memory": 1},
    "dominantResourceWeight": 0,
    "usageThresholds": {"cpu": 65, "memory": 95},
    "prodUsageThresholds": None,
    "prodUsageIncludeSys": False,
    "scoreAccordingProdUsage": False,
    "estimator": "",
    "estimatedScalingFactors": {"cpu": 85, "memory": 70},
    "estimatedSecondsAfterPodScheduled": None,
    "estimatedSecondsAfterInitialized": None,
    "allowCustomizeEstimation": False,
    "aggregated": None,
    "supportedResources": None,
    "usePrediction": False,
    "predictionExpirationSeconds": 900,
}


def test_defaults_are_upstreams() -> None:
    assert encode(decode(LoadAware, {}, "args").defaulted()) == DEFAULTS


INVALID, UNSUPPORTED, NOT_FOUND = ProblemKind.INVALID, ProblemKind.NOT_SUPPORTED, ProblemKind.NOT_FOUND
FACTORS = {"cpu": 85, "memory": 70}


@pytest.mark.parametrize(
    ("field", "kind", "plugin"),
    [
        ("nodeMetricExpirationSeconds", INVALID, LoadAware(node_metric_expiration_seconds=0)),
        ("resourceWeights", INVALID, LoadAware(resource_weights={"cpu": 0}, estimated_scaling_factors=FACTORS)),
        ("resourceWeights", INVALID, LoadAware(resource_weights={"cpu": 101}, estimated_scaling_factors=FACTORS)),
        ("dominantResourceWeight", INVALID, LoadAware(dominant_resource_weight=-1)),
        ("dominantResourceWeight", INVALID, LoadAware(dominant_resource_weight=101)),
        ("usageThresholds", INVALID, LoadAware(usage_thresholds={"cpu": 101})),
        ("prodUsageThresholds", INVALID, LoadAware(prod_usage_thresholds={"cpu": -1})),
        ("estimatedScalingFactors", INVALID, LoadAware(estimated_scaling_factors={"cpu": 0})),
        ("estimatedScalingFactors", NOT_FOUND, LoadAware(resource_weights={"cpu": 1})),
        ("estimatedSecondsAfterPodScheduled", INVALID, LoadAware(estimated_seconds_after_pod_scheduled=-1)),
        ("estimatedSecondsAfterInitialized", INVALID, LoadAware(estimated_seconds_after_initialized=-1)),
        ("aggregated.usageThresholds", INVALID, Aggregated({"cpu": 101})),
        ("aggregated.usageAggregationType", UNSUPPORTED, Aggregated(usage_aggregation_type="P95")),  # case matters
        ("aggregated.scoreAggregationType", UNSUPPORTED, Aggregated(score_aggregation_type="max")),
        ("aggregated.usageAggregatedDuration", INVALID, Aggregated(usage_aggregated_duration=-1.0)),
        ("aggregated.scoreAggregatedDuration", INVALID, Aggregated(score_aggregated_duration=-1.0)),
        ("predictionExpirationSeconds", INVALID, LoadAware(prediction_expiration_seconds=0)),
        ("usePrediction", INVALID, LoadAware(use_prediction=True, aggregated=Aggregated({"cpu": 50}, "p95"))),
        ("usePrediction", INVALID, LoadAware(use_prediction=True, aggregated=Aggregated(score_aggregation_type="p95"))),
    ],
)
def test_bad_argument_is_named(field: str, kind: str, plugin: LoadAware | Aggregated) -> None:
    made = LoadAware(aggregated=plugin) if isinstance(plugin, Aggregated) else plugin
    assert [(problem.field, problem.kind) for problem in made.problems()] == [(field, kind)]


@pytest.mark.parametrize(
    "plugin",
    [
        LoadAware(),
        LoadAware().defaulted(),
        LoadAware(usage_thresholds={"cpu": 0, "memory": 100}),  # both ends are allowed
        LoadAware(estimated_scaling_factors={"cpu": 100}),
        LoadAware(dominant_resource_weight=100),
        LoadAware(aggregated=Aggregated(usage_aggregation_type="p50", score_aggregation_type="avg")),
        LoadAware(estimated_seconds_after_pod_scheduled=0),  # off
        LoadAware(estimator="anything"),  # there is only one
    ],
)
def test_good_arguments_have_no_problem(plugin: LoadAware) -> None:
    assert not plugin.problems()


def test_all_problems_come_together() -> None:
    plugin = LoadAware(dominant_resource_weight=-1, usage_thresholds={"cpu": 101, "memory": -1})
    problems = plugin.problems()
    assert [problem.field for problem in problems] == ["dominantResourceWeight", "usageThresholds"]
    assert "cpu 101, memory -1" in problems[1].message

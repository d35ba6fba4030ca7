"""The arguments of LowRiskOverCommitment and LoadAwareScheduling: names, defaults, and rejected values."""

from typing import Any

import pytest

from scheduler_plugins.arguments import ArgumentError, decode, encode
from scheduler_plugins.framework.plugin import ProblemKind
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.plugins.load_aware_arguments import Aggregated
from scheduler_plugins.plugins.low_risk_over_commitment import LowRiskOverCommitment
from scheduler_plugins.providers.spec import MetricProvider, ProviderSpec

DESIGN_TEXT = {
    "metricProvider": {"type": "Prometheus", "address": "http://prometheus-k8s.monitoring.svc.cluster.local:9090"},
    "smoothingWindowSize": 5,
    "riskLimitWeight": 0.5,
}
"""The arguments in the example of the design text, of v1beta3."""
UPSTREAM = {
    "smoothingWindowSize": 5,
    "riskLimitWeights": {"cpu": 0.5, "memory": 0.3},
    "metricProvider": {"type": "Prometheus", "address": "https://prometheus:9090", "insecureSkipVerify": True},
    "watcherAddress": "http://127.0.0.1:2020",
}
"""Every argument of v1."""


def _plugin(arguments: Any) -> LowRiskOverCommitment:  # noqa: ANN401 - JSON
    plugin: LowRiskOverCommitment = decode(LowRiskOverCommitment, arguments, "args").defaulted()
    return plugin


def _problems(arguments: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - JSON
    return [(problem.field, problem.message) for problem in _plugin(arguments).problems()]


def test_defaults() -> None:
    texts = encode(_plugin({}))
    provider = texts.pop("metricProvider")
    assert (provider["type"], provider["address"], provider["insecureSkipVerify"]) == ("", "", False)
    assert texts == {
        "watcherAddress": "",
        "smoothingWindowSize": 5,
        "riskLimitWeights": {"cpu": 0.5, "memory": 0.5},
        "riskLimitWeight": None,
        "bestEffortMayFillNode": False,
        "metricExpirationSeconds": 300,
        "nodeMetricAggregatedDuration": "0s",
        "parity": False,
    }


@pytest.mark.parametrize("arguments", [DESIGN_TEXT, UPSTREAM, {}, {"riskLimitWeights": None}])
def test_known_arguments_are_taken(arguments: Any) -> None:  # noqa: ANN401 - JSON
    assert _problems(arguments) == []


def test_weights_add_up() -> None:
    assert _plugin({"riskLimitWeights": {"cpu": 0.2}, "riskLimitWeight": 0.9}).weights.tolist() == [0.2, 0.9]
    assert _plugin({"riskLimitWeights": {"memory": 0}}).weights.tolist() == [0.5, 0]
    assert _plugin({"riskLimitWeight": 1}).weights.tolist() == [1, 1]


def test_default_is_node_metric() -> None:
    for arguments in ({}, {"metricProvider": {"type": "NodeMetric"}}, {"watcherAddress": ""}):
        assert _plugin(arguments).provider() is None


def test_provider_is_reported() -> None:
    spec = _plugin(UPSTREAM).provider()
    assert spec is not None
    assert spec.watcher_address == "http://127.0.0.1:2020"
    arguments = {"metricProvider": {"type": "SignalFx", "token": "t"}, "parity": True}
    expected = MetricProvider(type="SignalFx", token="t", insecure_skip_verify=False)  # noqa: S106 - none that opens anything
    assert _plugin(arguments).provider() == ProviderSpec(expected, None, parity=True)


@pytest.mark.parametrize(
    ("provider", "parity", "unchecked"),
    [
        ({"type": "Prometheus"}, False, False),
        ({"type": "Prometheus"}, True, True),  # upstream's default
        ({"type": "Prometheus", "insecureSkipVerify": False}, True, False),
        ({"type": "Prometheus", "insecureSkipVerify": True}, False, True),
        ({"type": "Prometheus", "caFile": "/etc/ca.pem"}, True, False),  # an authority implies a check
        ({"type": "SignalFx"}, True, False),
    ],
)
def test_certificate_checks(provider: Any, parity: bool, unchecked: bool) -> None:  # noqa: ANN401, FBT001
    """Certificates are checked by default; upstream does not check Prometheus' by default."""
    plugin = _plugin({"metricProvider": provider, "parity": parity})
    assert plugin.metric_provider.insecure_skip_verify is unchecked


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"smoothingWindowSize": 0}, "smoothingWindowSize"),
        ({"smoothingWindowSize": -5}, "smoothingWindowSize"),
        ({"riskLimitWeights": {"cpu": -1}}, "riskLimitWeights.cpu"),
        ({"riskLimitWeights": {"nvidia.com/gpu": 7}}, "riskLimitWeights.nvidia.com/gpu"),
        ({"riskLimitWeights": {"CPU": 0.5}}, "riskLimitWeights.CPU"),
        ({"riskLimitWeights": {"mem": 0.5}}, "riskLimitWeights.mem"),
        ({"riskLimitWeight": 1.01}, "riskLimitWeight"),
        ({"metricExpirationSeconds": -1}, "metricExpirationSeconds"),
        ({"nodeMetricAggregatedDuration": "-5m"}, "nodeMetricAggregatedDuration"),
        ({"metricProvider": {"type": "prometheus"}}, "metricProvider.type"),
        ({"metricProvider": {"type": "Datadog"}}, "metricProvider.type"),
        ({"metricProvider": {"address": "prometheus:9090"}}, "metricProvider.address"),
        ({"watcherAddress": "load-watcher"}, "watcherAddress"),
    ],
)
def test_bad_values_are_errors(arguments: Any, field: str) -> None:  # noqa: ANN401
    assert [name for name, _ in _problems(arguments)] == [field]


def test_weights_of_other_resources_are_ignored() -> None:
    assert _problems({"riskLimitWeights": {"cpu": 0.3, "nvidia.com/gpu": 0.7}}) == []


def test_all_mistakes_are_reported_at_once() -> None:
    arguments = {"smoothingWindowSize": 0, "riskLimitWeight": 2, "metricProvider": {"type": "x", "address": "y"}}
    assert len(_problems(arguments)) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"metricProvider": [{"token": "s3cret"}]},
        {"metricProvider": {"token": ["s3cret"]}},
        {"metricProvider": {"type": "Prometheus", "address": "http://user:s3cret@p@rometheus:9090"}},
        {"metricProvider": {"type": "Prometheus", "address": "http://prometheus:9090?token=s3cret"}},
        {"metricProvider": {"type": "Prometheus", "address": "http://prometheus:9090#s3cret"}},
        {"watcherAddress": "http://user:s3cret@load-watcher:2020"},
    ],
)
def test_mistakes_quote_no_secrets(arguments: Any) -> None:  # noqa: ANN401 - JSON
    """Messages about a token or a URL omit secrets: the log of a pod has many readers."""
    try:
        texts = " ".join(message for _, message in _problems(arguments))
    except ArgumentError as error:
        texts = str(error)
    assert texts
    assert "s3cret" not in texts


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
        LoadAware(estimator="anything"),  # there is a single one
    ],
)
def test_good_arguments_have_no_problem(plugin: LoadAware) -> None:
    assert not plugin.problems()


def test_all_problems_are_reported_together() -> None:
    plugin = LoadAware(dominant_resource_weight=-1, usage_thresholds={"cpu": 101, "memory": -1})
    problems = plugin.problems()
    assert [problem.field for problem in problems] == ["dominantResourceWeight", "usageThresholds"]
    assert "cpu 101, memory -1" in problems[1].message

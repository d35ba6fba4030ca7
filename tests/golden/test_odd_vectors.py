"""Vectors that chance finds too seldom: what the peer answers to each is written down here by hand."""

from typing import Any, Final

import pytest

from tests.golden.runner import Outcome, judge

Json = dict[str, Any]

NODE: Final[Json] = {"name": "n", "allocatable": {"cpu": "62", "memory": "250Gi"}}
REPORT: Final[Json] = {
    "nodeUsage": {"cpu": "1500m", "memory": "100G"},
    "systemUsage": {"cpu": "1", "memory": "1G"},
    "prodReclaimable": {"cpu": "4", "memory": "3Ki"},
    "updateAgeSeconds": 20,
}
STRATEGY: Final[Json] = {"enable": True, "degradeTimeMinutes": 15}
ANNOTATED: Final[Json] = {
    "labels": {"node.koordinator.sh/cpu-reclaim-ratio": "0.29"},
    "annotations": {"node.koordinator.sh/colocation-strategy": '{"metricAggregatePolicy":{"durations":["90s"]}}'},
}


def _is_deviation(family: str, asked: Json, theirs: Json) -> None:
    judgement = judge(family, {"name": "odd", "input": asked, "expected": theirs})
    assert judgement.outcome is Outcome.DEVIATION, judgement.detail


@pytest.mark.parametrize("capacity", [None, {"cpu": "64"}, {}], ids=["none", "of CPU alone", "empty"])
def test_node_without_capacity_has_what_is_allocatable(capacity: Json | None) -> None:
    """What the peer takes for a node of size zero sells as much as is reclaimable."""
    node = NODE if capacity is None else {**NODE, "capacity": capacity}
    sold = [4000 if capacity else 0, 0]
    items = [
        {"name": f"kubernetes.io/mid-{name}", "reset": False, "quantity": number}
        for name, number in zip(("cpu", "memory"), sold, strict=True)
    ]
    asked = {"op": "calculate", "node": node, "nodeMetric": REPORT, "pods": [], "strategy": STRATEGY}
    _is_deviation("mid_resource", asked, {"error": False, "items": items})


def test_annotation_makes_no_node_ready() -> None:
    """The peer has an error where nothing is allocatable; here nothing is sold, whatever the annotation says."""
    annotations = {"node.koordinator.sh/raw-allocatable": '{"cpu":"8","memory":"8Gi"}'}
    node = {"name": "n", "capacity": {"cpu": "8", "memory": "8Gi"}, "annotations": annotations}
    asked = {"op": "calculate", "node": node, "nodeMetric": REPORT, "pods": [], "strategy": STRATEGY}
    _is_deviation("mid_resource", asked, {"error": True, "items": None})


@pytest.mark.parametrize("durations", [["500ms"], ["1000h"], ["5m0s"] * 11], ids=["short", "long", "many"])
def test_windows_that_no_agent_can_measure_are_faults(durations: list[str]) -> None:
    """The peer takes any duration, and any number of them."""
    strategy = {"enable": True, "metricAggregatePolicy": {"durations": durations}}
    _is_deviation("colocation_config", {"op": "is_strategy_valid", "strategy": strategy}, {"valid": True})


def test_durations_of_an_annotation_are_told_back_as_go_writes_them() -> None:
    """Also where another part of the same node's strategy is a deviation."""
    theirs = {"cpuReclaimThresholdPercent": 28, "metricAggregatePolicy": {"durations": ["1m30s"]}}
    asked = {"op": "get_node_strategy", "config": {"enable": True}, "node": ANNOTATED}
    _is_deviation("colocation_config", asked, {"strategy": {"enable": True, **theirs}})


def test_two_rules_of_one_vector() -> None:
    """A field that has another name here, and arguments that only we check: every error in its place."""
    arguments = {
        "nodeMetricExpirationSeconds": 0,
        "prodUsageThresholds": {"cpu": 101},
        "estimatedScalingFactors": {"cpu": 0},
        "estimatedSecondsAfterInitialized": -1,
        "aggregated": {"usageAggregationType": "p42"},
    }
    theirs = [
        {"field": "nodeMetricExpiredSeconds", "type": "FieldValueInvalid"},
        {"field": "estimatedScalingFactors", "type": "FieldValueInvalid"},
        {"field": "aggregated.usageAggregationType", "type": "FieldValueNotSupported"},
    ]
    asked = {"op": "validate", "applyDefaults": False, "args": arguments}
    _is_deviation("loadaware_args", asked, {"valid": False, "errors": theirs})
    wrong = {"valid": False, "errors": theirs[1:]}
    assert judge("loadaware_args", {"name": "odd", "input": asked, "expected": wrong}).outcome is Outcome.FAILED


def test_default_of_arguments_that_only_we_check() -> None:
    """The peer finds nothing wrong with a threshold above 100 for Prod pods."""
    asked = {"op": "defaults", "args": {"prodUsageThresholds": {"cpu": 101}}}
    _is_deviation("loadaware_args", asked, {"valid": True})


def test_provider_of_ours() -> None:
    """The peer knows no provider of that name."""
    asked = {"op": "collector_spec", "trimaranSpec": {"metricProvider": {"type": "NodeMetric"}}}
    _is_deviation("trimaran_args", asked, {"error": "invalid MetricProvider.Type, got NodeMetric"})

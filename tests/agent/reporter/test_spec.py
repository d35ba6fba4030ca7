from typing import Any

import pytest

from agent.reporter import spec as specs
from crds.codec import from_json, to_json
from crds.node_metric import NodeMetricSpec

DEFAULT = {
    "aggregateDurationSeconds": 300,
    "reportIntervalSeconds": 60,
    "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
}


@pytest.mark.parametrize(
    ("collect", "whole"),
    [
        (None, DEFAULT),
        ({}, DEFAULT),
        ({"reportIntervalSeconds": 180}, {**DEFAULT, "reportIntervalSeconds": 180}),
        ({"nodeAggregatePolicy": {"durations": []}}, DEFAULT),
        (  # written as Go writes them; other texts stay unchanged, to be reported
            {"nodeAggregatePolicy": {"durations": ["1m", "90s", "soon"]}},
            {**DEFAULT, "nodeAggregatePolicy": {"durations": ["1m0s", "1m30s", "soon"]}},
        ),
    ],
)
def test_absent_keys_take_defaults(collect: dict[str, Any] | None, whole: dict[str, Any]) -> None:
    spec = {} if collect is None else {"metricCollectPolicy": collect}
    assert to_json(specs.merged(from_json(NodeMetricSpec, spec)))["metricCollectPolicy"] == whole


@pytest.mark.parametrize(("seconds", "report", "window"), [(0, 30, 60), (31, 31, 60), (60, 60, 60), (90, 90, 90)])
def test_report_interval_and_window_have_floors(seconds: int, report: int, window: int) -> None:
    collect = {"aggregateDurationSeconds": seconds, "reportIntervalSeconds": seconds}
    result = specs.read({"metricCollectPolicy": collect}, specs.default())
    assert (result.report_interval_seconds, result.window_seconds) == (report, window)


def test_every_part_of_a_good_spec_is_in_force() -> None:
    collect = {"nodeAggregatePolicy": {"durations": ["1m", "90s"]}, "nodeMemoryCollectPolicy": "usageWithPageCache"}
    spec = {"metricCollectPolicy": collect, "predictPolicy": {"model": "max", "checkIntervalSeconds": 7}}
    result = specs.read(spec, specs.default())
    assert (result.problem, result.durations_seconds, result.memory_policy) == ("", (60.0, 90.0), "usageWithPageCache")
    assert (result.report_interval_seconds, result.window_seconds) == (60, 300)
    assert (result.predict_policy.model, result.predict_policy.check_interval_seconds) == ("max", 7)


@pytest.mark.parametrize(
    ("collect", "named"),
    [
        ({"reportIntervalSeconds": "soon"}, "spec.metricCollectPolicy.reportIntervalSeconds"),
        ({"nodeMemoryCollectPolicy": "all"}, "nodeMemoryCollectPolicy: must be one of"),
        ({"nodeAggregatePolicy": {"durations": ["5x"]}}, "durations: '5x'"),
        ({"nodeAggregatePolicy": {"durations": ["-5m"]}}, "durations"),
        ({"nodeAggregatePolicy": {"durations": ["1m", "9000h"]}}, "durations: must be positive and at most 168h"),
        ({"aggregateDurationSeconds": 10**30}, "aggregateDurationSeconds: must be at most 1800, got 1000"),
        ({"aggregateDurationSeconds": 86400}, "aggregateDurationSeconds: must be at most 1800, got 86400"),
        ({"nodeAggregatePolicy": {"durations": ["1m"] * 11}}, "durations: must list at most 10, got 11"),
        ([], "spec.metricCollectPolicy"),
    ],
)
def test_garbage_is_named_and_keeps_the_last_good_value_of_its_part(collect: Any, named: str) -> None:  # noqa: ANN401
    last = specs.read({"metricCollectPolicy": {"reportIntervalSeconds": 45}}, specs.default())
    result = specs.read({"metricCollectPolicy": collect, "predictPolicy": {"safetyMarginPercent": 3}}, last)
    assert named in result.problem
    assert (result.report_interval_seconds, result.predict_policy.safety_margin_percent) == (45, 3)


def test_spec_that_is_none_changes_nothing() -> None:
    default = specs.default()
    assert specs.read(None, default) == default
    result = specs.read(["a"], default)  # type: ignore[arg-type] # what a server should not send
    assert (result.problem, result.spec) == ("spec: must be an object, got ['a']", default.spec)

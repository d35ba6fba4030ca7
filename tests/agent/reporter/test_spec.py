"""What the manager asks for, and what is obeyed."""

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
    ("spec", "collect"),
    [
        ({}, DEFAULT),
        ({"metricCollectPolicy": {}}, DEFAULT),
        ({"metricCollectPolicy": {"reportIntervalSeconds": 180}}, {**DEFAULT, "reportIntervalSeconds": 180}),
        ({"metricCollectPolicy": {"nodeAggregatePolicy": {"durations": []}}}, DEFAULT),
        (  # written as Go writes them; what is none stays as it is, to be named
            {"metricCollectPolicy": {"nodeAggregatePolicy": {"durations": ["1m", "90s", "soon"]}}},
            {**DEFAULT, "nodeAggregatePolicy": {"durations": ["1m0s", "1m30s", "soon"]}},
        ),
    ],
)
def test_absent_keys_take_defaults(spec: dict[str, Any], collect: dict[str, Any]) -> None:
    """What a spec leaves open has the built-in value."""
    assert to_json(specs.merged(from_json(NodeMetricSpec, spec)))["metricCollectPolicy"] == collect


@pytest.mark.parametrize(("seconds", "report", "window"), [(0, 30, 60), (31, 31, 60), (60, 60, 60), (90, 90, 90)])
def test_short_times_have_floors(seconds: int, report: int, window: int) -> None:
    """A report interval below 30 s and a window below 60 s are taken as these."""
    collect = {"aggregateDurationSeconds": seconds, "reportIntervalSeconds": seconds}
    found = specs.read({"metricCollectPolicy": collect}, specs.default())
    assert (found.report_interval_seconds, found.window_seconds) == (report, window)
    assert specs.default().report_interval_seconds == 60
    assert specs.default().window_seconds == 300


def test_good_spec_is_obeyed() -> None:
    """Every part of a good spec is in force, and nothing is wrong."""
    collect = {"nodeAggregatePolicy": {"durations": ["1m", "90s"]}, "nodeMemoryCollectPolicy": "usageWithPageCache"}
    spec = {"metricCollectPolicy": collect, "predictPolicy": {"model": "max", "checkIntervalSeconds": 7}}
    found = specs.read(spec, specs.default())
    assert found.problem == ""
    assert found.durations_seconds == (60.0, 90.0)
    assert found.memory_policy == "usageWithPageCache"
    assert (found.predict_policy.model, found.predict_policy.check_interval_seconds) == ("max", 7)


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
def test_garbage_keeps_last_good(collect: Any, named: str) -> None:  # noqa: ANN401 - garbage
    """A part filled with garbage keeps its last good value, the field is named; the other goes on."""
    last = specs.read({"metricCollectPolicy": {"reportIntervalSeconds": 45}}, specs.default())
    found = specs.read({"metricCollectPolicy": collect, "predictPolicy": {"safetyMarginPercent": 3}}, last)
    assert named in found.problem
    assert found.report_interval_seconds == 45
    assert found.predict_policy.safety_margin_percent == 3


def test_spec_of_another_shape_is_refused() -> None:
    """A spec that is no map changes nothing, and is named once."""
    found = specs.read(["a"], specs.default())  # type: ignore[arg-type] # what a server should not send
    assert found.problem == "spec: must be an object, got ['a']"
    assert found.spec == specs.default().spec


def test_absent_spec_is_default() -> None:
    """A NodeMetric without a spec is reported with the defaults."""
    assert specs.read(None, specs.default()) == specs.default()

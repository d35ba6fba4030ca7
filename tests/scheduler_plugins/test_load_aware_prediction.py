"""LoadAwareScheduling with usePrediction: the plugin compares nodes by their predicted peak."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from crds import names
from tests.scheduler_plugins.objects import (
    NOW,
    Json,
    World,
    load_aware,
    node,
    node_metric,
    pod,
    pod_metric,
    predicting,
)

PREDICTED_CPU = "node(s) cpu predicted usage exceed threshold"
CPU = "node(s) cpu usage exceed threshold"
TINY = pod("incoming", {"cpu": "1m", "memory": "1"})
PLUGIN = load_aware(use_prediction=True)


IDLE = node_metric(cpu="10", memory="10Gi")
PEAKS = {"cpu": "70", "memory": "20Gi"}


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (predicting(IDLE, PEAKS), PREDICTED_CPU),
        (predicting(IDLE, {"cpu": "65"}), None),  # 65.001 % rounds to 65
        (predicting(IDLE, {"cpu": "66"}), PREDICTED_CPU),
        (predicting(node_metric(cpu="90"), {"cpu": "20"}), None),  # busy now, at most 20 from here on
        (predicting(node_metric(cpu="90"), {"memory": "1Gi"}), PREDICTED_CPU),  # cpu has no peak: as measured
        (predicting(IDLE, PEAKS, age=899), PREDICTED_CPU),
        (predicting(IDLE, PEAKS, age=900), None),  # exactly at the limit it is too old
        (predicting(IDLE, PEAKS, age=-60), PREDICTED_CPU),  # from the future: fresh
        (predicting(node_metric(cpu="90"), PEAKS, age=900), CPU),  # then the measured usage counts
        (predicting(IDLE, PEAKS, age=None), None),
        (predicting(IDLE, {}), None),
        (predicting(IDLE, PEAKS, ready=True), PREDICTED_CPU),
        (predicting(IDLE, PEAKS, ready=False), None),
        (IDLE, None),
        (predicting(node_metric(cpu=None), PEAKS), PREDICTED_CPU),  # nothing measured, but predicted
        (predicting(node_metric(cpu="10", updated=-180), PEAKS), "node(s) nodeMetric expired"),  # the report's own age
    ],
)
def test_peak_replaces_usage(metric: Json, reason: str | None) -> None:
    assert World(PLUGIN).put(node(), metric).reasons(TINY) == [reason]


def test_without_the_argument_peaks_do_not_count() -> None:
    assert World().put(node(), predicting(IDLE, PEAKS)).reasons(TINY) == [None]


def test_score_uses_the_peak() -> None:
    world = World(PLUGIN).put(*(node(name) for name in "abc"))
    world.put(
        predicting(node_metric("a", cpu="10"), {"cpu": "60"}), predicting(node_metric("b", cpu="10"), {"cpu": "20"})
    )
    world.put(node_metric("c", cpu="10"))
    # (39 + 89) // 2, (79 + 89) // 2, (89 + 89) // 2: memory uses the measured value
    assert world.scores(TINY, "a", "b", "c") == [64, 84, 89]


@pytest.mark.parametrize(
    ("reported", "scheduled", "reason"),
    [
        (False, -3600, PREDICTED_CPU),  # 60 and 6: the agent has not reported the pod
        (True, -3600, None),  # it has: the peak includes the pod
        (True, -10, None),  # also when it is recent: the peak counts a new pod at its request
    ],
)
def test_pods_unknown_to_the_agent_are_added(*, reported: bool, scheduled: float, reason: str | None) -> None:
    metric = node_metric(cpu="10", pods=[pod_metric("p", "1")] if reported else [])
    world = World(PLUGIN).put(node(), predicting(metric, {"cpu": "60"}))
    world.put(pod("p", {"cpu": "6"}, node="n", scheduled=scheduled))
    assert world.reasons(TINY) == [reason]


def test_pods_in_flight_are_added() -> None:
    world = World(PLUGIN).put(node(), predicting(IDLE, {"cpu": "60"}))
    assert (world.reasons(TINY), world.scores(TINY)) == ([None], [(39 + 89) // 2])
    world.cache.charge(world.request(pod("q", {"cpu": "6"})), ["n"], NOW)
    assert (world.reasons(TINY), world.scores(TINY)) == ([PREDICTED_CPU], [(33 + 89) // 2])


def test_prod_thresholds_use_usage() -> None:
    plugin = load_aware(use_prediction=True, prod_usage_thresholds={"cpu": 40})
    world = World(plugin).put(node(), predicting(IDLE, PEAKS))
    assert world.reasons(pod("incoming", {"cpu": "1"}, priority=9500)) == [None]
    assert world.reasons(pod("incoming", {"cpu": "1"}, priority=5500)) == [PREDICTED_CPU]


def test_annotated_aggregate_wins() -> None:
    group = {"usageThresholds": {"cpu": 50}, "usageAggregationType": "p95"}
    item = node(annotations={names.ANNOTATION_USAGE_THRESHOLDS: json.dumps({"aggregatedUsage": group})})
    world = World(PLUGIN).put(item, predicting(node_metric(aggregated={"5m0s": {"p95": {"cpu": "40"}}}), PEAKS))
    assert world.reasons(TINY) == [None]
    assert world.scores(TINY) == [(29 + 79) // 2]


# The explanation


def _explanation(world: World, item: Json) -> Mapping[str, Any]:
    return world.plugin.explain(world.request(item), world.nodes())[0]


def test_explanation_has_the_numbers() -> None:
    world = World().put(node(cpu="32", memory="128Gi"), node_metric(cpu="24", memory="32Gi", updated=-7))
    texts = _explanation(world, pod("incoming", {"cpu": "900m", "memory": "1Gi"}))
    assert texts["cpu"] == {
        "allocatableMilli": 32_000,
        "inUseMilli": 24_000,
        "inFlightMilli": 0,
        "podMilli": 900,
        "usagePercent": 78,
        "thresholdPercent": 65,
    }
    assert texts["memory"]["podBytes"] == 2**30
    assert texts["reportAgeSeconds"] == 7
    assert (texts["compares"], texts["thresholds"], texts["score"]) == ("nodeUsage", "usageThresholds", (22 + 74) // 2)
    assert texts["binding"] == (
        "cpu: an estimate of 24000m of 32000m in use, new pods included, and 900m expected are 78 % of allocatable, "
        "usageThresholds.cpu is 65 %"
    )


@pytest.mark.parametrize(
    ("plugin", "metric", "binding"),
    [
        (PLUGIN, predicting(IDLE, PEAKS), "cpu: an estimate of 70000m of 100000m predicted at the peak, "),
        (
            PLUGIN,
            node_metric(memory="99Gi"),
            "memory: an estimate of 99Gi of 100Gi in use, new pods included, and 1 expected are 99 %",
        ),
        (load_aware(), node_metric(updated=-200), "the NodeMetric is 200 s old, nodeMetricExpirationSeconds is 180"),
    ],
)
def test_binding_limit_is_named(plugin: Any, metric: Json, binding: str) -> None:  # noqa: ANN401 - the plugin
    assert _explanation(World(plugin).put(node(), metric), TINY)["binding"].startswith(binding)


@pytest.mark.parametrize(
    ("metric", "note"),
    [
        (IDLE, "the node reports no prediction that can be acted on: the measured usage is compared"),
        (predicting(IDLE, PEAKS, ready=False), "the node reports no prediction that can be acted on"),
        (predicting(IDLE, PEAKS, age=1000), "the prediction is older than predictionExpirationSeconds (900)"),
    ],
)
def test_fall_back_is_explained(metric: Json, note: str) -> None:
    texts = _explanation(World(PLUGIN).put(node(), metric), TINY)
    assert texts["compares"] == "nodeUsage"
    assert [line for line in texts["notes"] if line.startswith(note)]


def test_passing_node_has_no_binding() -> None:
    texts = _explanation(World().put(node(), IDLE), TINY)
    assert "binding" not in texts
    assert "notes" not in texts
    daemon = pod("incoming")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d"}]
    texts = _explanation(World().put(node(), node_metric(cpu="99")), daemon)
    assert "binding" not in texts
    assert texts["notes"] == ["pods of a DaemonSet are not refused"]
    assert "no NodeMetric" in _explanation(World().put(node()), TINY)["notes"][0]

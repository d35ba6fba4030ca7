from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.aggregate import WindowStatistics
from agent.pods import PodRef
from agent.prediction.node import NodePrediction, predict
from agent.reporter.conditions import timestamp
from agent.reporter.node_metric import aggregated, build_status, fast_status, resource_map
from agent.reporter.usage import Usages, Window, measure
from agent.samples import CPU, CPU_EXCLUSIVE, MEMORY
from crds.codec import from_json, to_json
from crds.node_metric import NodeMetricStatus
from crds.predict_policy import ModelChoice, PredictPolicy
from crds.priority import PriorityBand, QoS
from crds.quantity import milli_value
from tests.agent.made import FACTS, GIB, START, Machine, machine, pod

PODS = [pod("b", 2000), pod("a", 4000, 4 * GIB), pod("m", 1000, band=PriorityBand.MID, qos=QoS.BE)]
WARM_AT_ONCE = PredictPolicy(cold_start_period_seconds=60)
STATISTICS = ("avg", "p50", "p90", "p95", "p99", "stdev")


def busy() -> Machine:
    """A node with two Prod pods and a Mid pod, ten minutes old."""
    node = machine()
    node.rounds(20, {"a": 1.0, "b": 0.5, "m": 0.25}, PODS, system=0.125)
    return node


def usages(node: Machine, pods: Sequence[PodRef] = PODS) -> Usages:
    windows: dict[str, Any] = {"window_seconds": 300, "durations_seconds": [300, 1800]}
    return measure(node.now, node.store, pods, node.trainer.class_of, **windows, memory_policy="usageWithoutPageCache")


def prediction(node: Machine, pods: Sequence[PodRef] = PODS, policy: PredictPolicy = WARM_AT_ONCE) -> NodePrediction:
    return predict(node.now, node.trainer, pods, FACTS, policy)


def full(node: Machine, pods: Sequence[PodRef] = PODS, as_of: float | None = START) -> dict[str, Any]:
    result = build_status(usages(node, pods), prediction(node), pods, as_of=as_of, predicted_as_of=as_of)
    status: dict[str, Any] = to_json(result)
    assert from_json(NodeMetricStatus, status) == result  # a round trip changes nothing
    return status


def fast(node: Machine, found: NodePrediction | None = None) -> dict[str, Any]:
    status: dict[str, Any] = to_json(fast_status(usages(node), found or prediction(node), predicted_as_of=node.now))
    return status


def test_exclusive_cpus_are_reported_with_their_usage() -> None:
    """At most all of them are in use; without any, the report has no such field."""
    node = busy()
    node.store.put(CPU_EXCLUSIVE, "node", node.now - 100.0, [1.0, 2.0] * 50)
    arguments: dict[str, Any] = {"predicted_as_of": START, "exclusive": {0, 1, 2, 8}}
    status = to_json(fast_status(usages(node), prediction(node), **arguments))
    assert status["prediction"]["exclusiveCPUs"] == {"cpus": "0-2,8", "usage": {"cpu": "1500m"}}
    status = to_json(build_status(usages(node), prediction(node), PODS, as_of=START, **arguments | {"exclusive": {3}}))
    assert status["prediction"]["exclusiveCPUs"] == {"cpus": "3", "usage": {"cpu": "1"}}
    assert "exclusiveCPUs" not in full(node)["prediction"]


def amounts(milli: int, mebibytes: int) -> dict[str, str]:
    memory = f"{mebibytes // 1024}Gi" if mebibytes and mebibytes % 1024 == 0 else f"{mebibytes}Mi" if mebibytes else "0"
    return {"cpu": f"{milli // 1000}" if milli % 1000 == 0 else f"{milli}m", "memory": memory}


def windows(milli: int, mebibytes: int) -> list[dict[str, Any]]:
    """Averages of a constant usage; the longer one is cold, with samples for less than half of it."""
    nothing = {"resources": amounts(0, 0)}
    filled = {**{name: {"resources": amounts(milli, mebibytes)} for name in STATISTICS}, "stdev": nothing}
    return [{"usage": filled, "duration": "5m0s"}, {"usage": {name: {} for name in STATISTICS}, "duration": "30m0s"}]


def a_pod(name: str, milli: int, mebibytes: int, priority: str = "koord-prod", qos: str = "LS") -> dict[str, Any]:
    usage = {"resources": amounts(milli, mebibytes)}
    return {"name": name, "namespace": "shop", "podUsage": usage, "priority": priority, "qos": qos}


def a_class(name: str, milli: int, mebibytes: int) -> dict[str, Any]:
    same, learned = amounts(milli, mebibytes), {"mean": amounts(milli, mebibytes), "stdev": amounts(0, 0)}
    samples = {"samples": 20, "spanSeconds": 600} if milli else {"samples": 0, "spanSeconds": 0}
    return {"name": name, "usage": same, **(learned if milli else {}), "peak": same, "evidence": samples}


def test_whole_report_of_a_small_node() -> None:
    predicted = {
        "prodReclaimableMetric": {"resource": {"resources": amounts(4500, 3584)}},  # 6 - 1.5 cores
        "prodPeakMetric": {"resource": {"resources": amounts(1625, 1664)}},  # 1.5 + 0.125
        "prediction": {
            "policy": {"model": "coincidence"},
            "classes": [
                a_class("node", 1875, 1920),
                a_class("sys", 125, 128),
                a_class("prod", 1500, 1536),
                a_class("mid", 250, 256),
                a_class("batch", 0, 0),
                a_class("free", 0, 0),
            ],
            "pods": {"warm": 3, "cold": 0, "coldNames": []},
            "reclaimable": {
                "requested": amounts(6000, 5120),
                "prodPeak": amounts(1500, 1536),
                "systemExtra": amounts(0, 0),
                "slack": amounts(9500, 25600),
            },
            "summary": {"memory": "1.9Gi", "prodPeak": "1625m/1.6Gi", "reclaimable": "4500m/3.5Gi"},
        },
        "conditions": [],
    }
    node = busy()
    time = {"time": timestamp(node.now)}
    assert fast(node) == {**predicted, "prediction": {**predicted["prediction"], **time}}  # type: ignore[dict-item]
    measured = {
        "nodeMetric": {
            "nodeUsage": {"resources": amounts(1875, 1920)},
            "systemUsage": {"resources": amounts(125, 128)},
            "aggregatedNodeUsages": windows(1875, 1920),
            "aggregatedSystemUsages": windows(125, 128),
        },
        "podsMetric": [a_pod("a", 1000, 1024), a_pod("b", 500, 512), a_pod("m", 250, 256, "koord-mid", "BE")],
    }
    assert full(node, as_of=None) == {**measured, **predicted}  # without a measurement there is no time


def test_times_are_cut_off_and_each_its_own() -> None:
    node = busy()
    result = build_status(usages(node), prediction(node), PODS, as_of=START + 1.9, predicted_as_of=START)
    assert (result.update_time, result.prediction and result.prediction.time) == (
        timestamp(START + 1),
        timestamp(START),
    )


def test_pods_stand_by_namespace_and_name_without_ended_ones() -> None:
    other = replace(PODS[0], uid="a", namespace="aaa", name="z")
    result = full(busy(), [PODS[2], PODS[0], other, replace(PODS[1], terminal=True)])["podsMetric"]
    assert [(condition["namespace"], condition["name"]) for condition in result] == [
        ("aaa", "z"),
        ("shop", "b"),
        ("shop", "m"),
    ]


@pytest.mark.parametrize(
    ("peak", "reclaimable", "texts"),
    [
        ({CPU: 1788}, {}, {"prodPeak": "1788m/-"}),
        ({MEMORY: GIB}, {CPU: 1}, {"prodPeak": "-/1Gi", "reclaimable": "1m/-"}),
    ],
)
def test_summary_has_a_dash_for_unknown_values(
    peak: dict[str, int], reclaimable: dict[str, int], texts: dict[str, str]
) -> None:
    result = fast(busy(), replace(prediction(busy()), prod_peak=peak, reclaimable=reclaimable))
    assert result["prediction"]["summary"] == {"memory": "1.9Gi", **texts}


def test_unknown_prediction_is_an_empty_reclaimable_and_no_peak() -> None:
    result = fast(machine())
    assert (result["prodReclaimableMetric"], "prodPeakMetric" in result) == ({}, False)


def test_policy_in_force_is_reported_with_its_parts() -> None:
    policy = replace(WARM_AT_ONCE, model="max", of=(ModelChoice("sum-max", {"windowDays": 2}),))
    result = fast(busy(), prediction(busy(), policy=policy))["prediction"]["policy"]
    assert result == {"model": "max", "of": [{"model": "sum-max", "parameters": {"windowDays": 2}}]}


def test_ten_of_many_cold_pods_are_named() -> None:
    node, pods = machine(), [pod(f"p{number:02}") for number in range(30)]
    node.rounds(1, {entry.uid: 0.1 for entry in pods}, pods)
    result = fast(node, prediction(node, pods, PredictPolicy()))["prediction"]["pods"]
    assert result == {"warm": 0, "cold": 30, "coldNames": [f"shop/p{number:02}" for number in range(10)]}


@pytest.mark.parametrize(("span", "empty"), [(149.0, True), (150.0, False)])
def test_window_has_every_statistic_unless_it_is_cold(span: float, *, empty: bool) -> None:
    """Cold: its samples span less than half of it, or there are none."""
    result = WindowStatistics(1.0, 0.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 300, span)
    filled = {"avg": "1", "p50": "2", "p90": "3", "p95": "4", "p99": "5", "stdev": "500m"}
    nothing: dict[str, Any] = {name: {} for name in STATISTICS}
    usage = nothing if empty else {name: {"resources": {"cpu": text}} for name, text in filled.items()}
    assert to_json(aggregated(Window(300.0, {CPU: result}))) == {"duration": "5m0s", "usage": usage}
    assert to_json(aggregated(Window(300.0, {}))) == {"duration": "5m0s", "usage": nothing}


def test_amounts_are_cut_off() -> None:
    assert to_json(resource_map({CPU: 1.9996})) == {"resources": {"cpu": "1999m"}}
    assert to_json(resource_map({})) == {}


@given(cores=st.floats(), amount=st.floats())
def test_no_quantity_is_negative(cores: float, amount: float) -> None:
    result = resource_map({CPU: cores, MEMORY: amount}).resources or {}
    assert all(milli_value(quantity) >= 0 for quantity in result.values())

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.aggregate import WindowStatistics
from agent.pods import PodRef
from agent.prediction.node import NodePrediction, predict
from agent.reporter.conditions import timestamp
from agent.reporter.node_metric import aggregated, build_status, fast_status, pod_metric, resource_map
from agent.reporter.usage import Usages, Window, measure
from agent.samples import CPU, MEMORY
from crds.codec import from_json, to_json
from crds.node_metric import CLASSES, NodeMetricStatus, Summary
from crds.predict_policy import ModelChoice, PredictPolicy
from crds.priority import PriorityBand, QoS
from crds.quantity import milli_value, short_bytes, value
from tests.agent.made import FACTS, GIB, START, Machine, machine, pod

PODS = [pod("b", 2000), pod("a", 4000, 4 * GIB), pod("m", 1000, band=PriorityBand.MID, qos=QoS.BE)]


def busy() -> Machine:
    """A node with two Prod pods and a Mid pod, ten minutes old."""
    node = machine()
    node.rounds(20, {"a": 1.0, "b": 0.5, "m": 0.25}, PODS, system=0.125)
    return node


def usages(node: Machine, pods: Sequence[PodRef] = PODS) -> Usages:
    """What was used lately."""
    return measure(
        node.now,
        node.store,
        pods,
        node.trainer.class_of,
        window_seconds=300,
        durations_seconds=[300, 1800],
        memory_policy="usageWithoutPageCache",
    )


def prediction(node: Machine, policy: PredictPolicy | None = None) -> NodePrediction:
    """What is expected."""
    return predict(node.now, node.trainer, PODS, FACTS, policy or PredictPolicy(cold_start_period_seconds=60))


def full(node: Machine) -> NodeMetricStatus:
    """The full report."""
    return build_status(usages(node), prediction(node), PODS, as_of=node.now, predicted_as_of=node.now)


def fast(node: Machine, found: NodePrediction | None = None) -> NodeMetricStatus:
    """The fast report."""
    return fast_status(usages(node), found or prediction(node), predicted_as_of=node.now)


def statistics(span: float) -> WindowStatistics:
    """Statistics that tell themselves apart."""
    return WindowStatistics(1.0, 0.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 300, span)


def test_report_says_everything() -> None:
    """The full report of a small node, number by number."""
    node = busy()
    status = full(node)
    assert status.update_time == timestamp(node.now)
    assert status.node_metric is not None
    assert status.node_metric.node_usage == resource_map({CPU: 1.875, MEMORY: 1.875 * GIB})
    assert status.node_metric.system_usage == resource_map({CPU: 0.125, MEMORY: 0.125 * GIB})
    assert [(one.namespace, one.name) for one in status.pods_metric or ()] == [
        ("shop", "a"),
        ("shop", "b"),
        ("shop", "m"),
    ]
    assert status.prod_reclaimable_metric is not None
    assert status.prod_reclaimable_metric.resource is not None
    assert (status.prod_reclaimable_metric.resource.resources or {})[CPU] == "4500m"  # 6 - 1.5
    assert status.prod_peak_metric is not None
    assert status.prod_peak_metric.resource is not None
    assert (status.prod_peak_metric.resource.resources or {})[CPU] == "1625m"  # 1.5 + 0.125


def test_classes_are_complete_and_add_up() -> None:
    """One entry per class in the fixed order, usage from the same ticks."""
    node = busy()
    found = fast(node).prediction
    assert found is not None
    classes = {one.name: one for one in found.classes or ()}
    assert tuple(classes) == CLASSES
    milli = {name: milli_value((one.usage or {})[CPU]) for name, one in classes.items()}
    assert milli == {"node": 1875, "sys": 125, "prod": 1500, "mid": 250, "batch": 0, "free": 0}
    assert classes["prod"].mean == {CPU: "1500m", MEMORY: "1536Mi"}
    assert classes["prod"].stdev == {CPU: "0", MEMORY: "0"}
    assert classes["prod"].evidence is not None
    assert (classes["prod"].evidence.samples, classes["prod"].evidence.span_seconds) == (20, 600)
    assert classes["batch"].mean is None


def test_wire_round_trip() -> None:
    """The report survives JSON: what is written is what is read."""
    node = busy()
    status = full(node)
    assert from_json(NodeMetricStatus, to_json(status)) == status


def test_fast_report_is_prediction_only() -> None:
    """A fast report touches prediction, Reclaimable, peak and conditions, not updateTime, usage or pods."""
    node = busy()
    found = to_json(fast(node))
    assert found.keys() == {"prediction", "prodReclaimableMetric", "prodPeakMetric", "conditions"}


def test_report_bears_measuring_time() -> None:
    """Both updateTime and prediction.time are those of the measurements; what was never measured has none."""
    node = busy()
    found = build_status(usages(node), prediction(node), PODS, as_of=START + 1.9, predicted_as_of=START)
    assert (found.update_time, found.prediction and found.prediction.time) == (timestamp(START + 1), timestamp(START))
    found = build_status(usages(node), prediction(node), PODS, as_of=None, predicted_as_of=None)
    assert (found.update_time, found.prediction and found.prediction.time) == (None, None)


def _summary(status: NodeMetricStatus) -> Summary:
    assert status.prediction is not None
    assert status.prediction.summary is not None
    return status.prediction.summary


def test_summary_is_readable() -> None:
    """The report for people has rounded memory and pairs, and says the same as the amounts for programs."""
    found = full(busy())
    status = to_json(found)
    used = status["nodeMetric"]["nodeUsage"]["resources"][MEMORY]
    peak = status["prodPeakMetric"]["resource"]["resources"]
    assert _summary(found).memory == short_bytes(value(used))
    assert _summary(found).prod_peak == f"{peak[CPU]}/{short_bytes(value(peak[MEMORY]))}"
    assert _summary(fast(busy())).memory == _summary(found).memory


def test_summary_says_what_is_unknown() -> None:
    """Where one resource cannot be judged, a dash stands for it; where neither can, there is no text."""
    found = replace(prediction(busy()), prod_peak={CPU: 1788}, reclaimable={})
    reported = _summary(fast(busy(), found))
    assert (reported.prod_peak, reported.reclaimable) == ("1788m/-", None)


def test_pods_are_sorted() -> None:
    """Pods stand by namespace, then name, whatever the order in which they are known; ended ones are left out."""
    node = busy()
    other = replace(PODS[0], uid="a", namespace="aaa", name="z")
    pods = [PODS[2], PODS[0], other, replace(PODS[1], terminal=True)]
    found = build_status(usages(node, pods), prediction(node), pods, as_of=None, predicted_as_of=None)
    assert [(one.namespace, one.name) for one in found.pods_metric or ()] == [
        ("aaa", "z"),
        ("shop", "b"),
        ("shop", "m"),
    ]


def test_unknown_prediction_is_empty() -> None:
    """Before anything is known: prodReclaimableMetric is there and empty, prodPeakMetric is absent."""
    node = machine()
    found = to_json(fast(node))
    assert found["prodReclaimableMetric"] == {}
    assert "prodPeakMetric" not in found


def test_policy_in_force_is_shown() -> None:
    """The policy in force is reported with its parts."""
    node = busy()
    policy = PredictPolicy(cold_start_period_seconds=60, model="max", of=(ModelChoice("sum-max", {"windowDays": 2}),))
    found = fast(node, prediction(node, policy)).prediction
    assert found is not None
    assert to_json(found.policy) == {"model": "max", "of": [{"model": "sum-max", "parameters": {"windowDays": 2}}]}


def test_cold_names_are_few() -> None:
    """Of many cold pods ten are named, sorted."""
    node, pods = machine(), [pod(f"p{number:02}") for number in range(30)]
    node.rounds(1, {one.uid: 0.1 for one in pods}, pods)
    found = fast(node, predict(node.now, node.trainer, pods, FACTS, PredictPolicy())).prediction
    assert found is not None
    assert found.pods is not None
    assert (found.pods.warm, found.pods.cold) == (0, 30)
    assert found.pods.cold_names == tuple(f"shop/p{number:02}" for number in range(10))


def test_percentile_window() -> None:
    """Every statistic of a window, cut off to milli-cores and bytes."""
    found = aggregated(Window(300.0, {CPU: statistics(299.0), MEMORY: statistics(299.0)}))
    assert found.duration == "5m0s"
    assert {name: (part.resources or {})[CPU] for name, part in (found.usage or {}).items()} == {
        "avg": "1",
        "p50": "2",
        "p90": "3",
        "p95": "4",
        "p99": "5",
        "stdev": "500m",
    }


@pytest.mark.parametrize(("span", "empty"), [(149.0, True), (150.0, False)])
def test_cold_window_is_empty(span: float, empty: bool) -> None:  # noqa: FBT001 - an expectation
    """A window whose samples span less than half of it has empty statistics."""
    found = aggregated(Window(300.0, {CPU: statistics(span), MEMORY: statistics(span)}))
    assert all((part.resources is None) is empty for part in (found.usage or {}).values())


def test_window_without_samples_is_empty() -> None:
    """A window without any sample is reported, empty."""
    found = to_json(aggregated(Window(300.0, {})))
    assert found["usage"] == {name: {} for name in ("avg", "p50", "p90", "p95", "p99", "stdev")}


def test_pod_metric_names_its_class() -> None:
    """A pod's entry holds its usage, band and QoS class."""
    found = to_json(pod_metric(PODS[2], {CPU: 2.0, MEMORY: 10.0 * GIB}))
    assert found == {
        "name": "m",
        "namespace": "shop",
        "podUsage": {"resources": {"cpu": "2", "memory": "10Gi"}},
        "priority": "koord-mid",
        "qos": "BE",
    }


def test_amounts_are_cut_off() -> None:
    """1.9996 cores are 1999 milli-cores; what is absent stays absent."""
    assert to_json(resource_map({CPU: 1.9996})) == {"resources": {"cpu": "1999m"}}
    assert to_json(resource_map({})) == {}


@given(cores=st.floats(), amount=st.floats())
def test_any_number_is_reported_safely(cores: float, amount: float) -> None:
    """Whatever was measured, a quantity is written, and never a negative one."""
    found = resource_map({CPU: cores, MEMORY: amount}).resources or {}
    assert all(milli_value(quantity) >= 0 for quantity in found.values())

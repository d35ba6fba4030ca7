"""What a report and /metrics say of waiting: pressure of node and pods, and throttling."""

import math

import pytest

from agent.metrics import Metrics
from agent.report_metrics import show_pressure
from agent.reporter.node_metric import build_status
from agent.reporter.pressure import LEAST, MOST_PODS, Pressure, extensions, measure_pressure
from agent.samples import CPU_THROTTLED, NODE
from crds.codec import to_json
from tests.agent.made import START, MadeStore
from tests.agent.reporter.test_node_metric import PODS, busy, prediction, usages

WINDOW = 300.0


def crowded() -> MadeStore:
    """A node with pods that waited, pods that did not, one without a limit, and one that has left."""
    store = MadeStore()
    for kind, share in (("some", 0.4), ("full", 0.1)):
        store.put(f"psi_io_{kind}", NODE, START, [0.0, 2 * share] * 150)
    store.put("psi_cpu_some", NODE, START - 400, [0.9] * 50)
    for uid, throttled, cpu in (("a", 0.424, 0.31), ("b", math.nan, 0.08), ("m", 0.01, 0.02), ("left", 1.0, 1.0)):
        store.put(CPU_THROTTLED, uid, START, [throttled] * 300)
        store.put("psi_cpu_some", uid, START, [cpu] * 300)
        store.put("psi_memory_some", uid, START, [0.0] * 300)
    return store


def measured(store: MadeStore) -> Pressure:
    """The pressure at the end of 300 seconds, of the pods that are here."""
    return measure_pressure(START + 300.0, store, [pod.uid for pod in PODS], WINDOW)


def test_means_of_the_window() -> None:
    """Node and pods are means over the window; what was not measured in it is absent, and so are pods that left."""
    found = measured(crowded())
    assert found.node == pytest.approx({("io", "some"): 0.4, ("io", "full"): 0.1})
    assert found.throttled == pytest.approx({"a": 0.424, "m": 0.01})
    assert found.pods["cpu"] == pytest.approx({"a": 0.31, "b": 0.08, "m": 0.02})
    assert found.pods["io"] == {}


def test_report_names_pods_that_waited() -> None:
    """A pod that waited has its percentages in its part of the report; one that hardly did has none."""
    node = busy()
    reported = extensions(measured(crowded()))
    found = to_json(
        build_status(usages(node), prediction(node), PODS, as_of=START, predicted_as_of=START, extensions=reported)
    )
    assert {one["name"]: one.get("extensions") for one in found["podsMetric"]} == {
        "a": {"cpuThrottledPercent": 42, "pressurePercent": {"cpu": 31, "memory": 0}},
        "b": {"pressurePercent": {"cpu": 8, "memory": 0}},
        "m": None,
    }


def test_report_stays_small() -> None:
    """However many pods waited, those that waited most are named, and no more than ten."""
    shares = {f"pod-{number:04d}": LEAST + number / 10_000 for number in range(2000)}
    found = extensions(Pressure({}, {"cpu": {}, "memory": shares}, {"other": LEAST - 0.001}))
    assert list(found) == [f"pod-{number:04d}" for number in range(1999, 1999 - MOST_PODS, -1)]
    assert found["pod-1999"] == {"pressurePercent": {"memory": 25}}
    assert extensions(Pressure({}, {"cpu": {}}, {})) == {}


def test_metrics_show_the_worst() -> None:
    """Metrics have the node's pressure and the highest of any pod; what is not measured any more is gone."""
    metrics = Metrics("n1")
    value = metrics.registry.get_sample_value
    show_pressure(metrics, measured(crowded()))
    labels = {"node": "n1", "resource": "io", "kind": "full"}
    assert value("headroom_agent_node_pressure_ratio", labels) == pytest.approx(0.1)
    assert value("headroom_agent_pod_pressure_max_ratio", {"node": "n1", "resource": "cpu"}) == pytest.approx(0.31)
    assert value("headroom_agent_pod_pressure_max_ratio", {"node": "n1", "resource": "io"}) is None
    assert value("headroom_agent_pod_cpu_throttled_max_ratio", {"node": "n1"}) == pytest.approx(0.424)
    show_pressure(metrics, Pressure({}, {}, {}))
    assert value("headroom_agent_node_pressure_ratio", labels) is None
    assert value("headroom_agent_pod_cpu_throttled_max_ratio", {"node": "n1"}) is None

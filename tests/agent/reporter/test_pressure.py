import math

import pytest

from agent.metrics import Metrics
from agent.report_metrics import show_pressure
from agent.reporter.node_metric import pod_metric
from agent.reporter.pressure import LEAST, MOST_PODS, Pressure, extensions, held_back, measure_pressure
from agent.samples import CPU, CPU_THROTTLED, MEMORY, MEMORY_HELD_BACK, NODE
from crds.codec import to_json
from tests.agent.made import GIB, START, MadeStore, pod


def crowded() -> Pressure:
    """A node with pods that waited, pods that did not, one without a limit, and one that has left."""
    store = MadeStore()
    for kind, share in (("some", 0.4), ("full", 0.1)):
        store.put(f"psi_io_{kind}", NODE, START, [0.0, 2 * share] * 150)
    store.put("psi_cpu_some", NODE, START - 400, [0.9] * 50)
    for uid, throttled, cpu in (("a", 0.424, 0.31), ("b", math.nan, 0.08), ("m", 0.01, 0.02), ("left", 1.0, 1.0)):
        store.put(CPU_THROTTLED, uid, START, [throttled] * 300)
        store.put("psi_cpu_some", uid, START, [cpu] * 300)
        store.put("psi_memory_some", uid, START, [0.0] * 300)
    return measure_pressure(START + 300.0, store, ["b", "a", "m"], 300.0)


def test_means_of_the_window_exclude_gaps_and_ended_pods() -> None:
    result = crowded()
    assert result.node == pytest.approx({("io", "some"): 0.4, ("io", "full"): 0.1})
    assert result.throttled == pytest.approx({"a": 0.424, "m": 0.01})
    assert result.pods["cpu"] == pytest.approx({"a": 0.31, "b": 0.08, "m": 0.02})
    assert result.pods["io"] == {}


def test_held_back_pods_of_the_last_minutes() -> None:
    """A pod is held back for five minutes after the last reading that shows it."""
    store = MadeStore()
    for uid, states in (("now", [0.0, 1.0]), ("never", [0.0, 0.0]), ("before", [1.0, 0.0])):
        store.put(MEMORY_HELD_BACK, uid, START, [states[0]] * 10 + [states[1]] * 290)
    assert held_back(START + 300.0, store) == {"now", "before"}
    assert held_back(START + 309.5, store) == {"now", "before"}
    assert held_back(START + 310.0, store) == {"now"}
    assert held_back(START + 601.0, store) == set()


def test_report_has_percentages_of_pods_that_waited() -> None:
    result = extensions(crowded())
    waited = {"cpuThrottledPercent": 42, "pressurePercent": {"cpu": 31, "memory": 0}}
    assert result == {"a": waited, "b": {"pressurePercent": {"cpu": 8, "memory": 0}}}
    assert to_json(pod_metric(pod("a"), {CPU: 1.0, MEMORY: GIB}, result["a"]))["extensions"] == waited


def test_ten_pods_that_waited_most_are_reported() -> None:
    shares = {f"pod-{number:04d}": LEAST + number / 10_000 for number in range(2000)}
    result = extensions(Pressure({}, {"cpu": {}, "memory": shares}, {"other": LEAST - 0.001}))
    assert list(result) == [f"pod-{number:04d}" for number in range(1999, 1999 - MOST_PODS, -1)]
    assert result["pod-1999"] == {"pressurePercent": {"memory": 25}}
    assert extensions(Pressure({}, {"cpu": {}}, {})) == {}


def test_metrics_have_the_node_and_the_worst_pod() -> None:
    metrics = Metrics("n1")

    def shown() -> dict[str, float]:
        families = [item for item in metrics.registry.collect() if "pressure" in item.name or "throttled" in item.name]
        return {
            "/".join((sample.name.removeprefix("headroom_agent_"), *sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    show_pressure(metrics, crowded())
    assert shown() == pytest.approx(
        {
            "node_pressure_ratio/n1/io/some": 0.4,
            "node_pressure_ratio/n1/io/full": 0.1,
            "pod_pressure_max_ratio/n1/cpu": 0.31,
            "pod_pressure_max_ratio/n1/memory": 0.0,
            "pod_cpu_throttled_max_ratio/n1": 0.424,
        }
    )
    show_pressure(metrics, Pressure({}, {}, {}))
    assert shown() == {}

"""The names on /metrics."""

import re
from pathlib import Path

from prometheus_client import Gauge
from prometheus_client.metrics import MetricWrapperBase

from agent.metrics import Metrics
from agent.report_metrics import show_store
from agent.tsdb.tsdb import StoreSize

TABLE = Path(__file__).parents[2] / "docs/metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([\w, ]*)\| (.+) \|$", flags=re.MULTILINE)


def _exported() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of every metric by the name under which it is shown."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for collector in Metrics().registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            suffix = "_total" if collector._type == "counter" else ""
            found[collector._name + suffix] = (str(collector._type), tuple(collector._labelnames))
    return found


def test_every_metric_is_explained() -> None:
    """The table in the docs names every metric, with its type and labels, and no other."""
    rows = ROW.findall(TABLE.read_text(encoding="utf-8").partition("# Metrics of the manager")[0])
    documented = {name: (kind, tuple(filter(None, labels.strip().split(", ")))) for name, kind, labels, _ in rows}
    detected = documented.pop("headroom_agent_detected")
    assert documented == _exported()
    assert detected == ("gauge", ("cgroup", "driver", "memory", "pods_in"))
    assert len(rows) == len(documented) + 1


def test_names_have_our_prefix() -> None:
    """Nothing is exported under a name that could be another program's."""
    assert all(name.startswith("headroom_agent_") for name in _exported())


def test_detected_is_asked_for() -> None:
    """What was detected is looked up when it is shown: kubelet may make its cgroups after the agent starts."""
    metrics, facts = Metrics(), {"cgroup": "v2", "driver": "none"}
    metrics.detected.source = lambda: facts
    value = metrics.registry.get_sample_value
    assert value("headroom_agent_detected", {"cgroup": "v2", "driver": "none"}) == 1
    facts["driver"] = "systemd"
    assert value("headroom_agent_detected", {"cgroup": "v2", "driver": "systemd"}) == 1
    assert value("headroom_agent_detected", {"cgroup": "v2", "driver": "none"}) is None


def test_store_losses_are_counted() -> None:
    """What the store lost or could not write can be watched."""
    metrics = Metrics()
    show_store(metrics, StoreSize(9, 8, 7, 6, unwritten_ticks=5, set_aside=4, damaged_chunks=3, dropped_blocks=2))
    names = ("bytes", "used_bytes", "series", "head_ticks", "unwritten_ticks", "files_set_aside", "damaged_chunks")
    found = [metrics.registry.get_sample_value(f"headroom_agent_store_{name}") for name in (*names, "dropped_blocks")]
    assert found == [9, 8, 7, 6, 5, 4, 3, 2]


def test_metrics_do_not_collide() -> None:
    """Two agents in one process have a registry each."""
    first, second = Metrics(), Metrics()
    first.samples.inc(3)
    assert b"headroom_agent_samples_total 0.0" in second.render()
    assert isinstance(first.pods, Gauge)

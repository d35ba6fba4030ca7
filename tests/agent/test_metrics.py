import re
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from agent.metrics import Metrics
from agent.report_metrics import show_store
from agent.tsdb.tsdb import StoreSize

TABLE = Path(__file__).parents[2] / "docs/metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([\w, ]*)\| (.+) \|$", flags=re.MULTILINE)


def test_table_in_the_docs_has_every_metric_with_type_and_labels() -> None:
    exported: dict[str, tuple[str, tuple[str, ...]]] = {}
    for collector in Metrics().registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            suffix = "_total" if collector._type == "counter" else ""
            exported[collector._name + suffix] = (str(collector._type), tuple(collector._labelnames))
    rows = ROW.findall(TABLE.read_text(encoding="utf-8").partition("# Metrics of the manager")[0])
    documented = {name: (kind, tuple(filter(None, labels.strip().split(", ")))) for name, kind, labels, _ in rows}
    assert documented.pop("headroom_agent_detected") == ("gauge", ("cgroup", "driver", "memory", "pods_in"))
    assert documented == exported
    assert len(rows) == len(documented) + 1
    assert all(name.startswith("headroom_agent_") for name in exported)


def test_detected_facts_are_read_at_the_scrape() -> None:
    metrics, facts = Metrics(), {"cgroup": "v2", "driver": "none"}
    metrics.detected.source = lambda: facts
    for driver in ("none", "systemd"):
        facts["driver"] = driver
        (shown,) = [
            line for line in metrics.render().decode().splitlines() if line.startswith("headroom_agent_detected{")
        ]
        assert shown == f'headroom_agent_detected{{cgroup="v2",driver="{driver}"}} 1.0'
    assert b"headroom_agent_detected{" not in Metrics().render()


def test_losses_of_the_store_are_counted() -> None:
    metrics = Metrics()
    show_store(metrics, StoreSize(9, 8, 7, 6, unwritten_ticks=5, set_aside=4, damaged_chunks=3, dropped_blocks=2))
    names = ("bytes", "used_bytes", "series", "head_ticks", "unwritten_ticks", "files_set_aside", "damaged_chunks")
    result = [metrics.registry.get_sample_value(f"headroom_agent_store_{name}") for name in (*names, "dropped_blocks")]
    assert result == [9, 8, 7, 6, 5, 4, 3, 2]

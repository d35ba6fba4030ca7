"""What the chart has for a Prometheus."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from tests.charts.rendered import CHART, render

pytestmark = pytest.mark.cluster


def test_nothing_for_the_operator_by_default(cluster: Cluster) -> None:
    """Its kinds need definitions that a cluster may not have."""
    assert render(cluster.helm).of_kind("PrometheusRule", "PodMonitor") == []


@pytest.mark.parametrize(
    ("value", "file"),
    [("rules", "prometheus-rules.yaml"), ("loadWatcherRules", "prometheus-rules-for-load-watcher.yaml")],
)
def test_rules_are_the_plain_file(cluster: Cluster, value: str, file: str) -> None:
    """A PrometheusRule holds what the plain rules file holds, and the labels that Prometheus selects by."""
    (made,) = render(cluster.helm, f"prometheus.{value}=true", "prometheus.labels.release=mine").of_kind(
        "PrometheusRule"
    )
    plain: Any = yaml.safe_load(Path(CHART / "files" / file).read_text())
    assert made["spec"] == plain
    assert made["metadata"]["labels"]["release"] == "mine"


def test_monitor_finds_the_agents(cluster: Cluster) -> None:
    """The PodMonitor selects the agents' pods and names their port."""
    chart = render(cluster.helm, "prometheus.podMonitor=true")
    (monitor,) = chart.of_kind("PodMonitor")
    template = chart.one("DaemonSet", "headroom-agent")["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = {port["name"] for container in template["spec"]["containers"] for port in container.get("ports", ())}
    assert {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]} <= ports

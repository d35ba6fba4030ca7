import json
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.charts.rendered import CHART, NAMESPACE, Helm, Rendered, render

pytestmark = pytest.mark.helm

PARTS: Final = {
    "headroom-agent": ("DaemonSet", "agent"),
    "headroom-manager": ("Deployment", "manager"),
    "headroom-scheduler": ("Deployment", "extender"),
}
"""By name of the scrape target: the owner of its pods, and the container with the metrics."""
OF_THE_OPERATOR: Final = ("PrometheusRule", "PodMonitor", "ServiceMonitor")


def _ports(chart: Rendered, name: str) -> dict[str, int]:
    container = chart.container(f"{name}/{PARTS[name][1]}")
    return {port["name"]: port["containerPort"] for port in container.get("ports", ())}


@pytest.mark.parametrize(
    ("value", "file"),
    [
        ("rules", "prometheus-rules.yaml"),
        ("loadWatcherRules", "prometheus-rules-for-load-watcher.yaml"),
        ("alerts", "prometheus-alerts.yaml"),
    ],
)
def test_rules_are_the_plain_file(helm: Helm, value: str, file: str) -> None:
    """With the labels that Prometheus selects by; by default nothing that needs definitions of the operator."""
    assert render(helm).of_kind(*OF_THE_OPERATOR) == []
    (made,) = render(helm, f"prometheus.{value}=true", "prometheus.labels.release=mine").of_kind("PrometheusRule")
    assert made["spec"] == yaml.safe_load(Path(CHART / "files" / file).read_text())
    assert made["metadata"]["labels"]["release"] == "mine"


@pytest.mark.parametrize("part", ["agent", "manager", "scheduler"])
def test_parts_that_are_off_are_not_missed(helm: Helm, part: str) -> None:
    """Without the manager no alert fires for ever that no manager leads; the others' alerts stay."""
    whole, less = (
        [group["name"] for group in made["spec"]["groups"]]
        for settings in ((), (f"{part}.enabled=false",))
        for made in render(helm, "prometheus.alerts=true", *settings).of_kind("PrometheusRule")
    )
    assert less == [name for name in whole if name != f"headroom-{part}"]
    assert len(less) == len(whole) - 1


def test_runbooks_are_where_people_read(helm: Helm) -> None:
    """Every alert links to the runbooks at the address that is given, and nothing else of it changes."""
    where = "https://git.example.com/headroom/blob/main"
    (made,) = render(helm, "prometheus.alerts=true", f"prometheus.runbooks={where}").of_kind("PrometheusRule")
    text = (CHART / "files/prometheus-alerts.yaml").read_text()
    assert made["spec"] == yaml.safe_load(text.replace(": docs/runbooks.md#", f": {where}/docs/runbooks.md#"))
    links = {rule["annotations"]["runbook_url"] for group in made["spec"]["groups"] for rule in group["rules"]}
    assert all(link.startswith(f"{where}/docs/runbooks.md#headroom") for link in links)


def test_pod_monitors_find_the_pods(helm: Helm) -> None:
    """Each of the three PodMonitors selects its pods and names their port; an agent's metrics get the node's name."""
    chart = render(helm, "prometheus.podMonitor=true", "prometheus.interval=30s")
    monitors = {entry["metadata"]["name"]: entry["spec"] for entry in chart.of_kind("PodMonitor")}
    assert set(monitors) == set(PARTS)
    for name, spec in monitors.items():
        template = chart.one(PARTS[name][0], name)["spec"]["template"]
        assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        (endpoint,) = spec["podMetricsEndpoints"]
        assert endpoint["port"] in _ports(chart, name)
        assert endpoint["interval"] == "30s"
        labels = [relabeling["targetLabel"] for relabeling in endpoint.get("relabelings", ())]
        assert labels == (["node"] if name == "headroom-agent" else [])


def test_service_monitors_find_the_pods(helm: Helm) -> None:
    """Each of the three ServiceMonitors selects one Service, which leads to the pods' port, ready or not."""
    chart = render(helm, "prometheus.serviceMonitor=true", "scheduler.metrics.port=9999")
    services = chart.of_kind("Service")
    assert {entry["metadata"]["name"] for entry in chart.of_kind("ServiceMonitor")} == set(PARTS)
    for name in PARTS:
        monitor = chart.one("ServiceMonitor", name)["spec"]
        wanted = monitor["selector"]["matchLabels"].items()
        (service,) = [service for service in services if wanted <= service["metadata"]["labels"].items()]
        template = chart.one(PARTS[name][0], name)["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert service["spec"]["publishNotReadyAddresses"] is True
        (port,), (endpoint,) = service["spec"]["ports"], monitor["endpoints"]
        assert (endpoint["port"], port["port"]) == (port["name"], _ports(chart, name)[port["targetPort"]])


@pytest.mark.parametrize("value", ["prometheus.podMonitor", "prometheus.serviceMonitor", "scheduler.metrics.enabled"])
def test_extender_listens_where_it_is_scraped(helm: Helm, value: str) -> None:
    """The extender has a port for metrics where a Prometheus is to read them; its flags name the same one."""
    chart = render(helm, f"{value}=true")
    port = _ports(chart, "headroom-scheduler")["metrics"]
    args = chart.container("headroom-scheduler/extender")["args"]
    assert f"--metrics-listen=:{port}" in args
    assert "--listen=127.0.0.1:9820" in args


def test_disabled_parts_are_not_scraped(helm: Helm) -> None:
    chart = render(helm, "prometheus.serviceMonitor=true", "scheduler.enabled=false")
    monitors = {entry["metadata"]["name"] for entry in chart.of_kind("ServiceMonitor")}
    assert monitors == {"headroom-agent", "headroom-manager"}
    assert not [item for item in chart.of_kind("Service") if "scheduler" in item["metadata"]["name"]]


def test_dashboards_are_the_files(helm: Helm) -> None:
    """Each is a ConfigMap with what its file holds, in the namespace and with the labels that Grafana looks for."""
    files = {f"headroom-{path.name}": json.loads(path.read_text()) for path in (CHART / "dashboards").glob("*.json")}
    settings = ("labels.mine=yes", "annotations.grafana_folder=Headroom", "namespace=monitoring")
    default, moved = render(helm), render(helm, *(f"grafana.dashboards.{setting}" for setting in settings))
    for chart, label, namespace, notes in (
        (default, ("grafana_dashboard", "1"), NAMESPACE, None),
        (moved, ("mine", "yes"), "monitoring", {"grafana_folder": "Headroom"}),
    ):
        made = [entry for entry in chart.of_kind("ConfigMap") if label in entry["metadata"]["labels"].items()]
        assert {key: json.loads(text) for made_object in made for key, text in made_object["data"].items()} == files
        assert {element["metadata"]["namespace"] for element in made} == {namespace}
        assert all(each["metadata"].get("annotations") == notes for each in made)
    off = render(helm, "grafana.dashboards.enabled=false")
    assert not [item for item in off.of_kind("ConfigMap") if "dashboard" in item["metadata"]["name"]]

"""Reachable ports of our pods, by the chart's NetworkPolicies.

The dev cluster's network obeys no policies; that an API server takes them is in test_matrix.py.
"""

from typing import Any, Final

import pytest

from tests.charts.rendered import Helm, Rendered, render

pytestmark = pytest.mark.helm

EVERYTHING: Final = ("scheduler.metrics.enabled=true", "scheduler.watcher.enabled=true")
SCRAPERS: Final = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
}
ANYWHERE: Final = [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]


def ingress(chart: Rendered) -> dict[str, dict[str, list[Any]]]:
    result: dict[str, dict[str, list[Any]]] = {}
    for policy in chart.of_kind("NetworkPolicy"):
        ports = result.setdefault(policy["metadata"]["name"], {})
        for rule in policy["spec"].get("ingress") or ():
            for port in rule["ports"]:
                ports[port["port"]] = [*ports.get(port["port"], ()), *rule["from"]]
    return result


def test_only_these_reach_a_port(helm: Helm) -> None:
    """Prometheus the metrics, API servers the webhook; each port of a pod is one that a policy names."""
    chart = render(helm, *EVERYTHING, "networkPolicy.watcherFrom=null")
    assert ingress(chart) == {
        "headroom": {},
        "headroom-agent": {"metrics": [SCRAPERS]},
        "headroom-manager": {"metrics": [SCRAPERS], "webhook": ANYWHERE},
        "headroom-scheduler": {"https": [SCRAPERS], "metrics": [SCRAPERS]},
    }
    owners = chart.of_kind("DaemonSet", "Deployment", "Job")
    pods = {owner["metadata"]["name"]: owner["spec"]["template"] for owner in owners}
    pods |= {entry["metadata"]["name"]: entry for entry in chart.of_kind("Pod")}
    for name, pod in pods.items():
        ports = {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", ())}
        assert ports == set(ingress(chart).get(name, ())), name
    for policy in chart.of_kind("NetworkPolicy"):
        spec, name = policy["spec"], policy["metadata"]["name"]
        labels = spec["podSelector"]["matchLabels"].items()
        selected = {each for each, pod in pods.items() if labels <= pod["metadata"]["labels"].items()}
        assert selected == (set(pods) if name == "headroom" else {name})  # one closes all, the others add to it
        assert spec["policyTypes"] == ["Ingress"]


def test_clients_can_be_chosen(helm: Helm) -> None:
    """Other scrapers or none, the API servers where they are known, and the clients of load-watcher's protocol."""
    peer = "[0].podSelector.matchLabels.app=shop"
    settings = ("networkPolicy.webhookFrom={198.51.100.0/24,2001:db8::/32}", f"networkPolicy.watcherFrom{peer}")
    result = ingress(render(helm, "scheduler.watcher.enabled=true", "networkPolicy.metricsFrom=null", *settings))
    shop = {"podSelector": {"matchLabels": {"app": "shop"}}}
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in ("198.51.100.0/24", "2001:db8::/32")]
    assert result == {
        "headroom": {},
        "headroom-agent": {},
        "headroom-manager": {"webhook": blocks},
        "headroom-scheduler": {"metrics": [shop]},
    }
    path = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name"
    chosen = ingress(render(helm, f"{path}=shop"))["headroom-agent"]
    shops = {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}
    assert chosen == {"metrics": [{"namespaceSelector": shops}]}


def test_ways_out_can_be_closed(helm: Helm) -> None:
    """With egress closed pods reach API servers, a scheduler where it is configured."""
    egress, to = "networkPolicy.egress", "networkPolicy.egress.schedulerTo[0].to[0].podSelector.matchLabels.app"
    servers = f"{egress}.apiServers={{192.0.2.0/24}}"
    chart = render(helm, f"{egress}.enabled=true", servers, f"{to}=prometheus")
    specs = {entry["metadata"]["name"]: entry["spec"] for entry in chart.of_kind("NetworkPolicy")}
    assert all(spec["policyTypes"] == ["Ingress", "Egress"] for spec in specs.values())
    ports = [{"protocol": "TCP", "port": port} for port in (443, 6443)]
    assert {name: spec["egress"] for name, spec in specs.items() if spec.get("egress")} == {
        "headroom": [{"ports": ports, "to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}],
        "headroom-scheduler": [{"to": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]}],
    }

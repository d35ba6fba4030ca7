"""Who reaches which port of our pods, by the chart's NetworkPolicies.

The dev cluster's network obeys no policies, so their meaning in Kubernetes is worked out here; that an API server
takes them is in test_matrix.py.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.charts.rendered import NAMESPACE, Helm, Rendered, render

pytestmark = pytest.mark.helm

METRICS: Final = "scheduler.metrics.enabled=true"


@dataclass(frozen=True)
class Source:
    """The client: a pod, or with an address one outside of the cluster."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the pod."""
    namespace: str = "somewhere"
    """Of the pod."""
    address: str = ""
    """Of whom is no pod."""


PROMETHEUS: Final = Source({"app.kubernetes.io/name": "prometheus"}, "monitoring")
STRANGER: Final = Source({"app": "shop"})
API_SERVER: Final = Source(address="192.0.2.7")


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}
    return set(selector.get("matchLabels", {}).items()) <= set(labels.items())


def _is_peer(peer: Mapping[str, Any], source: Source) -> bool:
    """Whether a peer of a policy in our namespace is this one."""
    if "ipBlock" in peer:
        network = ipaddress.ip_network(peer["ipBlock"]["cidr"])
        return bool(source.address) and ipaddress.ip_address(source.address) in network
    if source.address:
        return False
    if "namespaceSelector" in peer:
        here = _selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": source.namespace})
    else:
        here = source.namespace == NAMESPACE
    return here and _selects(peer.get("podSelector", {}), source.labels)


def _ports(pod: Mapping[str, Any]) -> dict[str, int]:
    containers = pod["spec"]["containers"]
    return {port["name"]: port["containerPort"] for each in containers for port in each.get("ports", ())}


def pods(chart: Rendered) -> dict[str, dict[str, Any]]:
    """Every kind of pod of the chart, those of hooks and tests too, by the name of what makes it."""
    made = {
        each["metadata"]["name"]: each["spec"]["template"] for each in chart.of_kind("DaemonSet", "Deployment", "Job")
    }
    return made | {each["metadata"]["name"]: each for each in chart.of_kind("Pod")}


def reached(chart: Rendered, source: Source) -> dict[str, set[str]]:
    """Names of the ports of each pod that a client may reach. Policies add up; a pod that none selects is open."""
    found = {}
    for name, pod in pods(chart).items():
        labels = pod["metadata"]["labels"]
        policies = [
            one["spec"] for one in chart.of_kind("NetworkPolicy") if _selects(one["spec"]["podSelector"], labels)
        ]
        rules = [rule for policy in policies for rule in policy.get("ingress") or ()]
        allowed = {
            port["port"]
            for rule in rules
            if "from" not in rule or any(_is_peer(peer, source) for peer in rule["from"])
            for port in rule["ports"]
        }
        found[name] = set(_ports(pod)) & (allowed if policies else set(_ports(pod)))
    return {name: ports for name, ports in found.items() if ports}


def test_strangers_reach_nothing(helm: Helm) -> None:
    """A foreign pod reaches no port of Headroom, nor does another pod of its namespace."""
    chart = render(helm, METRICS, "scheduler.watcher.enabled=true", "networkPolicy.watcherFrom=null")
    assert len(pods(chart)) == 5
    assert reached(chart, STRANGER) == {}
    assert reached(chart, Source({"app": "shop"}, NAMESPACE)) == {}


def test_prometheus_reaches_metrics(helm: Helm) -> None:
    """What is labelled so in namespace `monitoring` reads the metrics of every part, and nothing else."""
    metrics = {
        "headroom-agent": {"metrics"},
        "headroom-manager": {"metrics"},
        "headroom-scheduler": {"https", "metrics"},
    }
    chart = render(helm, METRICS)
    assert reached(chart, PROMETHEUS) == metrics
    assert reached(chart, Source(PROMETHEUS.labels, "a-tenants")) == {}


def test_metrics_may_be_for_one_namespace(helm: Helm) -> None:
    """Values name another namespace of scrapers, or none."""
    path = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name"
    chart = render(helm, f"{path}=shop")
    assert "headroom-agent" in reached(chart, Source(PROMETHEUS.labels, "shop"))
    assert reached(chart, PROMETHEUS) == {}
    assert reached(render(helm, "networkPolicy.metricsFrom=null"), PROMETHEUS) == {}


def test_api_servers_reach_the_webhook(helm: Helm) -> None:
    """API servers, wherever they are, reach the webhook's port and no other; or they alone where they are known."""
    assert reached(render(helm, METRICS), API_SERVER) == {"headroom-manager": {"webhook"}}
    known = render(helm, "networkPolicy.webhookFrom={198.51.100.0/24,2001:db8::/32}")
    assert reached(known, API_SERVER) == {}
    for address in ("198.51.100.9", "2001:db8::9"):
        assert reached(known, Source(address=address)) == {"headroom-manager": {"webhook"}}


def test_watchers_reach_the_watcher(helm: Helm) -> None:
    """The port of load-watcher's protocol, where it is served, is for any pod or for those that the values name."""
    chart = render(helm, "scheduler.watcher.enabled=true")
    assert reached(chart, STRANGER) == {"headroom-scheduler": {"metrics"}}
    peer = "networkPolicy.watcherFrom[0]"
    where = (f"{peer}.podSelector.matchLabels.app=shop", f"{peer}.namespaceSelector.matchLabels.a=b")
    assert reached(render(helm, "scheduler.watcher.enabled=true", *where), STRANGER) == {}


def test_every_port_is_thought_of(helm: Helm) -> None:
    """Each port of a pod is one that some policy names, so that none is forgotten."""
    chart = render(helm, METRICS, "scheduler.watcher.enabled=true")
    named = {
        (policy["metadata"]["name"], port["port"])
        for policy in chart.of_kind("NetworkPolicy")
        for rule in policy["spec"].get("ingress") or ()
        for port in rule["ports"]
    }
    listening = {(name, port) for name, pod in pods(chart).items() for port in _ports(pod)}
    assert named == listening


def test_policies_can_be_left_out(helm: Helm) -> None:
    """Without policies every port is open, as Kubernetes has it."""
    chart = render(helm, "networkPolicy.enabled=false")
    assert chart.of_kind("NetworkPolicy") == []
    assert reached(chart, STRANGER)["headroom-agent"] == {"metrics"}


def _ways_out(chart: Rendered, pod: str) -> list[Any]:
    labels = pods(chart)[pod]["metadata"]["labels"]
    policies = [one["spec"] for one in chart.of_kind("NetworkPolicy") if _selects(one["spec"]["podSelector"], labels)]
    assert any("Egress" in one["policyTypes"] for one in policies)
    return [rule for one in policies for rule in one.get("egress", ())]


def test_ways_out_can_be_closed(helm: Helm) -> None:
    """With egress closed pods reach API servers, an agent its kubelet, a scheduler where it is configured."""
    egress, to = "networkPolicy.egress", "networkPolicy.egress.schedulerTo[0].to[0].podSelector.matchLabels.app"
    chart = render(
        helm,
        *(
            f"{egress}.enabled=true",
            f"{egress}.apiServers={{192.0.2.0/24}}",
            "agent.podsFrom=kubelet",
            f"{to}=prometheus",
        ),
    )
    servers = {"ports": [{"protocol": "TCP", "port": port} for port in (443, 6443)]}
    servers["to"] = [{"ipBlock": {"cidr": "192.0.2.0/24"}}]  # type: ignore[dict-item] # JSON
    kubelets = {"ports": [{"protocol": "TCP", "port": 10250}]}
    source = {"to": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]}
    wanted = {"headroom-agent": [servers, kubelets], "headroom-scheduler": [servers, source]}
    assert {name: _ways_out(chart, name) for name in pods(chart)} == {name: [servers] for name in pods(chart)} | wanted
    assert all(one["spec"]["policyTypes"] == ["Ingress"] for one in render(helm).of_kind("NetworkPolicy"))

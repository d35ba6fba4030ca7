"""What the extender may be given beside its profile: a Service for clients of load-watcher, and files of providers."""

import pytest

from tests.charts.rendered import Helm, render, rules

pytestmark = pytest.mark.helm


def test_off_by_default(helm: Helm) -> None:
    chart = render(helm)
    assert [one["metadata"]["name"] for one in chart.of_kind("Service") if "watcher" in one["metadata"]["name"]] == []
    assert "ports" not in chart.container("headroom-scheduler/extender")


def test_service_leads_to_the_extender(helm: Helm) -> None:
    """The Service selects the scheduler's pods and leads to the metrics port, of which /watcher is one page."""
    chart = render(helm, "scheduler.watcher.enabled=true", "scheduler.watcher.port=3030")
    service = chart.one("Service", "headroom-watcher")["spec"]
    extender = chart.container("headroom-scheduler/extender")
    template = chart.one("Deployment", "headroom-scheduler")["spec"]["template"]
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    (port,), (listening,) = service["ports"], extender["ports"]
    assert (port["port"], port["targetPort"]) == (3030, listening["name"])
    assert {f"--metrics-listen=:{listening['containerPort']}", "--watcher"} <= set(extender["args"])


def test_secrets_become_files(helm: Helm) -> None:
    chart = render(helm, "scheduler.extender.secrets={prometheus-ca,token}")
    mounts = {each["name"]: each for each in chart.container("headroom-scheduler/extender")["volumeMounts"]}
    pod = chart.one("Deployment", "headroom-scheduler")["spec"]["template"]["spec"]
    secrets = {each["name"]: each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    assert {mounts[name]["mountPath"]: secret for name, secret in secrets.items()} == {
        "/var/run/headroom/prometheus-ca": "prometheus-ca",
        "/var/run/headroom/token": "token",
    }
    assert all(mounts[name]["readOnly"] for name in secrets)
    others = chart.container("headroom-scheduler/kube-scheduler")["volumeMounts"]
    assert {each["name"] for each in others} == {"api-access", "config"}


def test_resource_metrics_may_be_listed(helm: Helm) -> None:
    role = render(helm).one("ClusterRole", "headroom-scheduler")
    assert {rule for rule in rules(role) if rule[0] == "metrics.k8s.io"} == {("metrics.k8s.io", "nodes", "list", "")}

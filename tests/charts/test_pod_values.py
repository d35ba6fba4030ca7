"""The values of pods and accounts, as users know them from other charts."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from manager.web.server import is_loopback
from tests.charts.rendered import NAMESPACE, Helm, Rendered, render
from tools.devcluster import CommandError

pytestmark = pytest.mark.helm

OWNERS: Final = {"agent": "DaemonSet", "manager": "Deployment", "scheduler": "Deployment"}
CONTAINERS: Final = {
    "agent": ("agent", "agent"),
    "manager": ("manager", "manager"),
    "scheduler": ("scheduler", "kube-scheduler"),
    "scheduler.extender": ("scheduler", "extender"),
}
"""By the group of the values: the part, and the container with their environment and mounts."""
SIDECAR: Final = {"name": "sidecar", "image": "proxy:1", "args": ["--quiet"]}
SPREAD: Final = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}


def _given(helm: Helm, folder: Path, values: dict[str, Any]) -> Rendered:
    path = folder / "values.yaml"
    path.write_text(json.dumps(values))
    return render(helm, values=path)


def _nested(path: str, values: dict[str, Any]) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        values = {name: values}
    return values


@pytest.mark.parametrize("group", CONTAINERS)
def test_containers_have_more(helm: Helm, tmp_path: Path, group: str) -> None:
    """Environment variables and mounts reach one container, and follow its own."""
    part, name = CONTAINERS[group]
    variable, mount = {"name": "HTTPS_PROXY", "value": "http://proxy"}, {"name": "ca", "mountPath": "/ca"}
    chart = _given(helm, tmp_path, _nested(group, {"extraEnv": [variable], "extraVolumeMounts": [mount]}))
    before, after = (entry.container(f"headroom-{part}/{name}") for entry in (render(helm), chart))
    assert after["env"] == [*before.get("env", ()), variable]
    assert after["volumeMounts"] == [*before["volumeMounts"], mount]
    holders = {path for path, container in chart.containers() if mount in container.get("volumeMounts", ())}
    checked = {"headroom-scheduler/check"} if group == "scheduler.extender" else set()
    assert holders == {f"headroom-{part}/{name}", *checked}


@pytest.mark.parametrize("part", OWNERS)
def test_pods_have_more(helm: Helm, tmp_path: Path, part: str) -> None:
    """Sidecars, volumes, spread and revisions of a part reach its pods alone."""
    volume, chosen = {"name": "ca", "configMap": {"name": "ca"}}, {"labelSelector": {"matchLabels": {"a": "b"}}}
    constraints = [SPREAD, SPREAD | chosen]
    more = {"extraContainers": [SIDECAR], "extraVolumes": [volume], "topologySpreadConstraints": constraints}
    chart = _given(helm, tmp_path, {part: {**more, "revisionHistoryLimit": 3}})
    owner = chart.one(OWNERS[part], f"headroom-{part}")["spec"]
    pod = owner["template"]["spec"]
    assert owner["revisionHistoryLimit"] == 3
    assert pod["containers"][-1] == SIDECAR
    assert pod["volumes"][-1] == volume
    ours = {"matchLabels": {"app.kubernetes.io/name": f"headroom-{part}"}}
    assert pod["topologySpreadConstraints"] == [SPREAD | {"labelSelector": ours}, SPREAD | chosen]
    assert [path for path, container in chart.containers() if container == SIDECAR] == [f"headroom-{part}/sidecar"]


def test_agents_update_as_chosen(helm: Helm) -> None:
    def strategy(*settings: str) -> dict[str, Any]:
        return dict(render(helm, *settings).one("DaemonSet", "headroom-agent")["spec"]["updateStrategy"])

    assert strategy() == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    assert strategy("agent.maxUnavailable=3")["rollingUpdate"] == {"maxUnavailable": 3}
    assert strategy("agent.updateStrategy.rollingUpdate.maxUnavailable=2")["rollingUpdate"] == {"maxUnavailable": 2}
    assert strategy("agent.updateStrategy.type=OnDelete") == {"type": "OnDelete"}


@pytest.mark.parametrize("part", ["manager", "scheduler"])
def test_deployments_update_as_chosen(helm: Helm, part: str) -> None:
    chosen = render(helm, f"{part}.updateStrategy.type=Recreate").one("Deployment", f"headroom-{part}")
    assert chosen["spec"]["strategy"] == {"type": "Recreate"}
    assert "strategy" not in render(helm).one("Deployment", f"headroom-{part}")["spec"]


def test_platform_may_assign_users(helm: Helm) -> None:
    """Without security contexts in the values, pods have none, except the agent's init container."""
    nothing = [f"{part}.{name}=null" for part in OWNERS for name in ("podSecurityContext", "securityContext")]
    chart = render(helm, *nothing)
    assert [owner for owner, pod in chart.pods() if "securityContext" in pod] == []
    secured = [path for path, container in chart.containers() if "securityContext" in container]
    assert secured == ["headroom-agent/own-data-dir"]
    user = render(helm, "manager.podSecurityContext.runAsUser=null", "manager.podSecurityContext.runAsGroup=null")
    for owner in ("headroom-manager", "headroom-uninstall", "headroom-doctor"):
        context = dict(user.pods())[owner]["securityContext"]
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}, owner


def test_agent_runs_as_another_user(helm: Helm) -> None:
    """The init container gives the directory to the user and group of the agent's pods."""
    chosen = ("runAsUser=1001", "runAsGroup=1002", "seLinuxOptions.type=spc_t")
    chart = render(helm, *(f"agent.podSecurityContext.{setting}" for setting in chosen))
    pod = dict(chart.pods())["headroom-agent"]
    assert pod["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    program = pod["initContainers"][0]["command"][-2]
    assert "os.chown(d, 1001, 1002)" in program
    assert "st_uid == 1001" in program


@pytest.mark.parametrize(("part", "own"), [("agent", "Default"), ("manager", "ClusterFirstWithHostNet")])
def test_pods_use_the_network_of_the_node(helm: Helm, part: str, own: str) -> None:
    on = (f"{part}.hostNetwork=true", "manager.ui.enabled=false")
    pod = dict(render(helm, *on).pods())[f"headroom-{part}"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, own)
    chosen = dict(render(helm, *on, f"{part}.dnsPolicy=ClusterFirst").pods())[f"headroom-{part}"]
    assert chosen["dnsPolicy"] == "ClusterFirst"
    assert "hostNetwork" not in dict(render(helm).pods())[f"headroom-{part}"]


def test_scheduler_keeps_its_loopback(helm: Helm) -> None:
    """The extender has no login, so only its own pod may reach it."""
    pod = dict(render(helm, "scheduler.dnsPolicy=Default").pods())["headroom-scheduler"]
    (address,) = [arg for arg in pod["containers"][1]["args"] if arg.startswith("--listen=")]
    assert is_loopback(address.removeprefix("--listen="))
    assert pod["dnsPolicy"] == "Default"
    with pytest.raises(CommandError, match="'hostNetwork' not allowed"):
        render(helm, "scheduler.hostNetwork=true")


def test_ports_can_be_chosen(helm: Helm) -> None:
    """Programs, container ports and headless Services have the ports of the values."""
    ports = ("agent.metrics.port=19316", "manager.metrics.port=18080", "manager.webhook.port=19443")
    chart = render(helm, *ports, "prometheus.serviceMonitor=true")
    opened = {
        f"{path}:{port['name']}": port["containerPort"]
        for path, container in chart.containers()
        for port in container.get("ports", ())
    }
    assert opened["headroom-agent/agent:metrics"] == 19316
    assert opened["headroom-manager/manager:metrics"] == 18080
    assert opened["headroom-manager/manager:webhook"] == 19443
    assert "--listen=:19316" in chart.container("headroom-agent/agent")["args"]
    assert {"--listen=:18080", "--webhook-listen=:19443"} <= set(chart.container("headroom-manager/manager")["args"])
    for part, port in (("agent", 19316), ("manager", 18080)):
        assert chart.one("Service", f"headroom-{part}-metrics")["spec"]["ports"][0]["port"] == port


@pytest.mark.parametrize("part", OWNERS)
def test_account_can_be_chosen(helm: Helm, part: str) -> None:
    """Pods, bindings and policies follow the name of the account; the chart creates it with annotations, or not."""
    default = f"headroom-{part}"
    named = (f"{part}.serviceAccount.name=mine", f"{part}.serviceAccount.annotations.role=reader")
    chart = render(helm, *named)
    account = chart.one("ServiceAccount", "mine")["metadata"]
    assert (account["namespace"], account["annotations"]) == (NAMESPACE, {"role": "reader"})
    assert dict(chart.pods())[default]["serviceAccountName"] == "mine"
    before, after = (
        json.dumps([item for item in entry.objects if item["kind"] != "ServiceAccount"])
        for entry in (render(helm), chart)
    )
    accounts = (
        f'"kind": "ServiceAccount", "name": "{default}"',
        f":{default}\\",
        f'"serviceAccount": {{"name": "{default}"',
    )
    assert sum(before.count(account) for account in accounts) > 2
    assert [name for name in accounts if name in after] == []
    theirs = render(helm, *named, f"{part}.serviceAccount.create=false")
    assert "mine" not in {item["metadata"]["name"] for item in theirs.of_kind("ServiceAccount")}
    assert dict(theirs.pods())[default]["serviceAccountName"] == "mine"


def test_common_labels_reach_all_objects(helm: Helm) -> None:
    """All objects and pods have them; selectors, and labels of Headroom, stay."""
    extras = ("prometheus.podMonitor=true", "prometheus.alerts=true", "prometheus.labels.team=b")
    common = (
        "commonLabels.team=a",
        *(f"commonLabels.app\\.kubernetes\\.io/{name}=stolen" for name in ("name", "component", "part-of")),
    )
    before, after = render(helm, *extras), render(helm, *extras, *common)
    labelled = [*after.objects, *(owner["spec"]["template"] for owner in after.of_kind(*OWNERS.values(), "Job"))]
    for item in labelled:
        expected = "b" if item.get("kind") in {"PodMonitor", "PrometheusRule"} else "a"
        assert item["metadata"]["labels"]["team"] == expected
    assert "stolen" not in json.dumps(after.objects)
    for kind, name in (("DaemonSet", "headroom-agent"), ("Deployment", "headroom-manager")):
        assert after.one(kind, name)["spec"]["selector"] == before.one(kind, name)["spec"]["selector"]

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from crds.names import CONFIG_MAP_NAME
from headroom.cluster.node_selection import required_nodes
from kubectl_headroom.doctor.checks.agents import Labelled
from manager.mid.node_filter import DEFAULT
from manager.settings import load
from manager.web.server import is_loopback
from tests.charts.rendered import CHART, NAMESPACE, Helm, Rendered, render, rules

pytestmark = pytest.mark.helm

OWNERS: Final = {"agent": "DaemonSet", "manager": "Deployment", "scheduler": "Deployment"}
CONFIGURATIONS: Final = ("headroom-colocation-config", "headroom-mid-namespaces", "headroom-colocation-profiles")
OF_WEBHOOK: Final = ("headroom-manager-webhook", *CONFIGURATIONS)
OF_MANAGER: Final = ("headroom-manager", *CONFIGURATIONS, CONFIG_MAP_NAME)
VERSION: Final = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
DIGEST: Final = f"sha256:{'0' * 64}"
TURNED_OFF: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    "agent.enabled": lambda one: "agent" in one["metadata"]["name"],
    "manager.enabled": lambda one: one["metadata"]["name"].startswith(OF_MANAGER),
    "scheduler.enabled": lambda one: one["metadata"]["name"].startswith("headroom-scheduler"),
    "manager.webhook.enabled": lambda one: one["metadata"]["name"] in OF_WEBHOOK,
    "networkPolicy.enabled": lambda one: one["kind"] == "NetworkPolicy",
    "podDisruptionBudgets.enabled": lambda one: one["kind"] == "PodDisruptionBudget",
    "admissionPolicy.enabled": lambda one: one["kind"].startswith("ValidatingAdmissionPolicy"),
    "colocationProfiles.enabled": lambda one: one["metadata"]["name"] == "headroom-colocation-profiles",
    "midNamespaces.enabled": lambda one: one["metadata"]["name"] == "headroom-mid-namespaces",
    "flowSchema.enabled": lambda one: one["kind"] in {"FlowSchema", "PriorityLevelConfiguration"},
    "uninstall.hook.enabled": lambda one: one["metadata"]["name"] == "headroom-uninstall",
    "tests.enabled": lambda one: one["metadata"]["name"] == "headroom-doctor",
}


@pytest.fixture(scope="module")
def chart(helm: Helm) -> Rendered:
    return render(helm)


def _names(objects: tuple[dict[str, Any], ...] | list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((item["kind"], item["metadata"]["name"]) for item in objects)


@pytest.mark.parametrize("switch", TURNED_OFF)
def test_part_can_be_left_out(helm: Helm, chart: Rendered, switch: str) -> None:
    belongs = TURNED_OFF[switch]
    assert any(belongs(item) for item in chart.objects)
    left = render(helm, f"{switch}=false").objects
    assert _names(left) == _names([entry for entry in chart.objects if not belongs(entry)])


@pytest.mark.parametrize(
    ("settings", "agent", "manager"),
    [
        (("image.registry=r.io/t",), f"r.io/t/headroom-agent:{VERSION}", f"r.io/t/headroom-manager:{VERSION}"),
        (
            ("image.registry=localhost", "image.agent.tag=dev", "image.manager.tag=dev"),
            *("localhost/headroom-agent:dev", "localhost/headroom-manager:dev"),
        ),
        (
            # A repository with a host of its own, with a port or none, is used unchanged.
            (
                *("image.registry=", "image.agent.repository=r:5000/x/agent", "image.agent.tag=v1"),
                *("image.manager.repository=ghcr.io/m", "image.manager.tag=v2"),
            ),
            *("r:5000/x/agent:v1", "ghcr.io/m:v2"),
        ),
        (
            ("image.registry=r:5000", f"image.agent.digest={DIGEST}", "image.manager.repository=team/m"),
            *(f"r:5000/headroom-agent@{DIGEST}", f"r:5000/team/m:{VERSION}"),
        ),
    ],
)
def test_images_come_from_there(helm: Helm, settings: tuple[str, ...], agent: str, manager: str) -> None:
    """Registry, repository, tag and digest make the image; all containers of ours run one of the two."""
    chart = render(helm, *settings)
    images = {"headroom-scheduler/kube-scheduler": "registry.k8s.io/kube-scheduler:v1.36.2"}
    for path, container in chart.containers():
        assert container["image"] == images.get(path, agent if path.startswith("headroom-agent/") else manager), path


def test_global_registry_has_all_images(helm: Helm) -> None:
    """A single value is the registry of all containers, of hooks and tests too. A host of a repository stays."""
    registry = "global.imageRegistry=mirror:5000/all"
    images = {container["image"] for _, container in render(helm, registry).containers()}
    assert images == {
        *(f"mirror:5000/all/headroom-{part}:{VERSION}" for part in ("agent", "manager")),
        "mirror:5000/all/kube-scheduler:v1.36.2",
    }
    hosts = ("scheduler.image=r.io/kube-scheduler", "image.agent.repository=localhost/headroom-agent")
    images = {container["image"] for _, container in render(helm, registry, *hosts).containers()}
    assert {"r.io/kube-scheduler:v1.36.2", f"localhost/headroom-agent:{VERSION}"} < images
    moved = render(helm, registry, "scheduler.image=k8s/kube-scheduler:v1")
    assert moved.container("headroom-scheduler/kube-scheduler")["image"] == "mirror:5000/all/k8s/kube-scheduler:v1"


def test_pull_secrets_reach_all_pods(helm: Helm) -> None:
    """All pods have the global Secrets and ours, as names or objects; without Secrets they lack the field."""
    secrets = ("global.imagePullSecrets={a,b}", "imagePullSecrets[0].name=c", "imagePullSecrets[1]=a")
    pods = dict(render(helm, *secrets).pods())
    assert len(pods) == 5
    for owner, pod in pods.items():
        assert pod["imagePullSecrets"] == [{"name": name} for name in "abc"], owner
    assert {"imagePullSecrets"}.isdisjoint(key for _, pod in render(helm).pods() for key in pod)


def test_parent_chart_passes_globals(helm: Helm, tmp_path: Path) -> None:
    """As a subchart, Headroom follows the two global values and ignores those that the parent has for others."""
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts/headroom").symlink_to(CHART)
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: parent\nversion: 1.0.0\n")
    (tmp_path / "values.yaml").write_text("global: {imageRegistry: r.io, domain: example.com}\n")
    assert f"image: r.io/headroom-agent:{VERSION}\n" in helm("template", "parent", tmp_path)


@pytest.mark.parametrize(
    ("given", "version", "image"),
    [
        # A version without a patch, or with a suffix of the vendor.
        ("", "1.31", "registry.k8s.io/kube-scheduler:v1.31.0"),
        ("", "v1.32", "registry.k8s.io/kube-scheduler:v1.32.0"),
        ("", "1.33+", "registry.k8s.io/kube-scheduler:v1.33.0"),
        ("", "v1.33.5-gke.1", "registry.k8s.io/kube-scheduler:v1.33.5"),
        ("", "v1.31.4+k3s1", "registry.k8s.io/kube-scheduler:v1.31.4"),
        ("r:5000/mirror/kube-scheduler", "v1.33.5-gke.1", "r:5000/mirror/kube-scheduler:v1.33.5"),
        ("mine/kube-scheduler:v9", "v1.33.5-gke.1", "mine/kube-scheduler:v9"),
        (f"mine/kube-scheduler@{DIGEST}", "v1.33.5-gke.1", f"mine/kube-scheduler@{DIGEST}"),
    ],
)
def test_scheduler_follows_the_cluster(helm: Helm, given: str, version: str, image: str) -> None:
    """kube-scheduler, and a mirror of it, has the version of the cluster, unless its tag or digest is given."""
    chart = render(helm, *([f"scheduler.image={given}"] if given else []), kube_version=version)
    assert chart.container("headroom-scheduler/kube-scheduler")["image"] == image


@pytest.mark.parametrize("part", OWNERS)
def test_pods_are_placed_and_labelled(helm: Helm, chart: Rendered, part: str) -> None:
    """Labels, annotations, affinity, node selector and tolerations of the values reach the pods; ours stay ours."""
    affinity = f"{part}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    expression = f"{affinity}.matchExpressions[0]"
    made = render(
        helm,
        *(f"{part}.podLabels.team=a", f"{part}.podLabels.app\\.kubernetes\\.io/name=stolen"),
        f"{part}.podAnnotations.b=c",
        *(f"{expression}.key=k", f"{expression}.operator=Exists", f"{part}.nodeSelector.pool=system"),
        *(f"{part}.tolerations[0].key=t", f"{part}.tolerations[0].operator=Exists"),
    )
    name = f"headroom-{part}"
    before, after = (entry.one(OWNERS[part], name)["spec"] for entry in (chart, made))
    metadata, pod = after["template"]["metadata"], after["template"]["spec"]
    assert metadata["labels"] == before["template"]["metadata"]["labels"] | {"team": "a"}
    assert metadata["annotations"] == before["template"]["metadata"].get("annotations", {}) | {"b": "c"}
    assert set(pod["affinity"]) == {"nodeAffinity"}
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert pod["tolerations"] == [{"key": "t", "operator": "Exists"}]
    assert after["selector"] == before["selector"] == {"matchLabels": {"app.kubernetes.io/name": name}}


def test_replicas_keep_apart(chart: Rendered) -> None:
    """By default two replicas prefer two nodes, and drains take one of them at a time."""
    for part in ("manager", "scheduler"):
        affinity = dict(chart.pods())[f"headroom-{part}"]["affinity"]
        (term,) = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        selector = term["podAffinityTerm"]["labelSelector"]
        budget = chart.one("PodDisruptionBudget", f"headroom-{part}")["spec"]
        assert selector == budget["selector"] == chart.one("Deployment", f"headroom-{part}")["spec"]["selector"]
        assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_single_replica_has_no_budget(helm: Helm) -> None:
    chart = render(helm, "manager.replicas=1", "scheduler.replicas=3")
    assert _names(chart.of_kind("PodDisruptionBudget")) == [("PodDisruptionBudget", "headroom-scheduler")]


def test_config_map_has_the_chosen_name(helm: Helm) -> None:
    chart = render(helm, "configMap.name=koord-config", "colocationConfig.enable=false")
    assert chart.config("koord-config", "colocation-config") == {"enable": False}
    assert "--config-name=koord-config" in chart.container("headroom-manager/manager")["args"]
    allowed = {
        (verb, names) for _, what, verb, names in rules(chart.one("Role", "headroom-manager")) if what == "configmaps"
    }
    assert {names for verb, names in allowed if verb == "watch"} == {"koord-config"}
    webhook, _ = chart.one("ValidatingWebhookConfiguration", "headroom-colocation-config")["webhooks"]
    assert webhook["matchConditions"][0]["expression"].endswith('== "koord-config"')
    assert not [item for item in chart.objects if CONFIG_MAP_NAME in str(item)]


def test_tokens_are_where_they_are_needed(chart: Rendered) -> None:
    """Only containers that use the API server hold a token: one for that server alone, which ends after an hour."""
    assert all(entry["automountServiceAccountToken"] is False for entry in chart.of_kind("ServiceAccount"))
    for owner, pod in chart.pods():
        assert pod["automountServiceAccountToken"] is False, owner
        (projected,) = [volume["projected"] for volume in pod["volumes"] if "projected" in volume]
        (token,) = [source["serviceAccountToken"] for source in projected["sources"] if "serviceAccountToken" in source]
        assert token == {"path": "token", "expirationSeconds": 3600}, owner
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    holders = {
        path
        for path, container in chart.containers()
        if any(mount["mountPath"] == where for mount in container.get("volumeMounts", ()))
    }
    users = {"agent/agent", "manager/manager", "scheduler/kube-scheduler", "scheduler/extender"}
    users |= {"uninstall/uninstall", "doctor/doctor"}
    assert holders == {f"headroom-{path}" for path in users}


def test_agents_have_a_queue(chart: Rendered) -> None:
    """The flow schema is about the agents' account of the release's namespace alone, and leads to their level."""
    schema = chart.one("FlowSchema", "headroom-agents")["spec"]
    assert [subject["serviceAccount"] for subject in schema["rules"][0]["subjects"]] == [
        {"name": "headroom-agent", "namespace": NAMESPACE}
    ]
    level = chart.one("PriorityLevelConfiguration", schema["priorityLevelConfiguration"]["name"])["spec"]["limited"]
    assert level["nominalConcurrencyShares"] == 20


def _listens(chart: Rendered) -> str:
    """The address of the page, as the manager itself reads its flags."""
    arguments = chart.container("headroom-manager/manager")["args"]
    return load([argument for argument in arguments if argument.startswith("--ui-listen")]).ui_listen


def test_page_listens_on_loopback(helm: Helm) -> None:
    """By default, on the pod's loopback, and no Service, container port or policy names its port."""
    chart = render(helm)
    assert _listens(chart) == "127.0.0.1:8081"
    assert is_loopback(_listens(chart))
    opened = chart.of_kind("Service", "NetworkPolicy")
    assert opened
    assert "8081" not in json.dumps(opened)
    assert all(port["containerPort"] != 8081 for _, each in chart.containers() for port in each.get("ports", []))
    assert _listens(render(helm, "manager.ui.enabled=false")) == ""
    assert _listens(render(helm, "manager.ui.port=9000")) == "127.0.0.1:9000"


def test_watcher_is_off_by_default(helm: Helm) -> None:
    chart = render(helm)
    assert [svc["metadata"]["name"] for svc in chart.of_kind("Service") if "watcher" in svc["metadata"]["name"]] == []
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
    mounts = {mount["name"]: mount for mount in chart.container("headroom-scheduler/extender")["volumeMounts"]}
    pod = chart.one("Deployment", "headroom-scheduler")["spec"]["template"]["spec"]
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert {mounts[name]["mountPath"]: secret for name, secret in secrets.items()} == {
        "/var/run/headroom/prometheus-ca": "prometheus-ca",
        "/var/run/headroom/token": "token",
    }
    assert all(mounts[name]["readOnly"] for name in secrets)
    volume_mounts = chart.container("headroom-scheduler/kube-scheduler")["volumeMounts"]
    assert {entry["name"] for entry in volume_mounts} == {"api-access", "config"}


def test_resource_metrics_may_be_listed(helm: Helm) -> None:
    role = render(helm).one("ClusterRole", "headroom-scheduler")
    assert {rule for rule in rules(role) if rule[0] == "metrics.k8s.io"} == {("metrics.k8s.io", "nodes", "list", "")}


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ([], f"--exclude-nodes={DEFAULT}"),
        (["manager.excludeNodes=type=virtual-kubelet"], "--exclude-nodes=type=virtual-kubelet"),
        (["manager.excludeNodes={a=b\\,c,d in (e)}"], "--exclude-nodes=a=b,c;d in (e)"),
        (["manager.excludeNodes={}"], "--exclude-nodes="),
    ],
)
def test_excluded_nodes_reach_the_manager(helm: Helm, given: list[str], flag: str) -> None:
    """A list, or a text as before; without either the manager's own default."""
    assert flag in render(helm, *given).container("headroom-manager/manager")["args"]


def test_agents_avoid_excluded_nodes(chart: Rendered) -> None:
    """The manager and the agents agree about virtual nodes."""
    required = required_nodes(dict(chart.pods())["headroom-agent"])
    assert required is not None
    assert required(Labelled("n", {"kubernetes.io/os": "linux", "type": "m5.large"}))
    for part in DEFAULT.split(";"):
        assert not required(Labelled("n", {"kubernetes.io/os": "linux", **dict([part.split("=")])}))

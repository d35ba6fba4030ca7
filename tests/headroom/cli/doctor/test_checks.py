"""Each check of the cluster and of the control plane's parts, on a made cluster with one thing wrong at a time."""

from collections.abc import Callable
from typing import Any

import pytest

from headroom import kube
from headroom.cli.doctor import permissions as rights
from headroom.cli.doctor.checks.crds import missing
from headroom.cli.doctor.finding import Severity
from headroom.cli.doctor.service_accounts import Installed, policy_rules
from tests.headroom.cli.doctor import authority
from tests.headroom.cli.doctor.installation import CONFIG, healthy
from tests.headroom.cli.doctor.world import (
    NAMESPACE,
    NOW,
    World,
    found,
    lease,
    moment,
    node,
    one,
    pod,
    told,
    webhook,
    workload,
)

INFO, WARNING, ERROR, OK = Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.OK
Json = dict[str, Any]


@pytest.mark.parametrize(("ahead", "word"), [(42.0, "ahead of"), (-42.0, "behind")])
async def test_own_clock(ahead: float, word: str) -> None:
    """A clock of ours that is off is told, because ages depend on it."""
    world = healthy()
    world.ahead_seconds = ahead
    assert f"42 s {word} the API server's" in (await one(world, "kubernetes", INFO)).message


def _no_linux(world: World) -> None:
    for name in ("node-1", "node-2"):
        world.at(rights.NODES, name)["metadata"]["labels"]["kubernetes.io/os"] = "windows"


def _info(world: World, **facts: str) -> None:
    world.at(rights.NODES, "node-1")["status"]["nodeInfo"] |= facts


@pytest.mark.parametrize(
    ("change", "severity", "text"),
    [
        (_no_linux, ERROR, "None of 2 nodes runs Linux"),
        (lambda world: _info(world, architecture="s390x"), WARNING, "neither amd64 nor arm64"),
        (lambda world: _info(world, kubeletVersion="v1.29.3"), WARNING, "older than 1.30"),
        (lambda world: _info(world, kubeletVersion="v1.37.0"), WARNING, "newer than the API server"),
        (lambda world: _info(world, kubeletVersion="v1.32.0"), WARNING, "more than three minor versions older"),
    ],
)
async def test_nodes(change: Callable[[World], None], severity: Severity, text: str) -> None:
    """Nodes where our images do not run, or whose kubelets are too old or too new."""
    world = healthy()
    change(world)
    finding = await one(world, "nodes", severity)
    assert text in finding.message


async def test_windows_beside_linux() -> None:
    """Windows nodes beside Linux ones are left alone, and lack no agent."""
    world = healthy()
    world.add(rights.NODES, node("win-1"))["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    assert "left alone: win-1" in (await one(world, "nodes", INFO)).message
    assert await found(world, "agents") == []


def _crd(world: World) -> Json:
    return world.at(rights.DEFINITIONS, rights.CRDS[0])


def _schema(world: World) -> Json:
    found: Json = _crd(world)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


@pytest.mark.parametrize(
    ("change", "severity", "text"),
    [
        (lambda world: world.remove(_crd(world)), ERROR, "is not there, so nothing can be reported"),
        (lambda world: _crd(world)["metadata"].update(deletionTimestamp=moment(NOW)), ERROR, "is being deleted"),
        (lambda world: _crd(world)["status"].update(conditions=[]), ERROR, "not established yet"),
        (lambda world: _crd(world)["spec"]["versions"][0].update(name="v1"), ERROR, "does not serve version v1alpha1"),
        (lambda world: _crd(world)["spec"]["versions"][0].pop("subresources"), ERROR, "has no status subresource"),
        (
            lambda world: _schema(world)["status"]["properties"].pop("prediction"),
            WARNING,
            "the API server drops status.prediction.",
        ),
    ],
)
async def test_definitions(change: Callable[[World], None], severity: Severity, text: str) -> None:
    """A CRD that is gone, going, not in force, of another version, or another product's."""
    world = healthy()
    change(world)
    finding = await one(world, "crds", severity)
    assert text in finding.message
    assert "kubectl apply --server-side --force-conflicts -f charts/headroom/crds" in finding.fix


def test_missing_fields() -> None:
    """Fields are looked for in objects, lists and maps; a part that keeps everything lacks nothing."""
    text = {"type": "string"}
    wanted = {
        "properties": {
            "a": {"properties": {"b": text, "c": text}},
            "l": {"items": {"properties": {"x": text}}},
            "m": {"additionalProperties": {"properties": {"y": text}}},
            "kind": text,
        }
    }
    found_there = {
        "properties": {
            "a": {"properties": {"b": text}},
            "l": {"items": {"properties": {}}},
            "m": {"additionalProperties": {"properties": {}}},
        }
    }
    assert list(missing(wanted, found_there)) == ["a.c", "l[].x", "m.*.y"]
    assert list(missing(wanted, {"x-kubernetes-preserve-unknown-fields": True})) == []
    assert list(missing(wanted, wanted)) == []
    assert list(missing(wanted, {"properties": {**wanted["properties"], "m": {}}})) == ["m.*"]
    assert list(missing(wanted, {"properties": {**wanted["properties"], "m": {"additionalProperties": True}}})) == []


@pytest.mark.parametrize(
    ("level", "severity", "text"),
    [
        ("restricted", ERROR, "refuses the agent's pods"),
        ("baseline", ERROR, "refuses the agent's pods"),
        ("privileged", OK, "admits"),
        ("strict", WARNING, "is no level"),
    ],
)
async def test_pod_security(level: str, severity: Severity, text: str) -> None:
    """Levels that refuse hostPath volumes keep the agent out."""
    world = healthy()
    world.at(rights.NAMESPACES, NAMESPACE)["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": level}
    assert text in (await one(world, "pod-security", severity)).message


async def test_no_namespace() -> None:
    """Without the namespace there is no installation in it; before one that is all right."""
    world = World()
    world.add(rights.DEPLOYMENTS, workload("headroom-manager", 2))["metadata"]["namespace"] = "elsewhere"
    finding = await one(world, "pod-security", ERROR)
    assert finding.message == f"There is no namespace {NAMESPACE}. Headroom is in elsewhere."
    assert finding.fix == "kubectl headroom doctor -n elsewhere"
    said = [each for name, each in await told(world, preflight=True) if name == "pod-security"]
    assert [each.severity for each in said] == [OK]


async def test_priority_classes() -> None:
    """A class that is missing is a warning, one of another band an error, a default that is one of ours is told."""
    world = healthy()
    world.at(rights.PRIORITY_CLASSES, "koord-mid")["value"] = 9100
    world.at(rights.PRIORITY_CLASSES, "koord-prod")["globalDefault"] = True
    world.remove(world.at(rights.PRIORITY_CLASSES, "koord-free"))
    assert "PriorityClass koord-free" in (await one(world, "priority-classes", WARNING)).message
    assert "7000 to 7999" in (await one(world, "priority-classes", ERROR)).message
    assert "all of them count to koord-prod" in (await one(world, "priority-classes", INFO)).message
    before = [each for name, each in await told(world, preflight=True) if name == "priority-classes"]
    assert [each.severity for each in before] == [ERROR, INFO]


async def test_classes_that_preempt() -> None:
    """Classes below Prod whose pods have others evicted are named with the one way out; Prod's own may."""
    world = healthy()
    world.at(rights.PRIORITY_CLASSES, "koord-prod")["preemptionPolicy"] = "PreemptLowerPriority"
    assert (await one(world, "priority-classes", OK)).severity == OK
    world.at(rights.PRIORITY_CLASSES, "koord-free")["preemptionPolicy"] = "PreemptLowerPriority"
    del world.at(rights.PRIORITY_CLASSES, "koord-mid")["preemptionPolicy"]
    finding = await one(world, "priority-classes", WARNING)
    assert finding.objects == ("koord-mid", "koord-free")
    assert finding.fix.startswith("kubectl delete priorityclass koord-mid koord-free && helm upgrade")


async def test_rights() -> None:
    """A right that a service account lacks is named, with its object."""
    world = healthy()
    world.denied |= {("headroom-manager", "patch", "nodes/status"), ("headroom-manager", "get", "secrets")}
    finding = await one(world, "rights", ERROR)
    assert finding.message == (
        f"Service account {NAMESPACE}/headroom-manager may not patch nodes/status, get secrets "
        f"headroom-manager-webhook-tls in {NAMESPACE}."
    )


async def test_rights_follow_the_installation() -> None:
    """What an account needs depends on how it is installed."""
    everything = {
        part: {(each.resource, each.name) for each in its} for part, its in policy_rules(Installed("n")).items()
    }
    other = Installed("n", config_name="mine", pods_from="kubelet", certificates="", lease="a")
    less = {part: {(each.resource, each.name) for each in its} for part, its in policy_rules(other).items()}
    assert everything["headroom-agent"] ^ less["headroom-agent"] == {("pods", ""), ("nodes/pods", "")}
    assert ("configmaps", "mine") in less["headroom-manager"]
    assert not [name for name, _ in less["headroom-manager"] if name == "secrets"]
    assert ("leases", "a") in less["headroom-scheduler"]
    assert set(policy_rules(Installed("n", components=("headroom-agent",)))) == {"headroom-agent"}


async def test_version_skew() -> None:
    """Parts of different versions are a warning that names each; another version of this command is told."""
    world = healthy()
    world.at(rights.PODS, "agent-0")["metadata"]["labels"]["app.kubernetes.io/version"] = "0.0.9"
    finding = await one(world, "versions", WARNING)
    assert "headroom-agent 0.0.9 and " in finding.message
    assert "daemonset/headroom-agent" in finding.fix
    for name in [path.rpartition("/")[2] for path in world.objects if "/pods/" in path]:
        world.at(rights.PODS, name)["metadata"]["labels"]["app.kubernetes.io/version"] = "7.0.0"
    assert "the installation is 7.0.0" in (await one(world, "versions", INFO)).message


async def test_image_skew() -> None:
    """Pods of one part with different images are a rollout that hangs."""
    world = healthy()
    world.at(rights.PODS, "manager-1")["spec"]["containers"][0]["image"] = "manager:other"
    assert "headroom-manager run different images" in (await one(world, "versions", WARNING)).message


async def test_manager() -> None:
    """A manager that is not ready, scaled away, or without a leader."""
    world = healthy()
    deployment = world.at(rights.DEPLOYMENTS, "headroom-manager")
    deployment["status"]["readyReplicas"] = 1
    sick = world.at(rights.PODS, "manager-1")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    crash = {"waiting": {"reason": "CrashLoopBackOff"}}
    last = {"terminated": {"reason": "Error", "message": "flag --lisen is not known"}}
    sick["status"]["containerStatuses"] = [
        {"name": "manager", "ready": False, "restartCount": 7, "state": crash, "lastState": last}
    ]
    finding = await one(world, "manager", WARNING)
    assert "manager-1 (manager: CrashLoopBackOff, flag --lisen is not known)" in finding.message
    deployment["status"]["readyReplicas"] = 0
    assert "0 of 2" in (await one(world, "manager", ERROR)).message
    deployment["spec"]["replicas"] = 0
    assert "is scaled to 0" in (await one(world, "manager", ERROR)).message


async def test_no_leader() -> None:
    """A Lease that nobody renews is an error, but for the first minute of a manager."""
    world = healthy()
    world.add(rights.LEASES, lease("headroom-manager", "manager-0", ago=60.0))
    assert "No replica of the manager leads" in (await one(world, "manager", ERROR)).message
    for name in ("manager-0", "manager-1"):
        world.at(rights.PODS, name)["status"]["startTime"] = moment(NOW - 10)
    assert "No replica of the manager leads" in (await one(world, "manager", WARNING)).message


async def test_parts_switched_off() -> None:
    """A part that is not there is a choice where another is, and an error where none is."""
    world = healthy()
    world.remove(world.at(rights.DEPLOYMENTS, "headroom-manager"))
    world.remove(world.at(rights.DAEMON_SETS, "headroom-agent"))
    assert "manager.enabled: false" in (await one(world, "manager", INFO)).message
    assert "agent.enabled: false" in (await one(world, "agents", INFO)).message
    world.remove(world.at(rights.DEPLOYMENTS, "headroom-scheduler"))
    assert "There is no headroom-agent in namespace" in (await one(world, "agents", ERROR)).message
    assert "is not installed" in (await one(world, "scheduler", INFO)).message
    assert "there is no extender" in (await one(world, "extender", INFO)).message


def _bundle(world: World, bundle: str) -> None:
    world.add(rights.VALIDATING, webhook(bundle))


def _expression(world: World, text: str) -> None:
    world.at(rights.VALIDATING, rights.WEBHOOK)["webhooks"][0]["matchConditions"] = [{"expression": text}]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda world: world.remove(world.at(rights.VALIDATING, rights.WEBHOOK)), "There is no Validating"),
        (lambda world: _bundle(world, ""), "has no authority to trust"),
        (lambda world: _bundle(world, "bm90aGluZw=="), "is no certificate"),
        (lambda world: _bundle(world, "%%"), "is no certificate"),
        (lambda world: _bundle(world, authority.bundle(NOW, -3.0)), "ended 3 days ago"),
        (lambda world: _expression(world, 'name == "other"'), "not asked about ConfigMap"),
        (
            lambda world: world.at(rights.ENDPOINT_SLICES, "webhook-1").update(endpoints=None),
            "No manager stands behind",
        ),
    ],
)
async def test_webhook(change: Callable[[World], None], text: str) -> None:
    """A webhook that cannot be trusted, is asked about something else, or has nobody behind it."""
    world = healthy()
    change(world)
    assert text in (await one(world, "webhook", WARNING)).message


async def test_webhook_is_tried() -> None:
    """Who may edit the config tries it, as a dry run; who may not is told that it was not tried."""
    world = healthy()
    assert "not tried, because this login may not edit" in (await one(world, "webhook", OK)).message
    world.mine = lambda asked: asked["resource"] == "configmaps"
    assert "does not reach the manager's webhook" in (await one(world, "webhook", WARNING)).message
    denied = 'admission webhook "colocation-config.headroom.sh" denied the request'
    world.edit_refusal = kube.ApiError(403, "Forbidden", denied)
    assert "was refused" in (await one(world, "webhook", OK)).message
    world.edit_refusal = kube.ApiError(409, "Conflict", "the object has been modified")
    assert "could not be tried" in (await one(world, "webhook", WARNING)).message


async def test_webhook_off() -> None:
    """A manager without the webhook is told, and nothing else is looked for."""
    world = healthy()
    world.at(rights.DEPLOYMENTS, "headroom-manager")["spec"]["template"]["spec"]["containers"][0]["args"] = []
    world.remove(world.at(rights.VALIDATING, rights.WEBHOOK))
    assert "webhook is off" in (await one(world, "webhook", INFO)).message


def _config(world: World, text: str | None) -> None:
    data = {} if text is None else {"colocation-config": text}
    world.at(rights.CONFIG_MAPS, CONFIG)["data"] = data


_OVERLAP = """{"nodeConfigs": [
  {"name": "a", "nodeSelector": {"matchLabels": {"kubernetes.io/os": "linux"}}, "enable": true},
  {"name": "b", "nodeSelector": {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]}}]}"""


@pytest.mark.parametrize(
    ("text", "severity", "said"),
    [
        ("{", ERROR, "is not in force"),
        ('{"enable": true, "degradeTimeMinutes": -1}', ERROR, "degradeTimeMinutes"),
        ('{"nodeConfigs": [{"name": "a", "nodeSelector": {}, "midUnallocatedPercent": "x"}]}', ERROR, "disabled"),
        ('{"enable": true, "somethingElse": 1}', WARNING, "somethingElse"),
        (_OVERLAP, WARNING, "matches 2 nodes (node-1, node-2) too, but"),
        ('{"enable": false}', INFO, "publishes nothing: enable is false"),
        (None, WARNING, "no such key"),
    ],
)
async def test_config(text: str | None, severity: Severity, said: str) -> None:
    """The config is judged as the manager judges it."""
    world = healthy()
    _config(world, text)
    findings = await found(world, "config", severity)
    assert any(said in each.message for each in findings), findings
    assert all("edit configmap" in each.fix for each in findings)


async def test_last_good_config() -> None:
    """What applies in place of a wrong config is told."""
    world = healthy()
    _config(world, "{")
    assert "The defaults apply" in (await one(world, "config", ERROR)).message
    annotations = {"headroom.sh/in-force-since": "2027-01-01T00:00:00Z"}
    last = {"metadata": {"name": "headroom-last-good-config", "namespace": NAMESPACE, "annotations": annotations}}
    world.add(rights.CONFIG_MAPS, last)
    assert "since 2027-01-01T00:00:00Z" in (await one(world, "config", ERROR)).message


async def test_config_of_another_name() -> None:
    """The ConfigMap that the manager reads counts, whatever was asked for."""
    world = healthy()
    container = world.at(rights.DEPLOYMENTS, "headroom-manager")["spec"]["template"]["spec"]["containers"][0]
    container["args"].append("--config-name=mine")
    assert f"There is no ConfigMap {NAMESPACE}/mine" in (await one(world, "config", INFO)).message


async def test_install_rights() -> None:
    """Before an install: what this login may not create, and rights that it cannot hand on."""
    world = World()
    said = [each for name, each in await told(world, preflight=True) if name == "install"]
    assert "create serviceaccounts in headroom-system" in said[0].message
    world.mine = lambda asked: asked["verb"] == "create"
    said = [each for name, each in await told(world, preflight=True) if name == "install"]
    assert "not with rights that it lacks itself" in said[0].message
    world.mine = lambda _: True
    said = [each for name, each in await told(world, preflight=True) if name == "install"]
    assert [each.severity for each in said] == [OK]


async def test_unplaced_pod() -> None:
    """A pod that no node takes says so in kube-scheduler's words."""
    world = healthy()
    waiting = pod("headroom-manager", "manager-1", "", "manager")
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available."}],
    }
    world.add(rights.PODS, waiting)
    world.at(rights.DEPLOYMENTS, "headroom-manager")["status"]["readyReplicas"] = 1
    assert "manager-1 (0/2 nodes are available.)" in (await one(world, "manager", WARNING)).message

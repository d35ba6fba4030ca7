"""Findings of doctor for one fault each, word for word.

`recorded/doctor.txt` holds for each case the findings that a healthy installation does not have. To write it again:

    python -m tests.kubectl_headroom.doctor.test_checks > tests/kubectl_headroom/recorded/doctor.txt
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from crds.names import LABEL_TIER, TAINT_HOT
from headroom import kube
from kubectl_headroom.doctor import permissions as may
from tests.kubectl_headroom.doctor.world import (
    CONFIG,
    NAMESPACE,
    VERSION,
    Change,
    World,
    add,
    attributes,
    authority,
    gone,
    healthy,
    lease,
    node,
    node_metric,
    ours,
    put,
    results,
    workload,
)
from tests.kubectl_headroom.recording import golden
from tests.manager.profiles.made import made
from tests.support.objects import Json, at, mid_pod, pod, resources

_CRD: Final = may.CRDS[0]
_PROFILE_WEBHOOKS: Final = {
    "metadata": {"name": may.PROFILES_WEBHOOK},
    "webhooks": [{"name": "mid.profiles.headroom.dev"}],
}


def _with_condition(profile: Json, message: str) -> Json:
    condition = {"type": "InForce", "status": "False", "message": message, "observedGeneration": 1}
    return {**profile, "status": {"conditions": [condition]}}


_TEMPLATE: Final = "spec template spec"
_STATUS: Final = "spec versions 0 schema openAPIV3Schema properties status properties"
_UNREADY: Final = [{"type": "Ready", "status": "False"}]
_OVERLAP: Final = """{"nodeConfigs": [
  {"name": "a", "nodeSelector": {"matchLabels": {"kubernetes.io/os": "linux"}}, "enable": true},
  {"name": "b", "nodeSelector": {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]}}]}"""
_STOCK: Final = "leaderElection: {resourceName: headroom-scheduler}\nprofiles: [{schedulerName: default-scheduler}]"


def _machine(field: str, value: str) -> Change:
    return put(may.NODES, "node-1", f"status nodeInfo {field}", value)


def _windows(name: str) -> Change:
    return put(may.NODES, name, "metadata labels kubernetes.io/os", "windows")


def _namespace(field: str, value: str) -> Change:
    return put(may.NAMESPACES, NAMESPACE, f"metadata {field}", value)


def _level(level: str) -> Change:
    return _namespace("labels pod-security.kubernetes.io/enforce", level)


def _class(name: str, field: str, *value: object) -> Change:
    return put(may.PRIORITY_CLASSES, name, field, *value)


def _crd(path: str, *value: object) -> Change:
    return put(may.DEFINITIONS, _CRD, path, *value)


def _ready(component: str, replicas: int) -> Change:
    return put(may.DEPLOYMENTS, component, "status readyReplicas", replicas)


def _unready(component: str, restarts: int, **state: Any) -> Sequence[Change]:  # noqa: ANN401 - a container's state
    container = {"name": component, "ready": False, "restartCount": restarts, "state": state}
    if restarts:
        container["lastState"] = {"terminated": {"reason": "Error", "message": "flag --lisen\nis {not} known"}}
    return (
        put(may.PODS, f"{component}-0", "status conditions", _UNREADY),
        put(may.PODS, f"{component}-0", "status containerStatuses", [container]),
    )


def _started(pod: str) -> Change:
    return put(may.PODS, pod, "status startTime", at(-30))


def _extender(**status: Any) -> Change:  # noqa: ANN401 - fields of a container's status
    container = {"name": "extender", "ready": True, **status}
    return put(may.PODS, "scheduler-0", "status containerStatuses 1", container)


def _webhook(path: str, value: object) -> Change:
    return put(may.VALIDATING, may.WEBHOOK, f"webhooks 0 {path}", value)


def _editor(answer: kube.ApiError | None) -> Change:
    return attributes(mine=lambda each: each["resource"] == "configmaps", edit_refusal=answer)


def _config(text: str, key: str = "colocation-config") -> Change:
    return put(may.CONFIG_MAPS, CONFIG, "data", {key: text})


def _scheduler(text: str, key: str = "kube-scheduler.yaml") -> Change:
    return put(may.CONFIG_MAPS, "headroom-scheduler", f"data {key}", text)


def _taint(taint: str, **toleration: str) -> Sequence[Change]:
    return (
        put(may.NODES, "node-1", "spec", {"taints": [{"key": taint, "effect": "NoSchedule"}]}),
        put(may.DAEMON_SETS, "headroom-agent", f"{_TEMPLATE} tolerations", [toleration] if toleration else []),
    )


def _with_requests(pod: Json, **requests: str) -> Json:
    pod["spec"]["containers"][0]["resources"]["requests"].update(requests)
    return pod


def _used(pod: str, cpu: str, memory: str) -> Json:
    return {"namespace": "shop", "name": pod, "podUsage": resources(cpu, memory)}


def _reported(ago: float = 20.0, ahead: float = 0.0) -> Change:
    return add(may.NODE_METRICS, node_metric("node-1", ago=ago, ahead=ahead))


def _theirs(name: str, *arguments: str) -> Change:
    permission = may.DAEMON_SETS if name == "koordlet" else may.DEPLOYMENTS
    return add(permission, workload(name, *arguments, namespace="theirs"))


def _hot(reason: str) -> Change:
    condition = {"type": "NodeHot", "status": "True", "reason": reason}
    return put(may.NODE_METRICS, "node-1", "status conditions", [condition])


def _hot_taint() -> Change:
    return put(may.NODES, "node-1", "spec", {"taints": [{"key": TAINT_HOT, "effect": "NoSchedule"}]})


_NO_MANAGER: Final = gone(may.DEPLOYMENTS, "headroom-manager")
_NO_AGENT: Final = gone(may.DAEMON_SETS, "headroom-agent")
_NO_SCHEDULER: Final = gone(may.DEPLOYMENTS, "headroom-scheduler")
_NO_LEADER: Final = add(may.LEASES, lease("headroom-manager", "manager-0", ago=60.0))
_EMPTY_METRIC: Final = add(may.NODE_METRICS, {"metadata": {"name": "node-1"}, "spec": {}})
_NEVER_SCHEDULED: Final = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available."}
_WRONG_PROFILE: Final = {"terminated": {"exitCode": 2, "reason": "Error", "message": "plugins[0].name: unknown"}}
_LAST_GOOD: Final = ours("headroom-last-good-config")
_LAST_GOOD["metadata"]["annotations"] = {"headroom.dev/in-force-since": "2027-01-01T00:00:00Z"}

CASES: Final[Mapping[str, Sequence[Change]]] = {
    "old API server": [attributes(version={"gitVersion": "v1.29.14"})],
    "API server of unknown version": [attributes(version={"gitVersion": "unknown"})],
    "our clock is ahead": [attributes(ahead_seconds=42.0)],
    "our clock is behind": [attributes(ahead_seconds=-42.0)],
    "no Linux": [_windows("node-1"), _windows("node-2")],
    "Windows beside Linux": [add(may.NODES, node("win-1")), _windows("win-1")],
    "other architecture": [_machine("architecture", "s390x")],
    "old kubelet": [_machine("kubeletVersion", "v1.29.3")],
    "kubelet newer than the API server": [_machine("kubeletVersion", "v1.37.0")],
    "kubelet four versions older": [_machine("kubeletVersion", "v1.32.0")],
    "kubelet three versions older": [_machine("kubeletVersion", "v1.33.0")],
    "CRD is missing": [gone(may.DEFINITIONS, _CRD)],
    "CRD is being deleted": [_crd("metadata deletionTimestamp", "now")],
    "CRD is not established": [_crd("status conditions", [])],
    "CRD has another version": [_crd("spec versions 0 name", "v1")],
    "CRD without status": [_crd("spec versions 0 subresources")],
    "CRD lacks a field": [_crd(f"{_STATUS} prediction")],
    "pod security restricted": [_level("restricted")],
    "pod security baseline": [_level("baseline")],
    "pod security privileged": [_level("privileged")],
    "pod security unknown": [_level("strict")],
    "namespace is being deleted": [_namespace("deletionTimestamp", "now")],
    "hot node may not be tainted": [_hot("Forbidden")],
    "hot node has the taint": [_hot("Tainted"), _hot_taint()],
    "taint of a hot node is left": [_hot_taint()],
    "class is missing": [gone(may.PRIORITY_CLASSES, "koord-free")],
    "class of another band": [_class("koord-mid", "value", 9100)],
    "class is the default": [_class("koord-prod", "globalDefault", True)],
    "Prod preempts": [_class("koord-prod", "preemptionPolicy")],
    "Mid and Free preempt": [_class("koord-mid", "preemptionPolicy"), _class("koord-free", "preemptionPolicy", "Any")],
    "manager crashes": [*_unready("manager", 7, waiting={"reason": "CrashLoopBackOff"}), _ready("headroom-manager", 1)],
    "manager is unschedulable": [
        put(may.PODS, "manager-1", "status", {"phase": "Pending", "conditions": [_NEVER_SCHEDULED]}),
        _ready("headroom-manager", 1),
    ],
    "no manager is ready": [_ready("headroom-manager", 0)],
    "manager scaled to 0": [put(may.DEPLOYMENTS, "headroom-manager", "spec replicas", 0)],
    "manager without a leader": [_NO_LEADER],
    "manager just started": [_NO_LEADER, _started("manager-0"), _started("manager-1")],
    "manager and agent switched off": [_NO_MANAGER, _NO_AGENT],
    "no component": [_NO_MANAGER, _NO_AGENT, _NO_SCHEDULER],
    "webhook is missing": [gone(may.VALIDATING, may.WEBHOOK)],
    "webhook without authority": [_webhook("clientConfig caBundle", "")],
    "webhook with something else": [_webhook("clientConfig caBundle", "bm90aGluZw==")],
    "webhook without base64": [_webhook("clientConfig caBundle", "%%")],
    "authority ended": [_webhook("clientConfig caBundle", authority(-3.0))],
    "webhook for another ConfigMap": [_webhook("matchConditions 0 expression", 'name == "other"')],
    "webhook without endpoints": [put(may.ENDPOINT_SLICES, "webhook-1", "endpoints", None)],
    "wrong config passes": [_editor(None)],
    "wrong config passes on another port": [
        _editor(None),
        put(may.DEPLOYMENTS, "headroom-manager", f"{_TEMPLATE} containers 0 args", ["--webhook-listen=:10250"]),
    ],
    "wrong config is refused": [_editor(kube.ApiError(403, "Forbidden", 'admission webhook "x" denied the request'))],
    "wrong config is in conflict": [_editor(kube.ApiError(409, "Conflict", "the object has been modified"))],
    "webhook is off": [
        put(may.DEPLOYMENTS, "headroom-manager", f"{_TEMPLATE} containers 0 args", []),
        gone(may.VALIDATING, may.WEBHOOK),
    ],
    "config is no JSON": [_config("{")],
    "config is no JSON, one was good": [_config("{"), add(may.CONFIG_MAPS, _LAST_GOOD)],
    "config with a wrong value": [_config('{"enable": true, "degradeTimeMinutes": -1}')],
    "config with a wrong entry": [
        _config('{"nodeConfigs": [{"name": "a", "nodeSelector": {}, "midUnallocatedPercent": "x"}]}')
    ],
    "config with an unknown key": [_config('{"enable": true, "somethingElse": 1}')],
    "config with entries that overlap": [_config(_OVERLAP)],
    "config that publishes nothing": [_config('{"enable": false}')],
    "config without its key": [_config("{}", key="other")],
    "config of another name": [
        put(may.DEPLOYMENTS, "headroom-manager", f"{_TEMPLATE} containers 0 args 1", "--config-name=mine")
    ],
    "no pod of an agent": [gone(may.PODS, "agent-0")],
    "agent cannot pull": _unready("agent", 0, waiting={"reason": "ImagePullBackOff", "message": "no such {image}"}),
    "agent crashes": _unready("agent", 3, waiting={"reason": "CrashLoopBackOff"}),
    "agent's probe fails": _unready("agent", 0, running={}),
    "agent just started": [_started("agent-0"), _EMPTY_METRIC, *_unready("agent", 0, running={})],
    "node is not ready": [put(may.NODES, "node-1", "status conditions")],
    "no NodeMetric": [gone(may.NODE_METRICS, "node-1")],
    "no NodeMetric yet": [gone(may.NODE_METRICS, "node-1"), _started("agent-0")],
    "agent never reported": [_EMPTY_METRIC],
    "no agent ever reported": [_EMPTY_METRIC, add(may.NODE_METRICS, {"metadata": {"name": "node-2"}})],
    "report is too old": [_reported(ago=1000)],
    "report is late": [_reported(ago=200)],
    "report within the config's limit": [
        _config('{"enable": true, "degradeTimeMinutes": 60}'),
        _reported(ago=1000),
    ],
    "taint keeps agents away": _taint("gpu"),
    "taint is tolerated": _taint("gpu", key="gpu", operator="Exists"),
    "taint of another key is tolerated": _taint("gpu", key="disk", operator="Exists"),
    "taint of another value is tolerated": _taint("gpu", key="gpu", value="a"),
    "taint of another effect is tolerated": _taint("gpu", operator="Exists", effect="NoExecute"),
    "taint of a cordoned node": _taint("node.kubernetes.io/unschedulable"),
    "agents are kept away from all nodes": [
        put(may.DAEMON_SETS, "headroom-agent", f"{_TEMPLATE} nodeSelector", {"no": "where"})
    ],
    "excluded node": [add(may.NODES, node("virtual-1", type="virtual-kubelet"))],
    "node's clock is behind": [_reported(ago=100.0, ahead=-45.0)],
    "node's clock is ahead": [_reported(ago=100.0, ahead=45.0)],
    "node's clock is far behind": [_reported(ago=100.0, ahead=-2000.0)],
    "Mid pods": [
        add(may.ALL_PODS, {**mid_pod("app", "500m"), "status": {}}),
        add(may.ALL_PODS, mid_pod("fine", "500", "1Gi")),
        add(may.ALL_PODS, mid_pod("ended", "500m", phase="Succeeded")),
        add(may.ALL_PODS, pod("prod", {"cpu": "500m"})),
    ],
    "Mid pods without limits": [
        add(may.ALL_PODS, mid_pod("none", limits={})),
        add(may.ALL_PODS, mid_pod("leaks", limits={"cpu": "1"})),
        add(may.ALL_PODS, mid_pod("ended", limits={}, phase="Failed")),
    ],
    "Mid pod with native requests": [
        add(may.ALL_PODS, _with_requests(mid_pod("app"), cpu="500m")),
    ],
    "Mid pod beyond its requests": [
        add(may.ALL_PODS, mid_pod("small", "50", "32Mi")),
        add(may.ALL_PODS, mid_pod("fine", "50", "32Mi")),
        put(
            may.NODE_METRICS,
            "node-1",
            "status podsMetric",
            [_used("small", "60m", "603Mi"), _used("fine", "40m", "9Mi")],
        ),
    ],
    "pods of a Mid namespace": [
        add(may.ALL_NAMESPACES, {"metadata": {"name": "shop", "labels": {LABEL_TIER: "mid"}}}),
        add(may.ALL_PODS, pod("older", {"cpu": "500m"}, priority=0)),
        add(may.ALL_PODS, pod("keeps-its-band", {"cpu": "500m"}, priority=9000)),
        add(may.ALL_PODS, pod("ended", {"cpu": "500m"}, phase="Succeeded")),
        add(may.ALL_PODS, mid_pod("fine")),
    ],
    "profiles": [
        add(may.ALL_NAMESPACES, {"metadata": {"name": "shop", "labels": {"team": "a"}}}),
        add(may.PROFILES, made("wrong", qosClass="X")),
        add(
            may.PROFILES,
            _with_condition(made("refused", priorityClassName="koord-mid"), "No pod is changed: a reason."),
        ),
        add(may.PROFILES, made("unwritten", priorityClassName="koord-mid", selector={"matchLabels": {"a": "b"}})),
        add(
            may.PROFILES,
            made("mid", priorityClassName="koord-mid", namespaceSelector={"matchLabels": {"team": "a"}}),
        ),
        add(may.MUTATING, _PROFILE_WEBHOOKS),
        add(may.ALL_PODS, pod("older", {"cpu": "500m"}, priority=0)),
        add(may.ALL_PODS, mid_pod("fine")),
    ],
    "profiles in force": [
        add(may.PROFILES, made("mid", priorityClassName="koord-mid", selector={"matchLabels": {"a": "b"}})),
        add(may.MUTATING, _PROFILE_WEBHOOKS),
        add(may.ALL_PODS, pod("web", {"cpu": "500m"}, priority=0)),
    ],
    "profiles that Headroom does not read": [add(may.PROFILES, made("mid", priorityClassName="koord-mid"))],
    "profiles are not defined": [attributes(undefined={"clustercolocationprofiles"})],
    "scheduler of the same Lease": [_theirs("other", "--leader-elect-resource-name=headroom-scheduler")],
    "scheduler of the stock name": [_scheduler(_STOCK)],
    "scheduler config is no YAML": [_scheduler("{")],
    "profile with an unknown plugin": [_scheduler("plugins: [{name: LoadAwear}]", "profile.yaml")],
    "profile is no YAML": [_scheduler("plugins:\n  - {: ]", "profile.yaml")],
    "no scheduler config": [gone(may.CONFIG_MAPS, "headroom-scheduler")],
    "scheduler without a leader": [add(may.LEASES, lease("headroom-scheduler", "x", 99))],
    "scheduler with a foreign leader": [add(may.LEASES, lease("headroom-scheduler", "foreign_1"))],
    "scheduler scaled to 0": [put(may.DEPLOYMENTS, "headroom-scheduler", "spec replicas", 0)],
    "no pod of the scheduler": [gone(may.PODS, "scheduler-0", "scheduler-1")],
    "one scheduler is ready": [_ready("headroom-scheduler", 1)],
    "extender is silent": [_extender(ready=False)],
    "extender is silent after a restart": [_extender(ready=False, restartCount=1)],
    "extender restarts again and again": [_extender(restartCount=9)],
    "wrong profile": [
        put(may.PODS, "scheduler-0", "status initContainerStatuses 0", {"name": "check", "state": _WRONG_PROFILE})
    ],
    "koordlet": [_theirs("koordlet")],
    "koordlet in place of our agent": [_theirs("koordlet"), _NO_AGENT],
    "koord-manager": [_theirs("koord-manager")],
    "koord-scheduler": [_theirs("koord-scheduler")],
    "Koordinator's webhook": [add(may.MUTATING, {"metadata": {"name": may.KOORDINATOR_WEBHOOKS[1]}, "webhooks": [{}]})],
    "another writer": [
        put(may.NODE_METRICS, "node-2", "metadata managedFields 0 manager", "another"),
    ],
    "NodeMetrics are not defined": [attributes(undefined={"nodemetrics"})],
    "API server fails at Nodes": [attributes(failing={"nodes": 500})],
}
BEFORE: Final[Mapping[str, Sequence[Change]]] = {
    "before: healthy": [],
    "before: may create, not escalate": [attributes(mine=lambda each: each["verb"] == "create")],
    "before: may do all": [attributes(mine=lambda _: True)],
    "before: no namespace or CRD": [gone(may.NAMESPACES, NAMESPACE), gone(may.DEFINITIONS, _CRD)],
    "before: class of another band": [_class("koord-mid", "value", 9100), gone(may.PRIORITY_CLASSES, "koord-free")],
    "before: class is the default": [_class("koord-prod", "globalDefault", True)],
}
WORLDS: Final[Mapping[str, World]] = {"healthy": healthy()}


async def _text(name: str) -> str:
    """The findings of a case that a healthy installation does not have."""
    preflight = name in BEFORE
    changes = {**CASES, **BEFORE}.get(name, ())
    healthy_too = [] if name in {"healthy", "before: healthy"} else await results(preflight=preflight)
    lines = []
    for check, result in await results(*changes, world=WORLDS.get(name), preflight=preflight):
        if (check, result) not in healthy_too:
            lines.append(f"{result.severity} {check}: {result.message}")
            more = {"fix": result.fix, "docs": result.docs, "all": ", ".join(result.objects)}
            lines += [f"  {title}: {text}" for title, text in more.items() if text]
    return "\n".join(lines).replace(VERSION, "VERSION")


def _recorded() -> dict[str, str]:
    """The text of each case."""
    sections = golden("doctor.txt").removeprefix("## ").split("\n## ")
    return {name: text.rstrip("\n") for name, _, text in (section.partition("\n") for section in sections)}


@pytest.mark.parametrize("name", [*WORLDS, *CASES, *BEFORE])
async def test_findings(name: str) -> None:
    """Each case, word for word."""
    assert await _text(name) == _recorded()[name]


if __name__ == "__main__":
    texts = {case: asyncio.run(_text(case)) for case in (*WORLDS, *CASES, *BEFORE)}
    sys.stdout.write("\n".join(f"## {case}\n{text}\n" if text else f"## {case}\n" for case, text in texts.items()))

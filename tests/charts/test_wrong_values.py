"""Values that cannot be: refused before anything is installed, each with its path."""

import json
import re
from typing import Any, Final

import pytest

from tests.charts.rendered import CHART, Helm, render
from tools.devcluster import CommandError

pytestmark = pytest.mark.helm

ARGUMENTS: Final = "scheduler.profile.arguments"
WRONG: Final[dict[str, tuple[str, Any, str]]] = {
    "truth that is text": ("flowSchema.enabled", "yes", "/flowSchema/enabled'"),
    "number that is text": ("flowSchema.shares", "many", "/flowSchema/shares'"),
    "number too small": ("manager.replicas", -1, "/manager/replicas'"),
    "number too large": ("scheduler.percentageOfNodesToScore", 101, "/scheduler/percentageOfNodesToScore'"),
    "fraction for a whole number": ("scheduler.replicas", 1.5, "/scheduler/replicas'"),
    "none of the choices": ("imagePullPolicy", "Sometimes", "/imagePullPolicy'"),
    "path that is not absolute": ("agent.dataDir", "data", "/agent/dataDir'"),
    "ConfigMap of another component": ("configMap.name", "headroom-scheduler", "/configMap/name'"),
    "Lease of another component": ("scheduler.name", "headroom-manager", "/scheduler/name'"),
    "authority in another's ConfigMap": ("agent.kubeletCA", "headroom-last-good-config", "/agent/kubeletCA'"),
    "share that is none": ("agent.maxUnavailable", "0%", "/agent/maxUnavailable'"),
    "port that is none": ("networkPolicy.egress.apiServerPorts", [70000], "/networkPolicy/egress/apiServerPorts/0'"),
    "network that is none": ("networkPolicy.webhookFrom", ["10.0.0.0"], "/networkPolicy/webhookFrom/0'"),
    "peer that is none": ("networkPolicy.watcherFrom", [{"pods": {}}], "/networkPolicy/watcherFrom/0'"),
    "registry that is a URL": ("image.registry", "https://r.io", "/image/registry'"),
    "tag in the repository": ("image.agent.repository", "a:b", "/image/agent/repository'"),
    "digest that is a tag": ("image.manager.digest", "v1", "/image/manager/digest'"),
    "flag that is none": ("manager.extraArgs", ["debug"], "/manager/extraArgs/0'"),
    "list that is an object": ("imagePullSecrets", {"name": "a"}, "/imagePullSecrets'"),
    "object that is a list": ("agent.nodeSelector", ["a"], "/agent/nodeSelector'"),
    "label that is none": ("agent.labels", {"team": "a b"}, "/agent/labels/team'"),
    "label whose name is none": ("manager.labels", {"-": "a"}, "/manager/labels'"),
    "annotation that is no text": ("scheduler.annotations", {"a": 1}, "/scheduler/annotations/a'"),
    "affinity of no kind": ("scheduler.affinity", {"nodes": {}}, "/scheduler/affinity'"),
    "amount that is none": ("manager.resources", {"limits": {"memory": "1 GB"}}, "/manager/resources/limits/memory'"),
    "unknown name": ("podDisruptionBudgets.minAvailable", 1, "/podDisruptionBudgets': additional properties"),
    "unknown name of a group": ("networkpolicy.enabled", False, "additional properties 'networkpolicy'"),
    "field of the config that is misspelt": ("colocationConfig.midUnalocatedPercent", 1, "'midUnalocatedPercent'"),
    "field of the config out of range": (
        "colocationConfig.degradeTimeMinutes",
        0,
        "/colocationConfig/degradeTimeMinutes'",
    ),
    "field of the config, deep": (
        *("colocationConfig.nodePredictPolicy", {"cpu": {"safetyMarginPercent": 101}}),
        "/colocationConfig/nodePredictPolicy/cpu/safetyMarginPercent'",
    ),
    "field of the config for some nodes": (
        *("colocationConfig.nodeConfigs", [{"name": "a", "midPolicy": "best"}]),
        "/colocationConfig/nodeConfigs/0/midPolicy'",
    ),
    "argument that is misspelt": (f"{ARGUMENTS}.MidResources", {"expiration": 1}, "/arguments/MidResources'"),
    "argument of a wrong type": (
        *(f"{ARGUMENTS}.LoadAwareScheduling", {"usageThresholds": {"cpu": "70%"}}),
        "/arguments/LoadAwareScheduling/usageThresholds/cpu'",
    ),
    "argument out of range": (
        *(f"{ARGUMENTS}.LoadAwareScheduling.prodUsageThresholds", {"cpu": 900}),
        "/arguments/LoadAwareScheduling/prodUsageThresholds/cpu'",
    ),
    "argument that is none of the choices": (
        *(f"{ARGUMENTS}.CapacityScheduling", {"maxMissing": "some"}),
        "/arguments/CapacityScheduling/maxMissing'",
    ),
    "argument of a listed plugin": (
        *("scheduler.profile.plugins", [{"name": "MidResources", "args": {"predictionExpirationSeconds": "1h"}}]),
        "/scheduler/profile/plugins/0/args/predictionExpirationSeconds'",
    ),
}


@pytest.fixture(scope="module")
def complaints(helm: Helm) -> str:
    """Helm's answer to all of these at once."""
    settings = [flag for path, value, _ in WRONG.values() for flag in ("--set-json", f"{path}={json.dumps(value)}")]
    with pytest.raises(CommandError) as refused:
        helm("template", "headroom", str(CHART), *settings)
    return str(refused.value)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_value_is_refused(complaints: str, case: str) -> None:
    """A value that cannot be is refused by its path."""
    assert WRONG[case][2] in complaints


def test_nothing_else_is_refused(complaints: str) -> None:
    """Each complaint is about one of the wrong values, or about what contains it."""
    named = set(re.findall(r"at '([^']*)'", complaints))
    wrong = [f"/{path.replace('.', '/')}" for path, _, _ in WRONG.values()]
    assert len(named) > len(WRONG) / 2
    assert [
        path for path in named if not any(f"{path}/".startswith(f"{one}/") or one.startswith(path) for one in wrong)
    ] == []


@pytest.mark.parametrize("group", ["networkPolicy", "podDisruptionBudgets", "flowSchema", "rbac", "configMap"])
def test_values_of_an_earlier_chart_are_refused(helm: Helm, group: str) -> None:
    """Values that lack a group, as those of an earlier chart do with --reuse-values, are refused by its name."""
    with pytest.raises(CommandError, match=f"missing property '{group}'"):
        render(helm, f"{group}=null")


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("configMap.name=Not A Name", "/configMap/name'"),
        ("scheduler.name=a.b", "/scheduler/name'"),
        ("agent.dataDir=/etc/kubernetes", "/agent/dataDir'"),
        ("agent.dataDir=/etc", "/agent/dataDir'"),
        ("agent.dataDir=/var/lib/kubelet/pods", "/agent/dataDir'"),
        ("agent.dataDir=/usr/share/headroom", "/agent/dataDir'"),
        ("agent.dataDir=/data/../etc/x", "/agent/dataDir'"),
        ("agent.dataDir=/var/lib/headroom/.", "/agent/dataDir'"),
        ("agent.dataDir=/run/headroom", "/agent/dataDir'"),
        ("agent.dataDir=/lib64/headroom", "/agent/dataDir'"),
        # Two values that would make one object of two.
        ("agent.kubeletCA=slo-controller-config", "are both"),
        ("configMap.name=headroom-shadow-3", "/configMap/name'"),
        ("agent.kubeletCA=headroom-shadow-15", "/agent/kubeletCA'"),
        ("configMap.name=headroom-last-good-config", "/configMap/name'"),
        ("configMap.name=headroom-dashboard-cluster", "one of this chart's dashboards"),
    ],
)
def test_what_others_live_from_is_refused(helm: Helm, setting: str, path: str) -> None:
    """Directories of the system, which would be given to the agent's uid, and objects that another component writes."""
    with pytest.raises(CommandError, match=path):
        render(helm, setting)


def test_lease_of_the_cluster_is_refused(helm: Helm) -> None:
    """In kube-system the scheduler cannot take the name, and with it the Lease, of the cluster's own."""
    flags = ("--set", "scheduler.name=kube-scheduler", "--namespace")
    helm("template", "headroom", str(CHART), *flags, "elsewhere")
    with pytest.raises(CommandError, match="the Lease of the cluster's own component"):
        helm("template", "headroom", str(CHART), *flags, "kube-system")

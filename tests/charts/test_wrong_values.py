"""Values that cannot be: refused before anything is installed, each with its path."""

import json
import re
from typing import Any, Final

import pytest

from tests.charts.rendered import CHART, REGISTRY, Helm, render
from tests.charts.schema import removed_values
from tools.devcluster import CommandError

pytestmark = pytest.mark.helm

WRONG: Final[tuple[tuple[str, Any, str | None], ...]] = (
    ("flowSchema.enabled", "yes", None),
    ("flowSchema.shares", "many", None),
    ("manager.replicas", -1, None),
    ("scheduler.percentageOfNodesToScore", 101, None),
    ("scheduler.clientConnection.qps", 0, None),
    ("scheduler.replicas", 1.5, None),
    ("imagePullPolicy", "Sometimes", None),
    ("agent.dataDir", 5, None),
    ("configMap.name", "a/b", None),
    ("scheduler.name", "a b", None),
    ("agent.maxUnavailable", "0%", None),
    ("networkPolicy.egress.apiServerPorts", [70000], "/networkPolicy/egress/apiServerPorts/0'"),
    ("networkPolicy.webhookFrom", ["10.0.0.0"], "/networkPolicy/webhookFrom/0'"),
    ("networkPolicy.watcherFrom", [{"pods": {}}], "/networkPolicy/watcherFrom/0'"),
    ("image.registry", "https://r.io", None),
    ("global.imageRegistry", "r.io:x/", None),
    ("global.imagePullSecrets", [""], "/global/imagePullSecrets/0'"),
    ("image.agent.repository", "a:b", None),
    ("image.manager.digest", "v1", None),
    ("manager.extraArgs", ["debug"], "/manager/extraArgs/0'"),
    ("imagePullSecrets", {"name": "a"}, None),
    ("agent.nodeSelector", ["a"], None),
    ("agent.podLabels", {"team": "a b"}, "/agent/podLabels/team'"),
    ("manager.podLabels", {"-": "a"}, None),
    ("commonLabels", {"-": "a"}, None),
    ("scheduler.podAnnotations", {"a": 1}, "/scheduler/podAnnotations/a'"),
    ("agent.serviceAccount.name", "Not A Name", None),
    ("agent.updateStrategy.type", "Recreate", None),
    ("manager.updateStrategy.type", "OnDelete", None),
    ("agent.dnsPolicy", "None", None),
    ("agent.podSecurityContext", {"runAsUsr": 1}, "'runAsUsr' not allowed"),
    ("manager.securityContext", {"fsGroup": 1}, "'fsGroup' not allowed"),
    ("manager.topologySpreadConstraints", [{"maxSkew": 1}], "/manager/topologySpreadConstraints/0'"),
    ("manager.extraEnv", [{"name": "A", "val": "b"}], "'val' not allowed"),
    ("agent.extraVolumes", [{"configMap": {}}], "/agent/extraVolumes/0'"),
    ("scheduler.extraVolumeMounts", [{"name": "a"}], "/scheduler/extraVolumeMounts/0'"),
    ("scheduler.extraContainers", [{"name": "a"}], "/scheduler/extraContainers/0'"),
    ("manager.metrics.port", 80, None),
    ("scheduler.affinity", {"nodes": {}}, None),
    ("manager.resources", {"limits": {"memory": "1 GB"}}, "/manager/resources/limits/memory'"),
    ("podDisruptionBudgets.minAvailable", 1, "/podDisruptionBudgets': additional properties"),
    ("networkpolicy.enabled", False, "additional properties 'networkpolicy'"),
    ("colocationConfig.midUnalocatedPercent", 1, "'midUnalocatedPercent'"),
    ("colocationConfig.degradeTimeMinutes", 0, None),
    (
        "colocationConfig.nodePredictPolicy",
        {"cpu": {"safetyMarginPercent": 101}},
        "/colocationConfig/nodePredictPolicy/cpu/safetyMarginPercent'",
    ),
    (
        "colocationConfig.nodeConfigs",
        [{"name": "a", "midPolicy": "best"}],
        "/colocationConfig/nodeConfigs/0/midPolicy'",
    ),
    ("scheduler.profile.arguments.MidResources", {"expiration": 1}, None),
    (
        "scheduler.profile.arguments.LoadAwareScheduling",
        {"usageThresholds": {"cpu": "70%"}},
        "/arguments/LoadAwareScheduling/usageThresholds/cpu'",
    ),
    (
        "scheduler.profile.arguments.LoadAwareScheduling.prodUsageThresholds",
        {"cpu": 900},
        "/arguments/LoadAwareScheduling/prodUsageThresholds/cpu'",
    ),
    (
        "scheduler.profile.arguments.CapacityScheduling",
        {"maxMissing": "some"},
        "/arguments/CapacityScheduling/maxMissing'",
    ),
    (
        "scheduler.profile.plugins",
        [{"name": "MidResources", "args": {"predictionExpirationSeconds": "1h"}}],
        "/scheduler/profile/plugins/0/args/predictionExpirationSeconds'",
    ),
)
"""Path, value, and the problem where it is not about that path."""
ANOTHER: Final = "configMap.name .* is another ConfigMap of Headroom or of the cluster: choose another name"


@pytest.fixture(scope="module")
def problems(helm: Helm) -> str:
    settings = [flag for path, value, _ in WRONG for flag in ("--set-json", f"{path}={json.dumps(value)}")]
    with pytest.raises(CommandError) as refused:
        helm("template", "headroom", str(CHART), *settings)
    return str(refused.value)


@pytest.mark.parametrize(("path", "problem"), [(path, problem) for path, _, problem in WRONG])
def test_wrong_value_is_refused(problems: str, path: str, problem: str | None) -> None:
    assert (problem or f"/{path.replace('.', '/')}'") in problems


def test_messages_state_the_rule(problems: str) -> None:
    """A message has the allowed values, range, type or pattern; `'not' failed` alone has none of them."""
    assert re.findall(r"at '(.*)': '(?:not|anyOf|oneOf|if)' failed", problems) == []


def test_nothing_else_is_refused(problems: str) -> None:
    """Each problem is about one of the wrong values, or about what contains it."""
    named = set(re.findall(r"at '([^']*)'", problems))
    wrong = [f"/{path.replace('.', '/')}" for path, _, _ in WRONG]
    assert len(named) > len(WRONG) / 2
    remaining = [
        path for path in named if not any(f"{path}/".startswith(f"{case}/") or case.startswith(path) for case in wrong)
    ]
    assert remaining == []


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        # Groups that the values of an earlier chart lack, as with --reuse-values.
        ("networkPolicy=null", "missing property 'networkPolicy'"),
        ("flowSchema=null", "missing property 'flowSchema'"),
        ("global.imageRegistrie=r.io", "global.imageRegistrie has no effect: this chart reads global.imageRegistry"),
        ("image.registry=", "No registry has Headroom's images: push them to yours .* set image.registry to it"),
        ("agnet.dataDir=/x/y", "'agnet' not allowed"),
        ("scheduler.mode=best", "'shortlist', 'weighted'"),
        ("scheduler.profile.mode=weighted", "'mode' not allowed"),
        ("scheduler.profile.requeue.patchBurst=0", "/scheduler/profile/requeue/patchBurst"),
        ("scheduler.profile.profiles[0].schedulerName=x", "properties 'kind' required, if 'profiles' exists"),
        ("scheduler.profile.kind=KubeSchedulerConfiguration", "properties 'apiVersion' required, if 'kind' exists"),
        ("agent.predictPolicy.reclaimRatio=50", "predictPolicy"),
        ("manager.webhook.certificates=letsencrypt", "'self', 'cert-manager'"),
        (
            "manager.webhook.certificates=cert-manager,manager.webhook.issuer.kind=ClusterIssuer",
            "manager.webhook.issuer: set the name of the issuer",
        ),
        ("manager.webhook.issuer.name=corp", "is for manager.webhook.certificates=cert-manager"),
        ("manager.ui.port=8080", "manager.metrics.port, manager.webhook.port and manager.ui.port must differ"),
        ("manager.hostNetwork=true", "set manager.ui.enabled=false, because every process of the node could read"),
        ("manager.serviceAccount.name=headroom-agent", 'agent and manager have the service account "headroom-agent"'),
        ("manager.ui.port=80", "/manager/ui/port"),
        ("prometheus.podMonitor=true,prometheus.serviceMonitor=true", "one of them, or everything is scraped twice"),
        (
            "agent.dataDir=data",
            'agent.dataDir "data": set an absolute path of two or more directories, such as /var/lib',
        ),
        ("agent.dataDir=/etc", 'agent.dataDir "/etc": set an absolute path of two or more directories'),
        ("agent.dataDir=/data/../etc/x", 'agent.dataDir "/data/../etc/x": set a path without . and ..'),
        ("agent.dataDir=/var/lib/headroom/.", "set a path without . and .."),
        ("configMap.name=Not A Name", "/configMap/name'"),
        ("scheduler.name=a.b", "/scheduler/name'"),
        (
            "agent.dataDir=/etc/kubernetes",
            "/etc/kubernetes. is a directory of the system, and the agent would own it: set a dir",
        ),
        (
            "agent.dataDir=/var/lib/kubelet/pods",
            "/var/lib/kubelet/pods. is a directory of the system, and the agent would own it: set a dir",
        ),
        (
            "agent.dataDir=/usr/share/headroom",
            "/usr/share/headroom. is a directory of the system, and the agent would own it: set a dir",
        ),
        (
            "agent.dataDir=/run/headroom",
            "/run/headroom. is a directory of the system, and the agent would own it: set a dir",
        ),
        (
            "agent.dataDir=/lib64/headroom",
            "/lib64/headroom. is a directory of the system, and the agent would own it: set a dir",
        ),
        # Objects that another component writes.
        ("configMap.name=headroom-scheduler", ANOTHER),
        ("configMap.name=headroom-shadow-3", ANOTHER),
        ("configMap.name=headroom-last-good-config", ANOTHER),
        ("configMap.name=headroom-dashboard-cluster", ANOTHER),
        ("configMap.name=kube-root-ca.crt", ANOTHER),
        ("scheduler.name=headroom-manager", "is the Lease of Headroom's manager in namespace headroom-system: choose"),
        ("scheduler.name=default-scheduler", "is the cluster's own scheduler: choose another name"),
    ],
)
def test_impossible_values_are_refused(helm: Helm, setting: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        render(helm, setting)


@pytest.mark.parametrize("name", removed_values())
def test_removed_value_names_its_replacement(helm: Helm, name: str) -> None:
    """A removed value is refused by a sentence, but not its empty default in a copy of an older values.yaml."""
    path, _, content = name.partition("=")
    with pytest.raises(CommandError, match=re.escape(removed_values()[name])):
        render(helm, f"{path}={content or 'x'}")
    render(helm, f"{path}=")


def test_lease_of_the_cluster_is_refused(helm: Helm) -> None:
    """In kube-system the scheduler cannot take the name, and with it the Lease, of the cluster's own."""
    flags = ("--set", f"{REGISTRY},scheduler.name=kube-scheduler", "--namespace")
    helm("template", "headroom", str(CHART), *flags, "elsewhere")
    with pytest.raises(CommandError, match="the Lease of the cluster's own component"):
        helm("template", "headroom", str(CHART), *flags, "kube-system")

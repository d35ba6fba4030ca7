"""Headroom's whole life on a real node, as a user lives it: from `helm install` to nothing left but the definitions.

The record of it, with the seconds that each step took, is in `whole-life.txt` beside the cluster's logs, and printed.
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.charts.rendered import CHART, render
from tests.e2e import rights
from tests.e2e.life import NAMESPACE, SHOP, Life, previous_chart
from tests.manager.test_rights import Right
from tools.devcluster import Cluster

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

DEFINITIONS: Final = {
    "CustomResourceDefinition/<none>/nodemetrics.slo.koordinator.sh",
    "CustomResourceDefinition/<none>/elasticquotas.scheduling.x-k8s.io",
    "CustomResourceDefinition/<none>/clustercolocationprofiles.config.koordinator.sh",
    "APIService/<none>/v1alpha1.slo.koordinator.sh",
    "APIService/<none>/v1alpha1.scheduling.x-k8s.io",
    "APIService/<none>/v1alpha1.config.koordinator.sh",
}
"""Objects that an uninstall leaves: the CRDs, and objects that the API server derives from them."""
_OTHER_STORY: Final = "tests/manager/test_rights.py covers it"
_EXTENDERS: Final = "tests/scheduler_plugins/test_rights.py covers it"
NEWER: Final = ("headroom-shadow-", "colocation-profiles", "colocationprofiles", "mutatingwebhook", "priorityclasses")
"""Parts of requests that the previous chart does not permit."""
EXCUSED: Final = {
    "headroom-agent": {
        "create events.events.k8s.io": "a policy that cannot be obeyed: no wrong one is given here",
        "patch events.events.k8s.io": "the same, when it is repeated",
    },
    "headroom-manager": {
        "get pods": f"a Mid pod is read again before it is evicted: {_OTHER_STORY}",
        "create pods/eviction": f"midEviction.mode on: {_OTHER_STORY}",
        "get nodemetrics.slo.koordinator.sh": f"what an earlier version wrote otherwise is corrected: {_OTHER_STORY}",
        "delete nodemetrics.slo.koordinator.sh": f"a node that is excluded: {_OTHER_STORY}",
        "patch events.events.k8s.io": "an event that is repeated is counted at most once a minute",
        "patch clustercolocationprofiles/status.config.koordinator.sh": f"there is no profile here: {_OTHER_STORY}",
        "patch mutatingwebhookconfigurations.admissionregistration.k8s.io": "the same",
        "list mutatingwebhookconfigurations.admissionregistration.k8s.io": "the same",
        "patch configmaps": f"no node is in shadow mode: {_OTHER_STORY}",
        "create secrets": "created by apply, which the audit log calls patch",
        "delete secrets": "needed on API servers that guard owner references (OwnerReferencesPermissionEnforcement)",
    },
    "headroom-scheduler": {
        "get pods": f"a pod and its victims are read before an eviction: {_EXTENDERS}",
        "delete pods": "reclaim.disruptionBudgets: count",
        "create pods/eviction": f"borrowed resources are given back: {_EXTENDERS}",
        "patch pods/status": f"a refused pod is tried again: {_EXTENDERS}",
        "patch elasticquotas/status.scheduling.x-k8s.io": f"there is no quota here: {_EXTENDERS}",
        "create events.events.k8s.io": f"the event of a rejected pod: {_EXTENDERS}",
        "patch events.events.k8s.io": "an event that is repeated",
        "list nodes.metrics.k8s.io": "metricProvider.type KubernetesMetricsServer",
        "list resourceclaims.resource.k8s.io": "CapacityScheduling with deviceClasses",
        "watch resourceclaims.resource.k8s.io": "the same",
        "list resourceclaimtemplates.resource.k8s.io": "the same",
        "watch resourceclaimtemplates.resource.k8s.io": "the same",
    },
    "headroom-uninstall": {
        "patch configmaps": "of another's ConfigMap the annotation goes: tests/manager/test_cleanup.py"
    },
    "headroom-doctor": {},
}
"""Rights that this life does not use, each with its reason."""


@pytest.fixture(scope="module")
def life(request: pytest.FixtureRequest, real_node_requirements: None) -> Iterator[Life]:  # noqa: ARG001 - it skips
    """A cluster that has never seen Headroom."""
    with Cluster(name=f"life-{os.getpid()}", real_node=True) as cluster:
        life = Life(cluster)
        life.prepare()
        yield life
        (cluster.logs / "whole-life.txt").write_text("\n".join(life.record) + "\n")
        if request.session.testsfailed:
            cluster.keep_logs()


def _first_numbers(life: Life) -> None:
    """Within two minutes of the install there are numbers, and an explanation why nothing could be published yet."""
    life.install()
    usage = life.until(life.report, "the first NodeMetric", seconds=120)["nodeMetric"]["nodeUsage"]["resources"]
    life.log(f"the node uses {usage}")
    said = life.headroom("explain", "node", life.node)
    cold = next(line for line in said.splitlines() if "coldStartPeriodSeconds" in line)
    life.log(f"explain: {cold.strip()}")
    assert "colocation is disabled for this node: set enable to true" in said
    assert life.mid() == {}


def _sell(life: Life) -> str:
    """Edit the ConfigMap and run a Mid pod; return the markers that they are unchanged."""
    life.start("prod.yaml", "thrifty", "busy")
    life.publish()
    life.until(life.published, "Mid resources on the Node")
    life.start("mid.yaml", "batch-report")
    tested = life.helm("test", "--timeout", "4m")  # it fails where doctor does
    assert "TEST SUITE:     headroom-doctor" in tested
    return str(life.running("batch-report"))


def _upgrade(life: Life, pod: str, previous: Path) -> None:
    """To the previous chart, from that to this one, and back and forth: the Mid pod notices nothing."""
    # The previous chart's classes preempt, and preemptionPolicy cannot be changed: docs/upgrade.md.
    life.cluster.kubectl("delete", "priorityclass", "koord-mid", "koord-batch", "koord-free")
    for words in (
        ("upgrade", str(previous), "--reset-then-reuse-values"),
        ("upgrade", str(CHART), "--reset-then-reuse-values"),
        ("rollback", "2"),
        ("rollback", "3"),
    ):
        life.helm(*words, "--wait", "--timeout", "4m")
        assert life.published()
        assert life.running("batch-report") == pod


def _refuse(life: Life, pod: str) -> None:
    """While the Mid pod runs `helm uninstall` ends with the reason, and everything goes on."""
    said = life.refused_by_helm("uninstall", "--timeout", "4m")
    assert f"{SHOP}/batch-report" in said
    assert "nothing was changed" in said
    assert life.published()
    assert life.running("batch-report") == pod
    # To keep it after all: helm takes the release for one that is being removed, until it is rolled back to itself.
    life.cluster.helm(*_printed(said, "helm rollback"), "--wait", "--timeout", "4m")
    assert life.running("batch-report") == pod


def _printed(said: str, command: str) -> list[str]:
    """The arguments of a command as a refusal prints it; helm writes the newlines of a log as two letters."""
    (line,) = set(re.findall(rf"  ({command} [^\n\\\"]*)", said))
    return shlex.split(line)[1:]


def _uninstall(life: Life) -> None:
    """The command that a refusal prints uninstalls Headroom although the Mid pod runs."""
    said = life.refused_by_helm("uninstall", "--timeout", "4m")
    life.cluster.kubectl(*_printed(said, "kubectl --namespace headroom-system annotate"))
    life.helm("uninstall", "--wait", "--timeout", "4m")
    life.cluster.kubectl("-n", SHOP, "delete", "pod", "--all", "--timeout=120s")
    life.log("the Mid pod is gone")
    life.cluster.kubectl("delete", "priorityclass", "koord-prod", "koord-mid")  # they stay while a pod names them


def test_whole_life(life: Life, tmp_path: Path) -> None:
    """Install, numbers, edit, Mid, a Mid pod, test, upgrades, rollbacks, refused, uninstalled: nothing is left."""
    before = life.objects()
    _first_numbers(life)
    pod = _sell(life)
    _upgrade(life, pod, previous_chart(tmp_path))
    _refuse(life, pod)
    _uninstall(life)
    life.until(lambda: life.objects() == before | DEFINITIONS, "nothing is left but the definitions")
    assert life.mid() == {}
    metadata = life.get("node", life.node)["metadata"]
    assert not [key for key in metadata["annotations"] if "headroom.dev" in key]
    assert not metadata.get("finalizers")


def test_rights_are_needed_and_enough(life: Life) -> None:
    """In that life no account was denied a request, and each used its granted rights, or has an excuse."""
    requested = rights.requests(life.cluster, NAMESPACE)
    assert all(requested[account] for account in rights.ACCOUNTS), "the life was not lived"
    assert set(requested) == set(rights.ACCOUNTS)
    assert set(rights.ACCOUNTS) <= set(rights.withdrawn(life.cluster))
    # Today's images under the previous chart's roles: what this chart grants them is compared below.
    refused = rights.refused(requested)
    assert [entry for entry in refused if all(newer not in entry for newer in NEWER)] == []
    granted = rights.granted(render(life.cluster.helm, "midNamespaces.admission=policy"))  # as in this cluster
    for account in rights.ACCOUNTS:
        assert granted[account], account
        assert rights.beyond(granted[account], requested[account]) == [], account
        assert rights.unused(granted[account], requested[account], EXCUSED[account]) == [], account
        keys = {rights.key(pod) for pod in granted[account]}
        assert set(EXCUSED[account]) <= keys, f"{account}: an excuse for a right that is not granted"


def test_unused_right_is_named(life: Life) -> None:
    """A right beyond the need, a request beyond the rules, and a refusal are each found: the test above can fail."""
    requested = rights.requests(life.cluster, NAMESPACE)
    extra = Right("", "apps", "deployments", "delete", ())
    assert rights.unused([extra], requested["headroom-manager"], {}) == ["delete deployments.apps"]
    assert rights.beyond([], requested["headroom-agent"])

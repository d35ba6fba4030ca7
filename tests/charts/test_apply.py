"""The chart rendered without a cluster and applied by kubectl, as GitOps tools do it, on a real API server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.charts.rendered import CHART, ROOT
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "rendered"
SETTINGS: Final = ("manager.replicas=0", "scheduler.replicas=0", "agent.nodeSelector.no=node")
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def _apply(cluster: Cluster) -> list[str]:
    sets = [flag for setting in SETTINGS for flag in ("--set", setting)]
    text = cluster.helm("template", "headroom", str(CHART), "-n", NAMESPACE, *sets)
    return cluster.kubectl("apply", "-f", "-", stdin=text).splitlines()


@pytest.fixture(scope="module")
def applied(cluster: Cluster) -> Iterator[Cluster]:
    cluster.create_namespace(NAMESPACE)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "crds"))
    _apply(cluster)
    yield cluster
    sets = [flag for setting in SETTINGS for flag in ("--set", setting)]
    text = cluster.helm("template", "headroom", str(CHART), "-n", NAMESPACE, *sets)
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=text)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_second_apply_changes_nothing(applied: Cluster) -> None:
    """What is rendered is what the API server keeps: nothing is configured again."""
    assert [line for line in _apply(applied) if not line.endswith(" unchanged")] == []


def test_apply_keeps_an_edited_config(applied: Cluster) -> None:
    """A ConfigMap that somebody has edited stays as it is."""
    data = {"colocation-config": '{"enable": true}'}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slo-controller-config"}, "data": data}
    applied.api.request("POST", MAPS, made)
    _apply(applied)
    assert applied.api.get(f"{MAPS}/slo-controller-config")["data"] == data


def test_job_of_a_rendered_chart_removes_nothing(applied: Cluster) -> None:
    """The Job that apply creates like any other object says why it does nothing, and succeeds."""
    metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": "apply-test"}}
    applied.kubectl("apply", "--server-side", "--field-manager=headroom-manager", "-f", "-", stdin=json.dumps(metric))
    args = applied.api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/headroom-uninstall")["spec"]["template"]["spec"]
    command = [sys.executable, "-m", "manager.cleanup", f"--kubeconfig={applied.kubeconfig}"]
    done = subprocess.run(
        [*command, *args["containers"][0]["args"]], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        f"Nothing was removed: Helm does not delete release headroom in namespace {NAMESPACE}.",
    )
    assert applied.kubectl("get", "nodemetric", "apply-test", "-o", "name").strip().endswith("/apply-test")
    applied.kubectl("delete", "nodemetric", "apply-test")

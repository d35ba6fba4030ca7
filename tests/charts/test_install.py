"""The chart on a real API server: its rights, and the objects it does not touch."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from crds.names import CONFIG_MAP_NAME
from kubectl_headroom import arguments
from tests.charts.rendered import CHART, REGISTRY, ROOT
from tests.support.waiting import eventually
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "chart-test"
EDITED: Final = '{"enable": true, "midUnallocatedPercent": 7}'
REPLICAS: Final = ("--set", f"{REGISTRY},manager.replicas=0,scheduler.replicas=0,agent.nodeSelector.no=node")
SETTINGS: Final = (*REPLICAS, "--set", "colocationConfig.enable=false")  # no manager creates the ConfigMap here


@pytest.fixture
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with the chart installed; no pod runs, because no replica is requested and no node is selected."""
    cluster.helm("install", "headroom", str(CHART), "-n", NAMESPACE, "--create-namespace", *SETTINGS)
    yield cluster
    if "headroom" in cluster.helm("list", "-q", "-n", NAMESPACE):
        cluster.helm("uninstall", "headroom", "-n", NAMESPACE, "--no-hooks")
    cluster.kubectl("-n", NAMESPACE, "delete", "configmap", CONFIG_MAP_NAME, "--ignore-not-found")


def config(cluster: Cluster) -> str:
    result = cluster.kubectl("-n", NAMESPACE, "get", "configmap", CONFIG_MAP_NAME, "-o", "json")
    return str(json.loads(result)["data"]["colocation-config"])


def edit(cluster: Cluster) -> None:
    patch = json.dumps({"data": {"colocation-config": EDITED}})
    cluster.kubectl("-n", NAMESPACE, "patch", "configmap", CONFIG_MAP_NAME, "--type", "merge", "-p", patch)


def test_edits_survive(installed: Cluster) -> None:
    """An edited ConfigMap survives upgrade, rollback, uninstall and install; an upgrade creates a deleted one again."""
    assert json.loads(config(installed)) == {"enable": False}
    edit(installed)
    flags = ("-n", NAMESPACE, *SETTINGS)
    notes = installed.helm("upgrade", "headroom", str(CHART), *flags, "--set", "colocationConfig.enable=false")
    assert "helm did not change ConfigMap" in notes
    assert config(installed) == EDITED
    installed.helm("rollback", "headroom", "1", "-n", NAMESPACE)
    assert config(installed) == EDITED
    installed.helm("uninstall", "headroom", "-n", NAMESPACE, "--no-hooks")
    assert config(installed) == EDITED
    installed.helm("install", "headroom", str(CHART), *flags)
    assert config(installed) == EDITED
    installed.kubectl("-n", NAMESPACE, "delete", "configmap", CONFIG_MAP_NAME)
    installed.helm("upgrade", "headroom", str(CHART), *flags)
    assert json.loads(config(installed)) == {"enable": False}


@pytest.mark.long
def test_classes_that_preempt_are_reported(installed: Cluster) -> None:
    old = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "koord-free"},
        "value": 3000,
    }
    installed.apply(old)
    flags = ("upgrade", "headroom", str(CHART), "-n", NAMESPACE, *SETTINGS)
    assert "WARNING: pods of PriorityClass koord-free preempt others" in installed.helm(*flags)
    installed.kubectl("delete", "priorityclass", "koord-free")
    assert "preempt others" not in installed.helm(*flags)


@pytest.mark.long
def test_missing_definition_is_reported(installed: Cluster) -> None:
    """An upgrade of a release from before there were quotas reports that their CRD is not there, and what to do."""
    flags = ("upgrade", "headroom", str(CHART), "-n", NAMESPACE, *SETTINGS)
    warning = "This cluster does not know ElasticQuotas yet"
    assert warning not in installed.helm(*flags)
    installed.kubectl("delete", "crd", "elasticquotas.scheduling.x-k8s.io")
    try:
        notes = ""

        def is_reported() -> bool:  # the API server lists the kinds some time after a definition is gone
            nonlocal notes
            notes = installed.helm(*flags)
            return warning in notes

        eventually(is_reported, lambda: f"{warning} in {notes}")
        assert "kubectl apply --server-side --force-conflicts -f CHART/crds" in notes
    finally:
        installed.define(CHART / "crds" / "elastic_quota.yaml")


KOORDINATOR: Final = "koordinator-system"


def notes(cluster: Cluster, namespace: str, *settings: str) -> str:
    flags = [flag for setting in (REGISTRY, *settings) for flag in ("--set", setting)]
    printed = cluster.helm("install", "headroom", str(CHART), "-n", namespace, "--dry-run=server", *flags)
    return printed.partition("NOTES:\n")[2]


def commands(text: str) -> list[str]:
    """The commands in the notes: indented lines without comments."""
    return [line.partition("#")[0].strip() for line in text.splitlines() if re.match(" {5}(kubectl|helm) ", line)]


@pytest.fixture
def koordinator(cluster: Cluster) -> Iterator[str]:
    """A namespace in which Koordinator seems to run."""
    cluster.create_namespace(KOORDINATOR)
    container = {"name": "c", "image": "none"}
    for kind, name in (("Deployment", "koord-manager"), ("DaemonSet", "koordlet"), ("Deployment", "koord-scheduler")):
        template = {
            "metadata": {"labels": {"a": name}},
            "spec": {"containers": [container], "nodeSelector": {"no": "node"}},
        }
        spec = {"selector": {"matchLabels": {"a": name}}, "template": template}
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": KOORDINATOR},
            "spec": spec,
        }
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    yield KOORDINATOR
    cluster.kubectl("-n", KOORDINATOR, "delete", "deployment,daemonset", "--all")
    cluster.kubectl("-n", KOORDINATOR, "delete", "configmap", "slo-controller-config", "--ignore-not-found")


def test_next_commands_are_named(cluster: Cluster) -> None:
    """After an install the notes name `doctor`, `top`, and how to publish; no warning."""
    text = notes(cluster, "default")
    assert commands(text) == [
        "kubectl headroom doctor -n default",
        "kubectl headroom top",
        "kubectl headroom explain node NODE -n default",
        "kubectl -n default edit configmap slo-controller-config",
    ]
    assert "it publishes nothing until you enable it (3)" in text
    assert "WARNING" not in text
    assert "koord" not in text
    assert [line[:2] for line in text.splitlines() if re.match(r"\d\.", line)] == ["1.", "2.", "3."]
    assert "`helm uninstall` fails and changes nothing. How to go on:  kubectl -n default logs job/headroom-un" in text
    assert "run the uninstall Job, or Nodes keep their Mid resources" in notes(cluster, "default", "gitops=true")


def test_commands_are_understood(cluster: Cluster) -> None:
    """Every command of ours in the notes is one that kubectl-headroom takes, with another ConfigMap's name too."""
    printed = commands(notes(cluster, "default", "configMap.name=mine"))
    ours = [shlex.split(entry)[2:] for entry in printed if entry.startswith("kubectl headroom ")]
    assert [arguments.parser().parse_args(our).command for our in ours] == ["doctor", "top", "explain"]
    assert {"--config-name", "mine"} <= set(ours[0])


def test_notes_follow_the_values(cluster: Cluster) -> None:
    """Disabled parts are not mentioned; where Mid is published already, the notes state it."""
    text = notes(cluster, "default", "scheduler.enabled=false", "colocationConfig.enable=true")
    assert "schedulerName" not in text
    assert "Mid resources are published on Nodes" in text
    assert "publishes nothing" not in text
    assert "edit configmap" not in notes(cluster, "default", "manager.enabled=false")


def test_koordinator_is_named(cluster: Cluster, koordinator: str) -> None:
    """A live koord-manager and koordlet are named with a way out; a disabled part of ours is no conflict."""
    for namespace in ("default", koordinator):
        text = notes(cluster, namespace)
        assert text.count("WARNING: koord-manager runs in namespace koordinator-system") == 1
        assert text.count("WARNING: koordlet runs in namespace koordinator-system") == 1
        assert text.count("NOTE: koord-scheduler runs in namespace koordinator-system") == 1
        assert "kubectl -n koordinator-system scale deployment koord-manager --replicas=0" in commands(text)
    text = notes(cluster, "default", "agent.enabled=false", "manager.enabled=false", "scheduler.enabled=false")
    assert "koord" not in text.replace("koordinator.sh", "")


def test_config_that_is_there_is_kept(cluster: Cluster, koordinator: str) -> None:
    """In Koordinator's namespace its ConfigMap is used unchanged, and the notes state it."""
    cluster.kubectl(
        "-n", koordinator, "create", "configmap", "slo-controller-config", "--from-literal=colocation-config={}"
    )
    text = notes(cluster, koordinator)
    assert "helm did not change ConfigMap slo-controller-config" in text
    assert "publishes nothing" not in text


RENDERED: Final = "rendered"
MAPS: Final = f"/api/v1/namespaces/{RENDERED}/configmaps"


def _template(cluster: Cluster) -> str:
    return cluster.helm("template", "headroom", str(CHART), "-n", RENDERED, *REPLICAS)


def _apply(cluster: Cluster) -> list[str]:
    """Render and apply the chart without a release, as GitOps tools do; the lines of kubectl."""
    return cluster.kubectl("apply", "-f", "-", stdin=_template(cluster)).splitlines()


@pytest.fixture(scope="module")
def applied(cluster: Cluster) -> Iterator[Cluster]:
    cluster.create_namespace(RENDERED)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "crds"))
    _apply(cluster)
    yield cluster
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=_template(cluster))
    cluster.kubectl("delete", "namespace", RENDERED, "--wait=false")


def test_second_apply_changes_nothing(applied: Cluster) -> None:
    """The API server keeps the rendered objects: a second apply changes nothing."""
    assert [line for line in _apply(applied) if not line.endswith(" unchanged")] == []


def test_apply_keeps_an_edited_config(applied: Cluster) -> None:
    data = {"colocation-config": '{"enable": true}'}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slo-controller-config"}, "data": data}
    applied.api.request("POST", MAPS, made)
    _apply(applied)
    assert applied.api.get(f"{MAPS}/slo-controller-config")["data"] == data


def test_job_of_a_rendered_chart_removes_nothing(applied: Cluster) -> None:
    """The Job that apply creates like any other object says why it does nothing, and succeeds."""
    metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": "apply-test"}}
    applied.kubectl("apply", "--server-side", "--field-manager=headroom-manager", "-f", "-", stdin=json.dumps(metric))
    args = applied.api.get(f"/apis/batch/v1/namespaces/{RENDERED}/jobs/headroom-uninstall")["spec"]["template"]["spec"]
    command = [sys.executable, "-m", "manager.cleanup", f"--kubeconfig={applied.kubeconfig}"]
    done = subprocess.run(
        [*command, *args["containers"][0]["args"]], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        f"Nothing was removed: Helm does not delete release headroom in namespace {RENDERED}.",
    )
    assert applied.kubectl("get", "nodemetric", "apply-test", "-o", "name").strip().endswith("/apply-test")
    applied.kubectl("delete", "nodemetric", "apply-test")

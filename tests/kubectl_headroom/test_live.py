import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.audited import audited
from tests.kubectl_headroom.recording import named, recorded
from tests.scheduler_plugins.extenders import Json, profile, until
from tests.scheduler_plugins.stage import Stage, Usage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

ROOT: Final = Path(__file__).parents[2]
NAMESPACE: Final = f"cli-test-{os.getpid()}"
NODE: Final = f"cli-web-{os.getpid()}"


def run(cluster: Cluster, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kubectl_headroom", *arguments],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def create(cluster: Cluster, obj: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(obj))
    cluster.kubectl("create", "-f", str(path))
    if "status" in obj:
        patch = json.dumps({"status": obj["status"]})
        where = ["-n", obj["metadata"]["namespace"]] if "namespace" in obj["metadata"] else []
        kind, name = obj["kind"].lower(), obj["metadata"]["name"]
        cluster.kubectl("patch", kind, name, *where, "--subresource=status", "--type=merge", "-p", patch)


def now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(scope="module")
def live(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a recorded node under another name, reported just now, its pods and a colocation config."""
    path = tmp_path_factory.mktemp("objects") / "object.json"
    cluster.define(ROOT / "crds/node_metric.yaml")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", "norights")
    node, metric, config = named("nodes", "web-1"), named("nodeMetrics", "web-1"), recorded("configMap")
    node["metadata"]["name"] = metric["metadata"]["name"] = NODE
    metric["status"]["updateTime"] = metric["status"]["prediction"]["time"] = now()
    config["metadata"] = {"name": "slo-controller-config", "namespace": NAMESPACE}
    create(cluster, config, path)
    create(cluster, node, path)
    create(cluster, metric, path)
    for pod in recorded("pods"):
        if pod["spec"].get("nodeName") == "web-1":
            pod["metadata"] = {"name": pod["metadata"]["name"], "namespace": NAMESPACE}
            pod["spec"] |= {"nodeName": NODE, "serviceAccountName": "norights", "automountServiceAccountToken": False}
            for derived in ("priority", "priorityClassName"):
                pod["spec"].pop(derived, None)
            create(cluster, pod, path)
    yield cluster
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    cluster.kubectl("delete", "node", NODE)
    cluster.kubectl("delete", "nodemetric", NODE, "--ignore-not-found")


def test_top_nodes(live: Cluster) -> None:
    done = run(live, "top")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(NODE)]
    shown = " ".join(line.split()[1:11])
    assert shown == "6000m 40% 20Gi 33% 5900m/19Gi 4000m/3Gi 6500m/20Gi 3000m/4Gi 0m/0 ready"


def test_what_if(live: Cluster, tmp_path: Path) -> None:
    """`--set` and `--config` answer what would be, from live objects, and change nothing in the cluster."""
    config = tmp_path / "new.yaml"
    text = '{"enable": true, "midUnallocatedPercent": 100}'
    config.write_text(json.dumps({"kind": "ConfigMap", "data": {"colocation-config": text}}))
    flags = ["--config", str(config), "--set", "midUnallocatedPercent=20", "-o", "yaml"]
    done = run(live, "explain", "node", NODE, "-n", NAMESPACE, *flags)
    assert done.returncode == 0, done.stderr
    data = yaml.safe_load(done.stdout)
    assert data["calculated"]["cpuMilli"] == 5200
    assert data["whatIf"]["now"]["calculated"]["cpuMilli"] == 7000
    assert data["strategySources"]["midUnallocatedPercent"] == "--set"
    # The objects themselves change anyhow: controllers note that this node has no kubelet.
    until(lambda: _verbs(live), "its requests in the audit log")
    assert _verbs(live) <= {"get", "list"}


def _verbs(cluster: Cluster) -> set[str]:
    """Requests of our commands for the node, or for objects with its name."""
    return {entry["verb"] for entry in audited(cluster, '"kubectl-headroom"', NODE)}


def test_workload(live: Cluster, tmp_path: Path) -> None:
    """A Deployment's pods that wait are explained, and a pod of its template is simulated."""
    labels = {"app": "web"}
    container = {"name": "main", "image": "example.com/web"}
    spec = {"nodeSelector": {"none": "such"}, "containers": [container], "automountServiceAccountToken": False}
    template = {"metadata": {"labels": labels}, "spec": {**spec, "serviceAccountName": "norights"}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    create(live, web, tmp_path / "web.json")

    def pods() -> list[str]:
        return live.kubectl("-n", NAMESPACE, "get", "pods", "-l", "app=web", "-o", "name").split()

    until(lambda: len(pods()) == 2, "the pods of the Deployment")
    done = run(live, "explain", "deploy/web", "-n", NAMESPACE)
    assert done.stdout.startswith(f"Deployment {NAMESPACE}/web: 2 of 2 pods wait for a node.\n"), done.stderr
    assert run(live, "explain", "deploy", "web", "-n", NAMESPACE, "-o", "name").stdout.split() == sorted(pods())
    simulated = run(live, "simulate", "deployment.apps/web", "-n", NAMESPACE, "-o", "jsonpath={.pods[*].pod}")
    assert simulated.stdout == f"Deployment {NAMESPACE}/web", simulated.stderr


def test_impersonation(live: Cluster) -> None:
    """--as is evaluated as that user: one without rights sees nothing, one in a group with all rights does."""
    refused = run(live, "top", "--as", "jane")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "This login may not list" in refused.stderr
    allowed = run(live, "top", "--node", NODE, "--as", "jane", "--as-group", "system:masters", "-o", "json")
    assert allowed.returncode == 0, allowed.stderr


def test_watching(live: Cluster) -> None:
    """--watch repeats: a change of the cluster is in a later output, and Ctrl-C ends it with 130."""
    environment = {**os.environ, "KUBECONFIG": str(live.kubeconfig), "PYTHONUNBUFFERED": "1"}
    # Background processes of a script and their children ignore Ctrl-C.
    listening = ["env", "--default-signal=INT", sys.executable, "-m", "kubectl_headroom"]
    command = [*listening, "top", "--node", NODE, "--watch", "--interval", "1s", "-o", "json"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        for wanted in ("20Gi", "21Gi"):
            usage = {"nodeUsage": {"resources": {"cpu": "6000m", "memory": wanted}}}
            patch = json.dumps({"status": {"nodeMetric": usage}})
            live.kubectl("patch", "nodemetric", NODE, "--subresource=status", "--type=merge", "-p", patch)
            expected = f'"memoryBytes": {int(wanted[:2]) * 2**30}'
            for line in watch.stdout:
                if expected in line:
                    break
            else:
                pytest.fail("it ended by itself")
        watch.send_signal(signal.SIGINT)
        watch.stdout.read()
        assert watch.wait(timeout=120) == 130
    patch = json.dumps({"status": {"nodeMetric": {"nodeUsage": {"resources": {"memory": "20Gi"}}}}})
    live.kubectl("patch", "nodemetric", NODE, "--subresource=status", "--type=merge", "-p", patch)


TEAM: Final = f"quota-cli-{os.getpid()}"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Two nodes, an extender with its kube-scheduler, and a quota to which one pod is charged."""
    with Stage.open(cluster, TEAM, 2) as stage:
        extender = stage.add(TEAM, profile())
        stage.wait()
        quota = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "team"},
            "spec": {"min": {"cpu": 4, "memory": "8Gi"}, "max": {"cpu": 6}},
        }
        stage.cluster.api.request("POST", f"{QUOTAS}/namespaces/{TEAM}/elasticquotas", quota)
        until(lambda: extender.bounds(TEAM, "cpu") == (4, 6), "the quota being in force")
        stage.report(dict.fromkeys(stage.nodes, Usage()))
        stage.place(stage.pod("first", TEAM))
        yield stage


def _quota(cluster: Cluster, *words: str) -> tuple[int, Any, str]:
    """The exit code, the command's JSON, and its error."""
    done = run(cluster, "quota", *words, "-o", "json")
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def _status(stage: Stage) -> Json:
    result: Json = stage.cluster.api.get(f"{QUOTAS}/namespaces/{TEAM}/elasticquotas/team").get("status") or {}
    return result


def test_commands_agree_with_the_extender(stage: Stage) -> None:
    """The table has the pods' sums, the refusal is that of the pod's event, and the written status is verified."""
    cluster, (extender,) = stage.cluster, stage.extenders
    stage.place(stage.pod("second", TEAM, cpu="2"))
    stage.create(stage.pod("third", TEAM, cpu="4"))
    code, report, _ = _quota(cluster, "-n", TEAM)
    (team,) = report["items"]
    cpu = {resource["resource"]: resource for resource in team["resources"]}["cpu"]
    numbers = {"min": "4", "used": "3", "max": "6", "borrowed": "0", "lent": "0", "pending": "4", "left": "1"}
    assert (code, cpu) == (0, {"resource": "cpu", **numbers})

    until(lambda: stage.failures("third"), "the pod being refused")
    done = run(cluster, "explain", "pod", "third", "-n", TEAM, "-o", "json")
    explanation = json.loads(done.stdout)["quota"]
    assert explanation["refusal"] in stage.failures("third")
    assert {entry["resource"]: entry["exceeded"] for entry in explanation["admission"]}["cpu"] == "max"
    assert explanation["nodes"]["fits"] == sorted(stage.nodes)

    until(lambda: _status(stage).get("used", {}).get("cpu") == "3", "the status being written")
    assert _quota(cluster, "verify")[0] == 0
    # Without the extender, kube-scheduler binds the pod that quota rejects.
    cluster.api.request("DELETE", f"/api/v1/namespaces/{TEAM}/pods/third?gracePeriodSeconds=0")
    extender.process.stop()
    status = {"used": {"cpu": "1", "memory": _status(stage)["used"]["memory"]}}
    cluster.api.merge(f"{QUOTAS}/namespaces/{TEAM}/elasticquotas/team/status", {"status": status})
    code, verified, _ = _quota(cluster, "verify")
    assert code == 1
    assert [finding["text"] for finding in verified["findings"]] == [
        "status.used has cpu 1, but the pods of the namespace sum to 3"
    ]

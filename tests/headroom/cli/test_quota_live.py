"""`kubectl headroom quota` beside a running extender."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.scheduler_plugins.extenders import ROOT, Json, profile, until
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = f"quota-cli-{os.getpid()}"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Two nodes, an extender with its kube-scheduler, and a quota to which one pod is charged."""
    with Stage.open(cluster, NAME, 2) as stage:
        extender = stage.add(NAME, profile())
        stage.wait()
        _make_quota(stage, NAME, 4, 6)
        until(lambda: extender.bounds(NAME, "cpu") == (4, 6), "the quota being in force")
        stage.settle()
        stage.place(stage.pod("first", NAME))
        yield stage


def _run(cluster: Cluster, *words: str) -> tuple[int, Any, str]:
    """The exit code, what the command says as JSON, and what it complains of."""
    done = subprocess.run(
        [sys.executable, "-m", "headroom.cli", "quota", *words, "-o", "json"],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def _make_quota(stage: Stage, namespace: str, cores: int, most: int) -> None:
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "team"}}
    spec = {"min": {"cpu": cores, "memory": "8Gi"}, "max": {"cpu": most}}
    stage.cluster.api.request("POST", f"{QUOTAS}/namespaces/{namespace}/elasticquotas", {**kind, "spec": spec})


def _status(stage: Stage) -> Json:
    found: Json = stage.cluster.api.get(f"{QUOTAS}/namespaces/{NAME}/elasticquotas/team").get("status") or {}
    return found


def test_commands_say_what_extender_does(stage: Stage) -> None:
    """The table is what pods come to, the refusal is that of the pod's event, and the written status is verified."""
    cluster, (extender,) = stage.cluster, stage.extenders
    stage.place(stage.pod("second", NAME, cpu="2"))
    stage.create(stage.pod("third", NAME, cpu="4"))
    code, report, _ = _run(cluster, "-n", NAME)
    (team,) = report["quotas"]
    cpu = {each["resource"]: each for each in team["resources"]}["cpu"]
    numbers = {"min": "4", "used": "3", "max": "6", "borrowed": "0", "lent": "0", "pending": "4"}
    assert (code, cpu) == (0, {"resource": "cpu", **numbers})

    until(lambda: stage.failures("third"), "the pod being refused")
    code, explanation, _ = _run(cluster, "explain", "third", "-n", NAME)
    assert code == 0
    assert explanation["refusal"] in stage.failures("third")
    assert {each["resource"]: each["exceeded"] for each in explanation["admission"]}["cpu"] == "max"
    assert explanation["nodes"]["fits"] == sorted(stage.nodes)

    until(lambda: _status(stage).get("used", {}).get("cpu") == "3", "the status being written")
    assert _run(cluster, "verify")[0] == 0
    extender.process.stop()
    status = {"used": {"cpu": "1", "memory": _status(stage)["used"]["memory"]}}
    cluster.api.merge(f"{QUOTAS}/namespaces/{NAME}/elasticquotas/team/status", {"status": status})
    code, verified, _ = _run(cluster, "verify")
    assert code == 1
    assert [each["text"] for each in verified["findings"]] == [
        "status.used says cpu 1, and the pods of the namespace come to 3"
    ]

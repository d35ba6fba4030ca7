"""`kubectl headroom quota` beside a running extender, on a cluster that does not know quotas at first."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.scheduler_plugins.extenders import ROOT, Extender, Json, profile, until
from tests.scheduler_plugins.stage import Stage, Usage
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

pytestmark = pytest.mark.cluster

NAME: Final = f"quota-cli-{os.getpid()}"
CRD: Final = ROOT / "crds" / "elastic_quota.yaml"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Two nodes, and no definition of quotas; it is there again at the end, for the tests that follow."""
    with Stage.open(cluster, NAME, 2) as stage:
        cluster.api.request("DELETE", f"{CRDS}/elasticquotas.scheduling.x-k8s.io")
        until(lambda: _is_unknown(cluster), "quotas being unknown")
        try:
            yield stage
        finally:
            cluster.define(CRD)


def _is_unknown(cluster: Cluster) -> bool:
    try:
        return not cluster.api.exists(f"{QUOTAS}/elasticquotas")
    except ApiError:  # while a definition goes, there are other answers than that
        return False


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


def _refusals(extender: Extender, pod: Json, *nodes: str) -> Any:  # noqa: ANN401 - parsed JSON
    return json.loads(extender.ask("/filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}))


def test_unknown_quotas_are_none(stage: Stage) -> None:
    """A cluster without the definition is served as one without quotas; as soon as it is there, quotas count."""
    extender = stage.add(NAME, profile())
    stage.wait()
    assert (
        "[i]ElasticQuotas defined: the cluster does not know ElasticQuotas" in extender.ask("/healthz?verbose").decode()
    )
    code, said, complaint = _run(stage.cluster)
    assert (code, said) == (1, None)
    assert "This cluster does not know ElasticQuotas" in complaint
    stage.report(dict.fromkeys(stage.nodes, Usage()))
    stage.place(stage.pod("first", NAME))

    stage.cluster.define(CRD)
    _make_quota(stage, NAME, 4, 6)
    asked = {**stage.pod("probe", NAME, cpu="6"), "metadata": {"namespace": NAME, "name": "probe", "uid": "probe"}}
    # Its first pod was there before the quota, and counts.
    until(lambda: _refusals(extender, asked, *stage.nodes)["FailedAndUnresolvableNodes"], "the quota being in force")
    assert "[i]ElasticQuotas defined: ok" in extender.ask("/healthz?verbose").decode()


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

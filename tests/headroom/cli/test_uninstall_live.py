"""Uninstalling after a real manager has worked against a real API server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crds.names import ANNOTATION_CONFIG_STATE
from tests.manager.stage import METRICS, ROOT, Manager, Stage, eventually, prepared
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE = "uninstall-test"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/headroom-manager"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A namespace with the manager's rights."""
    with prepared(cluster, NAMESPACE) as stage:
        yield stage


def uninstall(stage: Stage, *flags: str) -> tuple[int, dict[str, Any], str]:
    """Run the command; its exit code, what it lists, and what it complains about."""
    command = [sys.executable, "-m", "headroom.cli", "uninstall", "-n", NAMESPACE, "-o", "json", *flags]
    environment = {**os.environ, "KUBECONFIG": str(stage.cluster.kubeconfig)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def changes(listed: dict[str, Any]) -> set[tuple[str, str]]:
    """Kind and name of what is changed among our objects; tests before us may have left others in the cluster."""
    found = {(each["kind"], each["name"]) for each in listed["changes"]}
    return {each for each in found if "uninstall" in each[1]}


def annotations(stage: Stage) -> dict[str, Any]:
    """Annotations of the user's ConfigMap."""
    found: dict[str, Any] = stage.found(f"{CONFIG_MAPS}/slo-controller-config")["metadata"].get("annotations", {})
    return found


def deployment() -> dict[str, Any]:
    """A manager's Deployment whose pods no node takes."""
    labels = {"app.kubernetes.io/name": "headroom-manager"}
    container = {"name": "manager", "image": "none"}
    pods = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {"no": "node"}, "containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "headroom-manager", "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pods},
    }


def mid_pod() -> dict[str, Any]:
    """A Mid pod on our busy node."""
    amounts = {"kubernetes.io/mid-cpu": "1500", "kubernetes.io/mid-memory": "1Gi"}
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "mid",
            "namespace": NAMESPACE,
            "labels": {"koordinator.sh/priority-class": "koord-mid"},
        },
        "spec": {"nodeName": "uninstall-busy", "automountServiceAccountToken": False, "containers": [container]},
    }


def test_uninstall(stage: Stage, tmp_path: Path) -> None:
    """A manager at work is refused, or stopped by its Deployment; then its writes go, but for what Mid pods bought."""
    manager = Manager(stage.login(tmp_path / "kubeconfig"), tmp_path / "manager.log", NAMESPACE)
    stage.configure(stage.config)
    manager.start()
    try:
        for name in ("uninstall-idle", "uninstall-busy"):
            stage.add_node(name)
            stage.report(name, "4")
            stage.expect_cpu(name, "4k")
        stage.cluster.kubectl("create", "-f", "-", stdin=json.dumps(mid_pod()))
        stage.admit("mid")
        code, refused, said = uninstall(stage)
        assert (code, refused["refused"], refused["changes"]) == (1, True, []), said
        eventually(lambda: bool(stage.found(f"{CONFIG_MAPS}/headroom-last-good-config")), "the config is kept")
        eventually(lambda: ANNOTATION_CONFIG_STATE in annotations(stage), "the config's state is written")
        code, _, said = uninstall(stage, "--stop-selling")
        assert code == 1
        assert "A manager is at work that no Deployment uninstall-test/headroom-manager runs" in said
        assert stage.offers("uninstall-idle")
    finally:
        assert manager.stop() == 0
    stage.cluster.apply(deployment())
    code, planned, said = uninstall(stage, "--dry-run", "--stop-selling")
    assert code == 1, said
    assert stage.offers("uninstall-idle")
    code, done, said = uninstall(stage, "--stop-selling")
    assert code == 1, said
    assert changes(planned) == changes(done)
    assert changes(done) >= {
        ("Deployment", f"{NAMESPACE}/headroom-manager"),
        ("Node", "uninstall-idle"),
        ("Node", "uninstall-busy"),
        ("NodeMetric", "uninstall-idle"),
        ("NodeMetric", "uninstall-busy"),
        ("ConfigMap", f"{NAMESPACE}/headroom-last-good-config"),
        ("Lease", f"{NAMESPACE}/headroom-manager"),
    }
    assert all(each["done"] for each in done["changes"])
    assert done["nodesWithMidPods"] == [
        {"node": "uninstall-busy", "pods": [f"{NAMESPACE}/mid"], "kept": {"cpuMilli": 1500, "memoryBytes": 2**30}}
    ]
    assert stage.offers("uninstall-idle") == {}
    assert stage.offers("uninstall-busy") == {
        "kubernetes.io/mid-cpu": "1500",
        "kubernetes.io/mid-memory": "1073741824",
    }
    assert stage.found(f"{DEPLOYMENT}/headroom-manager")["spec"]["replicas"] == 0
    assert not stage.found(LEASE)
    assert not stage.found(f"{METRICS}/uninstall-idle")
    config = stage.found(f"{CONFIG_MAPS}/slo-controller-config")
    assert json.loads(config["data"]["colocation-config"]) == stage.config
    assert ANNOTATION_CONFIG_STATE not in annotations(stage)
    stage.cluster.kubectl("delete", "pod", "mid", "-n", NAMESPACE, "--force", "--grace-period=0")
    code, done, said = uninstall(stage)
    assert code == 0, said
    assert changes(done) == {("Node", "uninstall-busy")}
    assert stage.offers("uninstall-busy") == {}
    assert uninstall(stage)[1]["changes"] == []

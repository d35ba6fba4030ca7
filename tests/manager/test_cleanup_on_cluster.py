"""Removing what a real manager has written to a real API server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crds.names import ANNOTATION_CONFIG_STATE
from tests.manager.stage import METRICS, ROOT, Manager, Stage, prepared
from tests.support.waiting import eventually
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


def clean(stage: Stage, *flags: str) -> tuple[int, str]:
    """Run it; its exit code, and what it prints."""
    login = (f"--kubeconfig={stage.cluster.kubeconfig}", f"--namespace={NAMESPACE}")
    command = [sys.executable, "-m", "manager.cleanup", *login, *flags]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout + done.stderr


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


def test_cleanup(stage: Stage, tmp_path: Path) -> None:
    """It refuses while Mid pods run, or under a manager that no Deployment runs; then everything written goes."""
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
        code, said = clean(stage, "--without-helm")
        assert code == 1, said
        assert f"{NAMESPACE}/mid on Node uninstall-busy" in said
        eventually(lambda: bool(stage.found(f"{CONFIG_MAPS}/headroom-last-good-config")), "the config is kept")
        eventually(lambda: ANNOTATION_CONFIG_STATE in annotations(stage), "the config's state is written")
        code, said = clean(stage, "--without-helm", "--force")
        assert code == 1
        assert f"a replica runs that Deployment {NAMESPACE}/headroom-manager does not control" in said
        assert stage.published("uninstall-idle")
    finally:
        assert manager.stop() == 0
    stage.cluster.apply(deployment())
    stage.cluster.kubectl("delete", "pod", "mid", "-n", NAMESPACE, "--force", "--grace-period=0")
    code, said = clean(stage, "--without-helm")
    assert code == 0, said
    for name in ("uninstall-idle", "uninstall-busy"):
        assert stage.published(name) == {}
        assert not stage.found(f"{METRICS}/{name}")
    assert stage.found(f"{DEPLOYMENT}/headroom-manager")["spec"]["replicas"] == 0
    assert not stage.found(LEASE)
    assert not stage.found(f"{CONFIG_MAPS}/headroom-last-good-config")
    config = stage.found(f"{CONFIG_MAPS}/slo-controller-config")
    assert json.loads(config["data"]["colocation-config"]) == stage.config
    assert ANNOTATION_CONFIG_STATE not in annotations(stage)
    assert clean(stage, "--without-helm") == (0, "")

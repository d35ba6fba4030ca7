"""Whole clusters without a real node: they start, survive restarts and neighbours, and clean up."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.audited import audited
from tools.devcluster import Cluster, CommandError, DevClusterError
from tools.devcluster.families import of_kubernetes
from tools.devcluster.process import Supervisor

pytestmark = pytest.mark.cluster

SECONDS = 120.0
POD = {"image": "localhost/pause:dev", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub("[^a-z0-9]+", "-", request.node.name)[:40].strip("-")
    cluster.create_namespace(name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="hr") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_security_is_on(cluster: Cluster, namespace: str) -> None:
    """RBAC refuses a new service account, the admission of service accounts adds a token, requests are audited."""
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "norights", "namespace": namespace}}
    )
    with pytest.raises(CommandError, match=r"cannot list resource \"nodes\""):
        cluster.kubectl("get", "nodes", "--as", f"system:serviceaccount:{namespace}:norights")
    spec = {"serviceAccountName": "norights", "containers": [{"name": "app", **POD}]}
    metadata = {"name": "app", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod = json.loads(cluster.kubectl("get", "pod", "app", "-n", namespace, "-o", "json"))
    assert next(volume["name"] for volume in pod["spec"]["volumes"]).startswith("kube-api-access")
    entries = audited(cluster)
    assert any(
        entry["user"]["username"].endswith(f"{namespace}:norights") or entry["verb"] == "list" for entry in entries
    )


def test_pods_run_on_kwok_nodes(cluster: Cluster, namespace: str) -> None:
    """A Deployment becomes ready on kwok nodes through the stock scheduler."""
    cluster.kubectl("create", "deployment", "web", "-n", namespace, "--image=localhost/pause:dev", "--replicas=3")
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=120s")
    assert cluster.helm("list", "-A", "-o", "json").strip() == "[]"


def test_failed_start_keeps_logs(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a program does not start, the error has the end of its log, and all logs are kept and named."""
    said: list[str] = []
    start = Supervisor.start

    def break_etcd(self: Supervisor, name: str, argv: list[str], **settings: object) -> object:
        return start(self, name, [*argv, "--data-dir=/proc/none"] if name == "etcd" else argv, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Supervisor, "start", break_etcd)
    cluster = Cluster(name="broken", say=said.append)
    monkeypatch.setattr("tools.devcluster.cluster.cache_directory", lambda: tmp_path)
    with pytest.raises(DevClusterError, match=r"etcd ended with(?s:.)*/proc/none"):
        cluster.start()
    log = Path(said[-1].rpartition(" ")[2])
    assert "/proc/none" in (log / "etcd.log").read_text()
    assert list((runtime / "headroom").iterdir()) == []


def _devcluster(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.devcluster", *words], capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.long
def test_command_line_runs_clusters(runtime: Path) -> None:
    """`up --detach`, `status`, `kubeconfig`, `node` and `down` work, and errors are one line."""
    up = _devcluster("up", "cli", "--kwok-nodes", "1", "--detach")
    kubeconfig = runtime / "kubectl_headroom/kubeconfig"
    assert up.stdout.splitlines()[-1] == f"export KUBECONFIG={kubeconfig}", up.stderr
    status = _devcluster("status").stdout.splitlines()[1].split()
    assert (status[:2], status[3:]) == (["cli", "ready"], [of_kubernetes().minor, "-", "1", str(kubeconfig)])
    assert _devcluster("kubeconfig", "cli").stdout.strip() == str(kubeconfig)
    node = _devcluster("node", "cli")
    assert (node.returncode, node.stderr) == (
        1,
        "error: cluster 'cli' has no real node: start one with `up --real-node`\n",
    )
    again = _devcluster("up", "cli")
    assert again.returncode == 1
    assert again.stderr.startswith("error: a cluster named 'cli' runs")
    assert _devcluster("down", "cli").returncode == 0
    assert _devcluster("down", "cli").stderr == "error: there is no cluster 'cli'; none runs\n"
    assert list((runtime / "headroom").iterdir()) == []

"""The commands against a real API server, each as a process of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devcluster import Cluster
from tests.cli.recording import named, recorded

pytestmark = pytest.mark.cluster

ROOT: Final = Path(__file__).parents[2]
NAMESPACE: Final = f"cli-test-{os.getpid()}"
NODE: Final = f"cli-web-{os.getpid()}"


def run(cluster: Cluster, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `kubectl headroom` with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def create(cluster: Cluster, obj: dict[str, Any], path: Path) -> None:
    """Create an object, then its status."""
    path.write_text(json.dumps(obj))
    cluster.kubectl("create", "-f", str(path))
    if "status" in obj:
        patch = json.dumps({"status": obj["status"]})
        where = ["-n", obj["metadata"]["namespace"]] if "namespace" in obj["metadata"] else []
        kind, name = obj["kind"].lower(), obj["metadata"]["name"]
        cluster.kubectl("patch", kind, name, *where, "--subresource=status", "--type=merge", "-p", patch)


def now() -> str:
    """The present as the API writes it."""
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(scope="module")
def live(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a recorded node under another name, reported just now, its pods and a colocation config."""
    path = tmp_path_factory.mktemp("objects") / "object.json"
    cluster.define(ROOT / "crds/node_metric.yaml")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", "nobody")
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
            pod["spec"] |= {"nodeName": NODE, "serviceAccountName": "nobody", "automountServiceAccountToken": False}
            for derived in ("priority", "priorityClassName"):
                pod["spec"].pop(derived, None)
            create(cluster, pod, path)
    yield cluster
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    cluster.kubectl("delete", "node", NODE)
    cluster.kubectl("delete", "nodemetric", NODE, "--ignore-not-found")


def test_top_nodes(live: Cluster) -> None:
    """`top` shows what a node uses and what of the rest is sold, from live objects."""
    done = run(live, "top")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(NODE)]
    shown = " ".join(line.split()[1:10])
    assert shown == "6000m 40% 20Gi 33% 5900m/19Gi 4000m/3Gi 6500m/20Gi 3000m/4Gi ready"


def test_top_one_node(live: Cluster) -> None:
    """`top --node` shows that node alone."""
    rows = json.loads(run(live, "top", "--node", NODE, "-o", "json").stdout)
    assert [row["node"] for row in rows] == [NODE]
    assert rows[0]["midRequested"] == {"cpuMilli": 3000, "memoryBytes": 4 * 2**30}


def test_top_pods(live: Cluster) -> None:
    """`top pods -n` shows the namespace's running pods; one that ended is not there."""
    done = run(live, "top", "pods", "-n", NAMESPACE)
    assert done.returncode == 0, done.stderr
    bands = {line.split()[1]: line.split()[3] for line in done.stdout.splitlines()[1:]}
    assert bands == {"cart": "prod", "search": "prod", "nightly-report": "mid"}


def test_explain_node(live: Cluster) -> None:
    """`explain node` calculates from live objects, with the strategy's sources."""
    done = run(live, "explain", "node", NODE, "-n", NAMESPACE)
    assert done.returncode == 0, done.stderr
    assert "min(Reclaimable 4000m + unallocated 6000m * midUnallocatedPercent 50%" in done.stdout
    assert f"by {NAMESPACE}/nightly-report" in done.stdout
    assert "nodeConfigs[0] web" in done.stdout


def test_what_if(live: Cluster, tmp_path: Path) -> None:
    """`--set` and `--config` answer what would be, from live objects, and change nothing in the cluster."""
    before = live.kubectl("get", "nodes,nodemetrics", NODE, "-o", "jsonpath={.items[*].metadata.resourceVersion}")
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
    after = live.kubectl("get", "nodes,nodemetrics", NODE, "-o", "jsonpath={.items[*].metadata.resourceVersion}")
    assert after == before


def test_wrong_setting_is_named(live: Cluster) -> None:
    """A setting that does not exist ends with 2 and the name that was probably meant, in one line."""
    done = run(live, "explain", "node", NODE, "--set", "midUnallocatedPercnt=20")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean midUnallocatedPercent?" in done.stderr
    assert done.stderr.count("\n") == 1


def test_explain_without_config(live: Cluster) -> None:
    """Where there is no ConfigMap the defaults hold, and the text says so."""
    done = run(live, "explain", "node", NODE, "-n", "default")
    assert done.returncode == 0, done.stderr
    assert "ConfigMap default/slo-controller-config does not exist: the defaults hold" in done.stdout


def test_unknown_node_suggests(live: Cluster) -> None:
    """A node that does not exist ends with 1 and names those that are close."""
    done = run(live, "explain", "node", NODE.replace("web", "wbe"), "-n", NAMESPACE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"kubectl headroom: There is no node {NODE.replace('web', 'wbe')!r}. Did you mean {NODE}"
    )
    assert done.stderr.count("\n") == 1


def test_empty_namespace_is_an_error(live: Cluster) -> None:
    """A namespace without running pods ends with 1 and one line."""
    done = run(live, "top", "pods", "-n", "nowhere")
    assert (done.returncode, done.stderr) == (1, "kubectl headroom: No pod runs in namespace nowhere.\n")


def test_forbidden_is_one_line(live: Cluster, tmp_path: Path) -> None:
    """Without permission the command says what is missing, in one line."""
    token = live.kubectl("-n", NAMESPACE, "create", "token", "nobody").strip()
    view = json.loads(live.kubectl("config", "view", "--raw", "-o", "json"))
    view["users"] = [{"name": view["contexts"][0]["context"]["user"], "user": {"token": token}}]
    (tmp_path / "kubeconfig").write_text(json.dumps(view))
    done = run(live, "top", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "forbidden" in done.stderr


def test_reader_that_leaves(live: Cluster) -> None:
    """A reader such as `head` that leaves early causes no traceback."""
    command = f"{sys.executable} -m cli explain node {NODE} -n {NAMESPACE} | true"
    environment = {**os.environ, "KUBECONFIG": str(live.kubeconfig)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""

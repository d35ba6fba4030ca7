"""Whole clusters without a real node: they start, bear restarts and neighbours, and leave nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.audited import audited
from tools.devcluster import Cluster, CommandError, DevClusterError, NodeTemplate, state
from tools.devcluster.process import Supervisor, wait_until

pytestmark = pytest.mark.cluster

SECONDS = 120.0
POD = {"image": "localhost/pause:dev", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name)[:40].strip("-")
    cluster.create_namespace(name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of the test's own."""
    with TemporaryDirectory(prefix="hr") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def test_version_is_right(cluster: Cluster) -> None:
    """The API server says the version that go.mod pins, and so does the binary."""
    version = cluster.api.get("/version")
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.36.2", "1", "36")
    assert cluster.binaries.kubernetes_version == "v1.36.2"
    program = subprocess.run(
        [cluster.binaries.path("kube-apiserver"), "--version"], capture_output=True, text=True, check=True
    )
    assert program.stdout == "Kubernetes v1.36.2\n"


def test_security_is_on(cluster: Cluster, namespace: str) -> None:
    """RBAC refuses a new service account, the admission of service accounts adds a token, requests are audited."""
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": namespace}}
    )
    with pytest.raises(CommandError, match=r"cannot list resource \"nodes\""):
        cluster.kubectl("get", "nodes", "--as", f"system:serviceaccount:{namespace}:nobody")
    spec = {"serviceAccountName": "nobody", "containers": [{"name": "app", **POD}]}
    metadata = {"name": "app", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod = json.loads(cluster.kubectl("get", "pod", "app", "-n", namespace, "-o", "json"))
    assert next(volume["name"] for volume in pod["spec"]["volumes"]).startswith("kube-api-access")
    entries = audited(cluster)
    assert any(one["user"]["username"].endswith(f"{namespace}:nobody") or one["verb"] == "list" for one in entries)


def test_pods_run_on_kwok_nodes(cluster: Cluster, namespace: str) -> None:
    """A Deployment becomes ready on kwok nodes through the stock scheduler."""
    cluster.kubectl("create", "deployment", "web", "-n", namespace, "--image=localhost/pause:dev", "--replicas=3")
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=120s")
    assert cluster.helm("list", "-A", "-o", "json").strip() == "[]"


@pytest.mark.long
def test_many_nodes_become_ready(cluster: Cluster) -> None:
    """Fifty nodes more are Ready together, with the capacity and labels asked for."""
    template = NodeTemplate(cpu="16", memory="64Gi", labels={"pool": "many"})
    names = cluster.kwok.add(50, template, prefix="many")
    nodes = cluster.api.get("/api/v1/nodes?labelSelector=pool%3Dmany")["items"]
    assert {node["metadata"]["name"] for node in nodes} == set(names)
    assert {node["status"]["allocatable"]["cpu"] for node in nodes} == {"16"}
    cluster.kubectl("delete", "nodes", "-l", "pool=many", "--wait=false")
    cluster.kwok.names[:] = [name for name in cluster.kwok.names if name not in names]


@pytest.mark.long
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_apiserver_comes_back(cluster: Cluster, namespace: str, how: str) -> None:
    """After a stop or a crash the API server is back at its address with all objects, and controllers go on."""
    port = cluster.apiserver.port
    getattr(cluster.apiserver, how)()
    assert not cluster.apiserver.running
    with pytest.raises(CommandError, match="refused"):
        cluster.kubectl("get", "nodes")
    with pytest.raises(DevClusterError, match="kube-apiserver ended with"):
        cluster.check()
    cluster.apiserver.start()
    assert cluster.apiserver.port == port
    assert namespace in cluster.kubectl("get", "namespaces")
    cluster.create_namespace(f"{namespace}-after")
    cluster.kubectl("delete", "namespace", f"{namespace}-after", "--wait=false")
    cluster.check()


def test_second_scheduler_places_pods(cluster: Cluster, namespace: str) -> None:
    """One more kube-scheduler with a configuration of its own places the pods that ask for it."""
    scheduler = cluster.control_plane.add_scheduler("second", {"profiles": [{"schedulerName": "second"}]})
    spec = {"schedulerName": "second", "containers": [{"name": "app", **POD}]}
    metadata = {"name": "app", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.kubectl("wait", "pod/app", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
    scheduler.stop()


@pytest.mark.long
def test_replay_follows_the_cluster(runtime: Path) -> None:
    """A pod bound to a kwok node gets a cgroup whose CPU time grows as its annotation says, until it is deleted."""
    assert runtime
    with Cluster(name="replay", kwok_nodes=1) as own:
        hosts = own.start_replay()
        own.kwok.create(["late"])
        metadata = {"name": "app", "namespace": "default", "annotations": {"replay.headroom.dev/cpu": "80%"}}
        spec = {"nodeName": "late", "containers": [{"name": "app", **POD}]}
        own.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        uid = own.api.get("/api/v1/namespaces/default/pods/app")["metadata"]["uid"]
        stat = hosts / f"late/sys/fs/cgroup/kubepods/burstable/pod{uid}/cpu.stat"

        def used() -> tuple[float, float]:
            return time.monotonic(), int(stat.read_text().split()[1]) / 1e6

        wait_until(lambda: stat.exists() and used()[1] > 0, "the pod's cgroup", SECONDS)
        start, before = used()
        wait_until(lambda: used()[1] > before + 1.0, "a second of CPU time", SECONDS)
        end, after = used()
        # The files are written every 0.1 s on a machine that is not busy.
        assert (after - before) / (end - start) == pytest.approx(0.4, rel=0.25)
        own.kubectl("delete", "pod", "app", "--grace-period=0", "--force")
        wait_until(lambda: not stat.parent.exists(), "the cgroup's end", SECONDS)


@pytest.mark.long
def test_two_clusters_at_once(runtime: Path) -> None:
    """Two clusters of one user do not see one another, and leave nothing when they end."""
    with Cluster(name="first", kwok_nodes=1) as first, Cluster(name="second") as second:
        assert first.api.get("/version") == second.api.get("/version")
        assert "kwok-0" in first.kubectl("get", "nodes", "-o", "name")
        assert second.kubectl("get", "nodes", "-o", "name") == ""
        assert [found.name for found in state.clusters()] == ["first", "second"]
        pids = [pid for one in (first, second) for pid in _children(one.supervisor.pid)]
        assert len(pids) == len(("etcd", "api server", "controllers", "scheduler")) * 2 + len(("kwok",))
    assert list((runtime / "headroom").iterdir()) == []
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


OWNER = """
import sys
from tools.devcluster import Cluster
with Cluster(name="victim", kwok_nodes=1, say=lambda line: None) as cluster:
    print(cluster.supervisor.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.long
def test_killed_owner_leaves_nothing(runtime: Path) -> None:
    """After SIGKILL of the process that has the cluster, all its processes end and its folder goes."""
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        supervisor = int(next(line for line in owner.stdout if line.strip().isdigit()))
        pids = [supervisor, *_children(supervisor)]
        assert len(pids) == len(("supervisor", "etcd", "api server", "controllers", "scheduler", "kwok"))
        os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of all processes", SECONDS)
    assert list((runtime / "headroom").iterdir()) == []


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
    kept = Path(said[-1].rpartition(" ")[2])
    assert "/proc/none" in (kept / "etcd.log").read_text()
    assert list((runtime / "headroom").iterdir()) == []


def _devcluster(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.devcluster", *words], capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.long
def test_command_line_runs_clusters(runtime: Path) -> None:
    """`up --detach`, `status`, `kubeconfig`, `node` and `down` do what they say, and errors are one line."""
    up = _devcluster("up", "cli", "--kwok-nodes", "1", "--detach")
    kubeconfig = runtime / "headroom/cli/kubeconfig"
    assert up.stdout.splitlines()[-1] == f"export KUBECONFIG={kubeconfig}", up.stderr
    status = _devcluster("status").stdout.splitlines()[1].split()
    assert (status[:2], status[3:]) == (["cli", "ready"], ["-", "1", str(kubeconfig)])
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

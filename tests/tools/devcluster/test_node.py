"""The real node: pods run, reach the API server and nothing else; its namespaces alone, on a v1 and on a v2 host."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from agent.host import procfs
from tests.architecture.sources import ROOT
from tools.devcluster import Cluster, cgroups, node
from tools.devcluster.process import wait_until

pytestmark = pytest.mark.node

SECONDS = 120.0
IMAGE = "localhost/headroom-agent:dev"
NAMESPACE = "node-test"

ASK_API_SERVER = """
import ssl, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(account + "token").read()
request = urllib.request.Request("https://10.96.0.1/version", headers={"Authorization": "Bearer " + token})
context = ssl.create_default_context(cafile=account + "ca.crt")
print(urllib.request.urlopen(request, context=context, timeout=10).read().decode())
"""
REACH = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 443), timeout=10)
except OSError as error:
    print(error.strerror)
else:
    print("reached")
"""
LOOK_AROUND = """
import json, os, sys
trees = [path for path, folders, _ in os.walk("/sys/fs/cgroup") if "kubepods" in folders]
others = [path for path, folders, _ in os.walk("/sys/fs/cgroup") if any(name.startswith("hr-") for name in folders)]
print(json.dumps({"uid": os.getuid(), "trees": trees, "others": others}))
"""


def _pod(name: str, *argv: str, **spec: object) -> dict[str, object]:
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": list(argv),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **spec,
    }
    pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": pod}


def _wait_running(cluster: Cluster, namespace: str, name: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"

    def running() -> bool:
        if not cluster.api.exists(path):  # a static pod's mirror comes later than its manifest
            return False
        statuses = cluster.api.get(path)["status"].get("containerStatuses", [{}])
        return "running" in statuses[0].get("state", {})

    wait_until(running, f"the pod {name} running", SECONDS)


@pytest.fixture(scope="module")
def node_cluster(real_node_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster, with a namespace and a pod `sleeper` of ours."""
    real_node_cluster.create_namespace(NAMESPACE)
    pod = _pod("sleeper", "python3", "-c", "import time; print('good morning', flush=True); time.sleep(3600)")
    host = {"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup"}}
    pod["spec"]["volumes"] = [host]  # type: ignore[index]
    mount = {"name": "cgroup", "mountPath": "/sys/fs/cgroup", "readOnly": True, "mountPropagation": "HostToContainer"}
    pod["spec"]["containers"][0]["volumeMounts"] = [mount]  # type: ignore[index]
    real_node_cluster.apply(pod)
    _wait_running(real_node_cluster, NAMESPACE, "sleeper")
    yield real_node_cluster
    real_node_cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def execute(node_cluster: Cluster) -> Callable[..., str]:
    return lambda program, *words: node_cluster.kubectl(
        "exec", "--namespace", NAMESPACE, "sleeper", "--", "python3", "-c", program, *words
    )


def test_pod_sees_only_its_node(execute: Callable[..., str]) -> None:
    """In a pod with the host's cgroups, kubepods is at the top of each hierarchy, and no other node is seen."""
    observed = json.loads(execute(LOOK_AROUND))
    assert observed["uid"] == 65532
    assert observed["trees"]
    assert all(tree == "/sys/fs/cgroup" or tree.count("/") == 4 for tree in observed["trees"]), observed["trees"]
    assert observed["others"] == []


def test_pod_reaches_api_server(execute: Callable[..., str], node_cluster: Cluster) -> None:
    """A pod's own token and certificate authority are enough to ask the API server at its ClusterIP."""
    assert json.loads(execute(ASK_API_SERVER))["gitVersion"] == node_cluster.binaries.kubernetes_version


@pytest.mark.parametrize("address", ["192.0.2.1", "10.96.0.10", "169.254.169.254"])
def test_pod_reaches_nothing_else(execute: Callable[..., str], address: str) -> None:
    """The world, another ClusterIP and a cloud's metadata service are unreachable at once: there is no route."""
    assert execute(REACH, address) == "Network is unreachable\n"


def test_node_itself_reaches_nothing(node_cluster: Cluster) -> None:
    """The network of the node and the control plane has no way out either."""
    assert node_cluster.network is not None
    routes = node_cluster.network.command("ip", "-json", "route", "show", "table", "main")
    destinations = {route["dst"] for route in json.loads(_run(routes))}
    assert destinations == {"10.244.0.0/24", "10.96.0.0/16"}
    forwarding = node_cluster.network.command("cat", "/proc/sys/net/ipv4/ip_forward")
    assert _run(forwarding) == "0\n"


def _run(argv: list[str]) -> str:

    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SECONDS).stdout


SANDBOX = "hr-sandbox-test"
AS_IT_IS = "true"
UNIFIED = "umount --lazy /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup"
"""In a mount namespace of its own, makes a host of any kind look like one that has only v2."""

PROGRAM = """
import json, os, sys, tempfile
from pathlib import Path
from tools.devcluster import cgroups, sandbox
from tools.devcluster.binaries import Binaries
from tools.devcluster.node_init import View
from tools.devcluster.process import wait_until

LOOK = '''
import json, os
top = [line.split(":", 2)[2].strip() for line in open("/proc/self/cgroup")]
mounts = [line.split(" - ")[0].split(" ")[3:5] for line in open("/proc/self/mountinfo") if " - cgroup" in line]
own = {name: os.listdir(name) for name in ("/var/lib", "/run/netns") if os.path.isdir(name)}
settings = {name: open("/proc/sys/" + name).read().strip() for name in ("vm/overcommit_memory", "kernel/panic")}
print(json.dumps({"top": top, "mounts": mounts, "own": own, "settings": settings, "pid": os.getpid(),
                  "links": os.listdir("/sys/class/net"), "kept": os.path.exists(KEPT),
                  "stat": open("/proc/stat").read()}))
'''

name = sys.argv[1]
trees = cgroups.mounted()
with tempfile.TemporaryDirectory() as folder:
    cgroups.create(name, trees)
    try:
        logs = Path(folder, "logs")
        Path(folder, "kept").touch()
        view = View(name, (folder, *sandbox.program_folders(Binaries())), {"/var/log/pods": folder})
        with sandbox.open_sandbox(view, logs) as node:
            look = node.start("look", [sys.executable, "-c", f"KEPT = {folder + '/kept'!r}\\n{LOOK}"])
            wait_until(lambda: not look.running, "looking around", 30)
            print(look.log.read_text())
    finally:
        left = cgroups.remove(name, trees)
    assert not left, left
"""


@pytest.mark.parametrize("host", [AS_IT_IS, UNIFIED], ids=["this host", "v2 only"])
def test_node_sees_its_own(real_node_requirements: None, host: str) -> None:  # noqa: ARG001 - it skips
    """The node is at the top of every hierarchy, with the kubelet's settings, a bare network and its own usage."""
    command = ["unshare", "--mount", "sh", "-c", f'{host} && exec "$@"', "sh", sys.executable, "-c", PROGRAM, SANDBOX]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    observed = json.loads(done.stdout)
    assert set(observed["top"]) <= {"/", "/init"}
    assert {root for root, _ in observed["mounts"]} == {"/"}
    paths = [path for _, path in observed["mounts"]]
    assert len(paths) == len(set(paths))
    assert (paths == ["/sys/fs/cgroup"]) == (host == UNIFIED)
    assert observed["own"] == {"/var/lib": []}
    assert observed["settings"] == {"vm/overcommit_memory": "1", "kernel/panic": "10"}
    assert observed["links"] == ["lo"]
    assert observed["pid"] < 100
    assert observed["kept"]
    assert procfs.busy_ticks(observed["stat"]) < procfs.busy_ticks(Path("/proc/stat").read_text()) / 2


KERNEL_SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
HOST_FOLDERS = ("/run", "/run/netns", "/var/lib", "/var/log", "/etc/cni", "/opt", "/sys/fs/cgroup/unified")
OWNER = """
import sys, time
from tools.devcluster import Cluster, cgroups, node
with Cluster(name=sys.argv[1], real_node=True, own_images=False) as cluster:
    print("ready", cluster.node.id, flush=True)
    time.sleep(600)
"""


def _machine() -> dict[str, object]:
    """State of this machine that a node could change; other nodes may come and go meanwhile."""

    def entries(folder: str) -> list[str]:
        path = Path(folder)
        return sorted(file.name for file in path.iterdir() if not file.name.startswith("hr-")) if path.exists() else []

    mounts = [line.split(" ", 3)[3] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return {
        "mounts": mounts,
        "links": sorted(os.listdir("/sys/class/net")),  # noqa: PTH208
        "routes": Path("/proc/net/route").read_text(),
        "settings": {name: Path("/proc/sys", name).read_text() for name in KERNEL_SETTINGS},
        "folders": {folder: entries(folder) for folder in HOST_FOLDERS},
    }


def _cgroups(name: str) -> list[Path]:
    return [path for tree in cgroups.mounted() for path in tree.mount_point.glob(f"hr-{name}-*")]


def _folders(name: str) -> list[Path]:
    return list(node.nodes_directory().glob(f"*hr-{name}-*"))


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    alive = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def _run_pause_pod(cluster: Cluster) -> None:
    container = {"name": "main", "image": "localhost/pause:dev", "imagePullPolicy": "IfNotPresent"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pause"}, "spec": {"containers": [container]}}
    cluster.create_namespace("p")
    cluster.kubectl("apply", "--namespace", "p", "-f", "-", stdin=json.dumps(pod))
    path = "/api/v1/namespaces/p/pods/pause"
    wait_until(lambda: cluster.api.get(path)["status"]["phase"] == "Running", "the pod running", SECONDS)


@pytest.mark.long
def test_nothing_stays_after_down(real_node_cluster: Cluster) -> None:
    """A second cluster runs a pod beside the shared one; after its end the machine is as before."""
    before = _machine()
    with Cluster(name="leftovers", real_node=True, own_images=False) as cluster:
        _run_pause_pod(cluster)
        running = _family(cluster.supervisor.pid)
        assert cluster.network is not None
        assert real_node_cluster.network is not None
        assert cluster.network.namespace.stat().st_ino != real_node_cluster.network.namespace.stat().st_ino
        assert _cgroups("leftovers")
        assert _folders("leftovers")
    assert _alive(running) == []
    assert _cgroups("leftovers") == []
    assert _folders("leftovers") == []
    assert _machine() == before
    assert "Ready" in real_node_cluster.kubectl("get", "nodes")


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, "killed"], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("ready "):
            break
    else:
        pytest.fail("".join(lines))
    with process.stdout:
        yield process, lines[-1].split()[1]
    process.kill()
    process.wait()


@pytest.mark.long
def test_killed_owner_leaves_nothing(
    real_node_requirements: None,  # noqa: ARG001 - it skips
    owner: tuple[subprocess.Popen[str], str],
) -> None:
    """When the owner is killed outright, its processes end, and its cgroups and folder are removed."""
    process, identity = owner
    before = _machine()
    family = _family(process.pid)
    programs = {entry.name() for entry in family}
    assert {"containerd", "kubelet", "kube-apiserver", "etcd"} <= programs
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not _alive(family), "the end of all its processes", SECONDS)
    wait_until(lambda: not _cgroups("killed"), "the removal of its cgroups", SECONDS)
    wait_until(lambda: not (node.nodes_directory() / identity).exists(), "the removal of its folder", SECONDS)
    assert _machine() == before

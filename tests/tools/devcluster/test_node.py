"""The real node: pods run, can be looked into, reach the API server, and reach nothing else."""

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tools.devcluster import Cluster
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
    """Runs a Python program in the pod `sleeper` and returns what it prints."""
    return lambda program, *words: node_cluster.kubectl(
        "exec", "--namespace", NAMESPACE, "sleeper", "--", "python3", "-c", program, *words
    )


def test_pod_sees_only_its_node(execute: Callable[..., str]) -> None:
    """In a pod with the host's cgroups, kubepods is at the top of each hierarchy, and no other node is seen."""
    seen = json.loads(execute(LOOK_AROUND))
    assert seen["uid"] == 65532
    assert seen["trees"]
    assert all(tree == "/sys/fs/cgroup" or tree.count("/") == 4 for tree in seen["trees"]), seen["trees"]
    assert seen["others"] == []


def test_pod_reaches_api_server(execute: Callable[..., str], node_cluster: Cluster) -> None:
    """A pod's own token and certificate authority are enough to ask the API server at its ClusterIP."""
    assert json.loads(execute(ASK_API_SERVER))["gitVersion"] == node_cluster.binaries.kubernetes_version


@pytest.mark.parametrize("address", ["192.0.2.1", "10.96.0.10", "169.254.169.254"])
def test_pod_reaches_nothing_else(execute: Callable[..., str], address: str) -> None:
    """The world, another ClusterIP and a cloud's metadata service are unreachable at once: there is no route."""
    assert execute(REACH, address) == "Network is unreachable\n"


def test_node_itself_reaches_nothing(node_cluster: Cluster) -> None:
    """Nor has the network of the node and the control plane a way out."""
    assert node_cluster.network is not None
    routes = node_cluster.network.command("ip", "-json", "route", "show", "table", "main")
    destinations = {route["dst"] for route in json.loads(_run(routes))}
    assert destinations == {"10.244.0.0/24", "10.96.0.0/16"}
    forwarding = node_cluster.network.command("cat", "/proc/sys/net/ipv4/ip_forward")
    assert _run(forwarding) == "0\n"


def _run(argv: list[str]) -> str:

    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SECONDS).stdout

"""Nothing of a real node stays behind: after `down`, after SIGKILL of its owner, after the end of the machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tools.devcluster import Cluster, cgroups, node
from tools.devcluster.process import wait_until

pytestmark = [pytest.mark.node, pytest.mark.long]

SECONDS = 120.0
KERNEL_SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
HOST_FOLDERS = ("/run", "/run/netns", "/var/lib", "/var/log", "/etc/cni", "/opt", "/sys/fs/cgroup/unified")
OWNER = """
import sys, time
from tools.devcluster import Cluster
with Cluster(name=sys.argv[1], real_node=True, own_images=False) as cluster:
    print("ready", cluster.node.id, flush=True)
    time.sleep(600)
"""


def _machine() -> dict[str, object]:
    """What a node could change on this machine; other nodes may come and go meanwhile."""

    def entries(folder: str) -> list[str]:
        path = Path(folder)
        return sorted(one.name for one in path.iterdir() if not one.name.startswith("hr-")) if path.exists() else []

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


def _descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(stat.parent.name)] = int(fields[1])
    found, new = set[int](), {pid}
    while new:
        found |= new
        new = {child for child, parent in parents.items() if parent in found} - found
    return found


def _alive(pids: set[int]) -> set[int]:
    alive = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            alive.add(pid)
    return alive


def _run_pause_pod(cluster: Cluster) -> None:
    container = {"name": "main", "image": "localhost/pause:dev", "imagePullPolicy": "IfNotPresent"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pause"}, "spec": {"containers": [container]}}
    cluster.create_namespace("p")
    cluster.kubectl("apply", "--namespace", "p", "-f", "-", stdin=json.dumps(pod))
    path = "/api/v1/namespaces/p/pods/pause"
    wait_until(lambda: cluster.api.get(path)["status"]["phase"] == "Running", "the pod running", SECONDS)


def test_nothing_stays_after_down(real_node_cluster: Cluster) -> None:
    """A second cluster runs a pod beside the shared one; after its end the machine is as before."""
    before = _machine()
    with Cluster(name="leftovers", real_node=True, own_images=False) as cluster:
        _run_pause_pod(cluster)
        running = _descendants(cluster.supervisor.pid)
        assert cluster.network is not None
        assert real_node_cluster.network is not None
        assert cluster.network.namespace.stat().st_ino != real_node_cluster.network.namespace.stat().st_ino
        assert _cgroups("leftovers")
        assert _folders("leftovers")
    assert _alive(running) == set()
    assert _cgroups("leftovers") == []
    assert _folders("leftovers") == []
    assert _machine() == before
    assert "Ready" in real_node_cluster.kubectl("get", "nodes")


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that owns a cluster with a real node, and the node's id."""
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


def test_killed_owner_leaves_nothing(
    real_node_requirements: None,  # noqa: ARG001 - it skips
    owner: tuple[subprocess.Popen[str], str],
) -> None:
    """When the owner is killed outright, its processes end, and its cgroups and folder are removed."""
    process, identity = owner
    before = _machine()
    family = _descendants(process.pid)
    programs = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in family}
    assert {"containerd", "kubelet", "kube-apiserver", "etcd"} <= programs
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not _alive(family), "the end of all its processes", SECONDS)
    wait_until(lambda: not _cgroups("killed"), "the removal of its cgroups", SECONDS)
    wait_until(lambda: not (node.nodes_directory() / identity).exists(), "the removal of its folder", SECONDS)
    assert _machine() == before

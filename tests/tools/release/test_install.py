"""A release folder, built for this machine and installed on the dev cluster with the commands of its page."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tests.tools.release.conftest import HERE
from tools.devcluster.cluster import Cluster, ClusterSpec
from tools.devcluster.containerd import NAMESPACE, SOCKET
from tools.devcluster.images import RECIPES
from tools.release import krew
from tools.release.__main__ import main

VERSION = krew.version()
PLUGIN = f"kubectl-headroom-{krew.this_platform().replace('/', '-')}"
ARCHITECTURE = krew.this_platform().partition("/")[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "out"
    words = ["--out", str(out), "--arch", ARCHITECTURE, "--platform", krew.this_platform(), "--python", HERE]
    assert main(words) == 0
    return out


@pytest.fixture(scope="module")
def node_cluster() -> Iterator[Cluster]:
    """A cluster with a real node that has none of our images."""
    with Cluster(ClusterSpec(real_node=True, own_images=False)) as cluster:
        yield cluster


@pytest.mark.node
def test_release_folder_installs_without_a_registry(folder: Path, node_cluster: Cluster) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)
    assert node_cluster.node is not None
    ctr: list[str | Path] = [node_cluster.binaries.path("ctr"), "--address", SOCKET, "--namespace", NAMESPACE]
    for recipe in RECIPES:
        archive = gzip.decompress((folder / f"{recipe.name}_{VERSION}_linux_{ARCHITECTURE}.tar.gz").read_bytes())
        done = subprocess.run(
            node_cluster.node.command(*ctr, "images", "import", "-"), input=archive, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    scheduler = f"localhost/kube-scheduler:{node_cluster.binaries.kubernetes_version}"
    values = ["--set", f"image.registry=localhost,scheduler.image={scheduler}"]
    chart = folder / f"headroom-{VERSION}.tgz"
    where = ["--namespace", "headroom-system", "--create-namespace"]
    node_cluster.helm("install", "headroom", chart, *where, *values, "--wait", "--timeout", "4m")
    images = "jsonpath={.items[*].spec.containers[*].image}"
    running = node_cluster.kubectl("-n", "headroom-system", "get", "pods", "-o", images).split()
    assert {f"localhost/{recipe.name}:{VERSION}" for recipe in RECIPES} < {*running}

    def reported() -> bool:
        return "node-1" in node_cluster.kubectl("get", "nodemetrics", "-o", "name")

    eventually(reported, "a NodeMetric of the node")
    environment = {
        **os.environ,
        **node_cluster.environment,
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
    }
    top = subprocess.run([folder / PLUGIN, "top"], env=environment, capture_output=True, text=True, check=False)
    assert (top.returncode, "node-1" in top.stdout) == (0, True), top.stderr

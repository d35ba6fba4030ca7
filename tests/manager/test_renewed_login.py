"""An API server whose authority and tokens are rotated while the manager runs, and one that is slow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manager.stage import METRICS, Manager, Stage, prepared
from tests.manager.tls_front import TlsFront, kubeconfig
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.certs import Pki

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A namespace of our own."""
    with prepared(cluster, "login-test") as stage:
        stage.configure(stage.config)
        yield stage


def _token(stage: Stage, name: str) -> str:
    """A token that ends with the Secret of this name."""
    stage.cluster.kubectl("create", "secret", "generic", name, "-n", stage.namespace)
    bound = ["--bound-object-kind=Secret", f"--bound-object-name={name}"]
    return stage.cluster.kubectl("create", "token", "headroom-manager", "-n", stage.namespace, *bound).strip()


def test_rotation_needs_no_restart(stage: Stage, tmp_path: Path) -> None:
    """A new authority and a new token are taken up by everything that asks the API server, the watches of kopf too."""
    before, after = Pki(tmp_path / "before"), Pki(tmp_path / "after")
    authority, token = tmp_path / "ca.crt", tmp_path / "token"
    authority.write_bytes(before.ca.read_bytes())
    token.write_text(_token(stage, "first"))
    with TlsFront(stage.cluster.control_plane.host_url, before.server("front", ["127.0.0.1"])) as front:
        manager = Manager(kubeconfig(tmp_path, front.url), tmp_path / "manager.log", stage.namespace)
        manager.start()
        try:
            stage.add_node("before-rotation")
            stage.report("before-rotation", "4")
            stage.expect_cpu("before-rotation", "4k")

            front.show(after.server("front", ["127.0.0.1"]))
            stage.cluster.kubectl("delete", "secret", "first", "-n", stage.namespace)
            eventually(lambda: "certificate is" in manager.said(), "the new certificate is noticed")
            authority.write_bytes(after.ca.read_bytes())
            token.write_text(_token(stage, "second"))

            stage.report("before-rotation", "3")
            stage.expect_cpu("before-rotation", "3k")
            for name in ("after-1", "after-2", "after-3"):  # a list could tell of the first, only a watch of all
                stage.make_nodes(name)
                eventually(lambda: bool(stage.found(f"{METRICS}/{name}")), f"{name} has a NodeMetric")  # noqa: B023
        finally:
            assert manager.stop() == 0
    assert "Traceback" not in manager.said()
    told = [line for line in manager.said().splitlines() if "Starting over" in line]
    assert 1 <= len(told) <= 3, manager.said()


@pytest.mark.long
def test_slow_server_is_borne(stage: Stage, tmp_path: Path) -> None:
    """An API server that takes seconds for each answer is no reason to change leaders or to give up."""
    pki = Pki(tmp_path / "pki")
    (tmp_path / "ca.crt").write_bytes(pki.ca.read_bytes())
    (tmp_path / "token").write_text(_token(stage, "slow"))
    with TlsFront(stage.cluster.control_plane.host_url, pki.server("front", ["127.0.0.1"])) as front:
        front.delay_seconds = 2.0
        manager = Manager(kubeconfig(tmp_path, front.url), tmp_path / "manager.log", stage.namespace)
        manager.start()
        try:
            stage.add_node("slow")
            stage.report("slow", "4")
            stage.expect_cpu("slow", "4k")
            stage.report("slow", "3")
            stage.expect_cpu("slow", "3k")
        finally:
            assert manager.stop() == 0
    assert "Traceback" not in manager.said()
    assert "No longer leading" not in manager.said()

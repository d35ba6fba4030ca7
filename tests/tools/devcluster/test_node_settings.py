"""What the node's programs are told, and what is said where no node can be."""

import errno
import json
import os
import tomllib
from pathlib import Path

import pytest

from tools.devcluster import cgroups, containerd, kubelet, network, node, packages
from tools.devcluster.binaries import Binaries
from tools.devcluster.certs import KeyPair
from tools.devcluster.errors import DevClusterError, MissingRequirementError
from tools.devcluster.node_init import View
from tools.devcluster.process import Supervisor


def test_view_survives_transport() -> None:
    """The first process reads what its starter wrote."""
    view = View("hr-a-1", ("/kept", "/kept/too"), {"/var/log/pods": "/logs"})
    assert View.from_json(view.to_json()) == view


def test_pods_have_one_route() -> None:
    """A pod can reach the API server's address and its own network, and has no other route."""
    bridge, loopback = json.loads(network.cni_config(Path("/ipam")))["plugins"]
    assert bridge["ipam"]["routes"] == [{"dst": "10.96.0.1/32"}]
    assert bridge["ipMasq"] is False
    assert bridge["isGateway"] is False
    assert loopback == {"type": "loopback"}


def test_containerd_configuration_is_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders and programs stand in containerd's configuration where it reads them."""
    (tmp_path / "runc").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    document = tomllib.loads(containerd.config(tmp_path, Path("/cni/bin"), Path("/cni/conf")))
    runtime = document["plugins"]["io.containerd.cri.v1.runtime"]
    assert document["root"] == str(tmp_path)
    assert runtime["cni"] == {"bin_dirs": ["/cni/bin"], "conf_dir": "/cni/conf"}
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == str(tmp_path / "runc")
    assert runtime["restrict_oom_score_adj"] is True


def test_kubelet_refuses_strangers() -> None:
    """The kubelet takes no anonymous client, and asks the API server about all others."""
    pair = KeyPair(Path("/pki/kubelet.crt"), Path("/pki/kubelet.key"))
    files = kubelet.KubeletFiles(Path("/kubeconfig"), pair, Path("/pki/ca.crt"), Path("/static"), Path("/config"))
    document = json.loads(kubelet.config(files))
    assert document["authentication"]["anonymous"] == {"enabled": False}
    assert document["authentication"]["x509"] == {"clientCAFile": "/pki/ca.crt"}
    assert document["authorization"] == {"mode": "Webhook"}
    assert document["tlsCertFile"] == "/pki/kubelet.crt"


def test_missing_root_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root one line says so, and what works without."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(
        MissingRequirementError, match="the real node needs root: run with sudo; kwok nodes work without"
    ):
        node.require_root()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is missing is named with the command that installs it."""
    monkeypatch.setattr(packages, "real_node_refusal", lambda: None)
    monkeypatch.setattr(packages, "missing", lambda wanted: [one for one in wanted if one.name == "runc"])
    with pytest.raises(MissingRequirementError, match=r"runc: `python -m tools\.devcluster packages` installs it"):
        node.require_root()


def test_read_only_cgroups_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where cgroups cannot be made, as in an ordinary container, one line names the folder and the way out."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "/sys/fs/cgroup/cpu/hr-a")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cgroups, "create", refuse)
    spec = node.NodeSpec("a", "node-1", tmp_path, tmp_path / "logs", "https://10.96.0.1:443")
    real = node.RealNode(spec, Binaries())
    with Supervisor(tmp_path / "logs") as supervisor:
        with pytest.raises(DevClusterError, match=r"cgroup /sys/fs/cgroup/cpu/hr-a: Read-only file system.*privileged"):
            real._claim(supervisor)
        real.stop()
    assert list(node.nodes_directory().iterdir()) == []

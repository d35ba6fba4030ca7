"""The flags that replace parts of the kubeconfig, and the log of requests."""

import json
import re
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from headroom import kube
from kubectl_headroom.__main__ import main
from kubectl_headroom.errors import UNAVAILABLE
from tests.kubectl_headroom.served import serving

PROGRAM = (
    'import json; print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
    '"status": {"token": "of-program"}}))'
)
NOWHERE = "http://127.0.0.1:1"


def _config(folder: Path, other: str = NOWHERE, **cluster: Any) -> str:  # noqa: ANN401 - fields of the cluster
    """A kubeconfig with a context, a cluster and two users that it does not name."""
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", PROGRAM]}
    users = {"me": {"tokenFile": "absent", "username": "me"}, "you": {"token": "of-you"}, "program": {"exec": run}}
    file = folder / "kubeconfig"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [
            {"name": "here", "cluster": {"server": NOWHERE, **cluster}},
            {"name": "other", "cluster": {"server": other}},
        ],
        "users": [{"name": name, "user": user} for name, user in users.items()],
    }
    file.write_text(yaml.safe_dump(document))
    return str(file)


@pytest.mark.parametrize(
    ("flags", "header"),
    [
        (["--cluster", "other", "--user", "you"], "Bearer of-you"),
        (["--cluster", "other", "--user", "program"], "Bearer of-program"),
        (["--cluster", "other", "--token", "mine"], "Bearer mine"),
        (["--server", "URL", "--token", "mine"], "Bearer mine"),
        (["-s", "URL", "--user", "you"], "Bearer of-you"),
        (["--server=URL", "--user=program", "--token=mine"], "Bearer mine"),
    ],
)
@pytest.mark.parametrize("is_before", [True, False])
def test_flags_replace_the_login(flags: list[str], header: str, tmp_path: Path, *, is_before: bool) -> None:
    """Cluster, user, server and token of the flags count, before and after the command."""
    with serving() as (url, requests):
        words = [word.replace("URL", url) for word in ["--kubeconfig", _config(tmp_path, url), *flags]]
        assert main([*words, "top"] if is_before else ["top", *words]) == 0
    assert {headers["Authorization"] for headers in requests} == {header}


def test_server_needs_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with serving() as (url, requests):
        assert main(["quota", "-s", url]) == 0
    assert requests[0]["Authorization"] is None


@pytest.mark.parametrize("flag", ["--cluster", "--user"])
def test_absent_entry_is_named(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster or user that the kubeconfig lacks is no login, and the message has the existing ones."""
    assert main(["top", "--kubeconfig", _config(tmp_path), flag, "none"]) == UNAVAILABLE
    names = {"--cluster": "here, other", "--user": "me, you, program"}[flag]
    assert f"there is no {flag[2:]} 'none'. It has: {names}." in capsys.readouterr().err


def test_malformed_token_is_no_login(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--kubeconfig", _config(tmp_path), "--token", "two\nlines"]) == UNAVAILABLE
    assert "The token of --token must be one line of plain characters." in capsys.readouterr().err


def test_insecure_replaces_the_authority(tmp_path: Path) -> None:
    """With --insecure-skip-tls-verify the authority of the kubeconfig is ignored, as by kubectl."""
    file = _config(tmp_path, **{"server": "https://127.0.0.1:1", "certificate-authority": "absent"})
    connection = kube.connect(file, None, kube.Overrides(user="you", insecure=True))
    assert connection.tls is not None
    assert connection.tls.verify_mode is ssl.CERT_NONE
    with pytest.raises(kube.LoginError, match="certificate-authority cannot be read"):
        kube.connect(file, None, kube.Overrides(user="you"))


def test_server_drops_the_name_of_the_certificate(tmp_path: Path) -> None:
    """tls-server-name of the kubeconfig is of its own server."""
    file = _config(tmp_path, **{"tls-server-name": "of-the-kubeconfig"})
    assert kube.connect(file, None, kube.Overrides(user="you")).server_hostname == "of-the-kubeconfig"
    assert kube.connect(file, None, kube.Overrides(user="you", server="http://127.0.0.1:2")).server_hostname is None


def test_flags_replace_the_login_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod --token replaces the token of the service account, and --server needs no kubeconfig."""
    (tmp_path / "token").write_text("of-pod")
    monkeypatch.setattr("headroom.kube.connection.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr("headroom.kube.connection.tls_context", lambda **_: ssl.create_default_context())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    assert kube.connect().authorization() == "Bearer of-pod"
    of_flag = kube.connect(overrides=kube.Overrides(token="mine", insecure=True))  # noqa: S106
    assert (of_flag.server, of_flag.authorization()) == ("https://10.0.0.1:443", "Bearer mine")
    assert kube.connect(overrides=kube.Overrides(server="http://127.0.0.1:2")).server == "http://127.0.0.1:2"


@pytest.mark.parametrize(
    ("flags", "is_logged"), [([], False), (["-v", "5"], False), (["-v=6"], True), (["--v=9"], True)]
)
def test_verbosity_logs_requests(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_logged: bool
) -> None:
    """From level 6 each request is a line on standard error, with its status and time."""
    kubeconfig = _config(tmp_path)
    with serving() as (url, _):
        assert main(["top", "nodes", "--user", "you", "-o", "json", *flags, "-s", url, "--kubeconfig", kubeconfig]) == 0
    said = capsys.readouterr()
    json.loads(said.out)
    line = rf"GET {re.escape(url)}/api/v1/nodes\?limit=25 200 OK in \d+ milliseconds"
    assert bool(re.search(f"^{line}$", said.err, re.MULTILINE)) is is_logged
    assert bool(said.err) is is_logged


def test_verbosity_logs_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "node", "a", "-v6", "--kubeconfig", _config(tmp_path), "--user", "you"]) == UNAVAILABLE
    assert f"GET {NOWHERE}/api/v1/nodes/a Cannot connect to host 127.0.0.1:1 " in capsys.readouterr().err

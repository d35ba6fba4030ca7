"""The webhook on the command line, and what a start without its port says."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from manager.settings import WebhookSettings, load

ROOT = Path(__file__).parents[3]
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


def test_off_by_default() -> None:
    """Without a flag there is no webhook; names and times are those of the chart and of the documents."""
    found = load([]).webhook
    assert found == WebhookSettings(
        listen="",
        certificates="self",
        service_name="headroom-manager-webhook",
        secret_name="headroom-manager-webhook-tls",  # noqa: S106 - a name
        configuration_name="headroom-colocation-config",
        poll_seconds=10.0,
        first_poll_seconds=1.0,
        settle_seconds=5.0,
    )
    assert load(["--webhook-listen="]).webhook.listen == ""


def test_flags_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both flags arrive; who makes certificates is one of two, and may be an environment variable."""
    flags = ["--webhook-listen=:9443", "--webhook-certificates=cert-manager"]
    found = load(flags).webhook
    assert (found.listen, found.certificates) == (":9443", "cert-manager")
    monkeypatch.setenv("HEADROOM_MANAGER_WEBHOOK_CERTIFICATES", "cert-manager")
    assert load([]).webhook.certificates == "cert-manager"


def test_taken_port_ends_the_start(tmp_path: Path) -> None:
    """A port that is taken ends the start with one line that names the flag."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        flags = (f"--kubeconfig={kubeconfig}", "--listen=127.0.0.1:0", f"--webhook-listen={address}")
        command = [sys.executable, "-m", "manager", *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"headroom-manager: --webhook-listen {address}: Address already in use")

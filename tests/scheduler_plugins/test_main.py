"""Start and stop of the extender."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_plugins.__main__ import main

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
}
"""An address without a server."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(KUBECONFIG))
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--mode", "fast"], "--mode (or HEADROOM_SCHEDULER_MODE) must be one of shortlist, weighted, got: 'fast'"),
        (["--profile", "/nowhere"], "The profile /nowhere cannot be read: No such file or directory"),
        (["--kubeconfig", "/nowhere"], "/nowhere"),
        (["--tls-cert-file", "a.crt"], "give --tls-cert-file and --tls-private-key-file for HTTPS"),
        (["--tls-client-ca-file", "a.crt"], "give --tls-cert-file and --tls-private-key-file for HTTPS"),
    ],
)
def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert main(arguments) == 2
    texts = capsys.readouterr().err
    assert texts.startswith("headroom-scheduler: ")
    assert says in texts
    assert texts.count("\n") == 1


@pytest.mark.parametrize("flag", ["--listen", "--metrics-listen"])
def test_port_in_use_is_reported(capsys: pytest.CaptureFixture[str], kubeconfig: str, flag: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert main(["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", flag, address]) == 1
    texts = [line for line in capsys.readouterr().err.splitlines() if line.startswith("headroom-scheduler: ")]
    if flag == "--listen":
        assert texts == [f"headroom-scheduler: {address} is in use by another program: choose another with --listen"]
    else:
        assert len(texts) == 1
        assert texts[0].startswith(f"headroom-scheduler: Cannot listen on --metrics-listen {address}: ")


def test_invalid_certificate_is_reported(capsys: pytest.CaptureFixture[str], kubeconfig: str, tmp_path: Path) -> None:
    path = tmp_path / "tls.crt"
    flags = ["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"]
    for _ in ("missing", "no certificate"):
        assert main([*flags, f"--tls-cert-file={path}", f"--tls-private-key-file={path}"]) == 1
        texts = [line for line in capsys.readouterr().err.splitlines() if line.startswith("headroom-scheduler: ")]
        assert len(texts) == 1
        assert texts[0].startswith(f"headroom-scheduler: The TLS files ({path}, {path}) cannot be used: ")
        path.write_text("nothing")


@pytest.fixture
def running(tmp_path: Path, kubeconfig: str) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "log"
    command = [sys.executable, "-m", "scheduler_plugins", "--kubeconfig", kubeconfig, "--listen", f"127.0.0.1:{port}"]
    command += ["--metrics-listen=127.0.0.1:0", "--watcher"]
    with log.open("wb") as stderr, subprocess.Popen([*command, "--log-format=json"], stderr=stderr) as process:
        try:
            yield process, f"http://127.0.0.1:{port}", log
        finally:
            process.kill()


def _get(url: str) -> tuple[int, str]:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310 - http
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except urllib.error.URLError:
            time.sleep(0.05)
    raise AssertionError(f"{url} does not answer")


def test_waits_for_api_server(running: tuple[subprocess.Popen[bytes], str, Path]) -> None:
    process, url, log = running
    status, text = _get(f"{url}/healthz")
    assert status == 503
    assert "Nodes have not been listed yet" in text
    assert _get(f"{url}/livez") == (200, "ok\n")
    for _ in range(600):
        if "Waiting for the API server" in log.read_text():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    waiting = [line["message"] for line in lines if line["level"] != "info"]
    assert len(waiting) == 1
    assert waiting[0].startswith("Waiting for the API server: The API server at http://127.0.0.1:1 cannot be reached")


def test_metrics_have_a_port_of_their_own(running: tuple[subprocess.Popen[bytes], str, Path]) -> None:
    _, url, log = running
    assert _get(f"{url}/livez")[0] == 200
    texts = [json.loads(line)["message"] for line in log.read_text().splitlines()]
    (port,) = [line.rpartition(" ")[2] for line in texts if line.startswith("Serving /metrics and /watcher on ")]
    base = f"http://127.0.0.1:{port}"
    status, text = _get(f"{base}/metrics")
    assert (status, "\nheadroom_scheduler_nodes 0.0\n" in text) == (200, True)
    assert "\nheadroom_scheduler_nodes_without_agent 0.0\n" in text
    assert [_get(f"{base}/{page}")[0] for page in ("livez", "readyz", "watcher/health")] == [200, 503, 503]
    assert [_get(f"{base}/{page}")[0] for page in ("filter", "preempt", "debug/nodes/a", "debug/plugins/")] == [404] * 4

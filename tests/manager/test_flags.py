import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from manager.__main__ import _at_the_end, main
from manager.settings import load

ROOT = Path(__file__).parents[2]

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: u, user: {}}]
"""


def _run(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "manager", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_flags_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every flag arrives in the settings; the namespace comes from the pod unless a flag says otherwise."""
    monkeypatch.setenv("POD_NAMESPACE", "koordinator-system")
    monkeypatch.setenv("POD_NAME", "manager-0")
    assert load([]).namespace == "koordinator-system"
    result = load(["--kubeconfig=k", "--namespace=ns", "--config-name=c", "--listen=127.0.0.1:0", "--leader-elect"])
    assert (result.kubeconfig, result.namespace, result.config_name, result.listen) == ("k", "ns", "c", "127.0.0.1:0")
    assert result.leader_elect
    assert result.identity.startswith("manager-0_")
    assert result.identity != load([]).identity


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--log-level", "loud"],
            "--log-level (or HEADROOM_MANAGER_LOG_LEVEL) must be one of debug, info, warning, error",
        ),
        (["--foo"], "unrecognized arguments: --foo; headroom-manager --help lists all flags"),
        (["--config-name", "headroom-last-good-config"], "is a ConfigMap that the manager itself writes"),
        (["--config-name", "headroom-shadow-3"], "is a ConfigMap that the manager itself writes"),
        (["--config-name", "a/b"], "must be a name"),
        (["--namespace", ""], "--namespace (or HEADROOM_MANAGER_NAMESPACE) must not be empty"),
        (["--webhook-certificates=vault"], "must be one of self, cert-manager, got: 'vault'"),
        (["--exclude-nodes", "a b"], "'a b' is no label selector"),
    ],
)
def test_wrong_flag_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    line = capsys.readouterr().err
    assert line.startswith("headroom-manager: ")
    assert said in line
    assert line.count("\n") == 1


def test_missing_kubeconfig_is_one_line(tmp_path: Path) -> None:
    code, said = _run("--kubeconfig", str(tmp_path / "none"), "--listen", "127.0.0.1:0")
    assert code == 1
    assert said.startswith(f"headroom-manager: The kubeconfig {tmp_path}/none cannot be read")
    assert said.count("\n") == 1


def test_absent_server_is_waited_for(tmp_path: Path) -> None:
    """An API server that is away at the start is named in one line and waited for; SIGTERM ends the wait in order."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = tmp_path / "config"
    config.write_text(KUBECONFIG.replace("PORT", str(port)))
    command = [sys.executable, "-m", "manager", "--kubeconfig", str(config), "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--log-format=json"], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first, second = (json.loads(process.stderr.readline()) for _ in range(2))
        process.terminate()
        rest = process.stderr.read()
        assert process.wait(30) == 0
    assert first["message"].startswith("Managing")
    assert second["level"] == "warning"
    assert f"The API server at http://127.0.0.1:{port} cannot be reached" in second["message"]
    assert f"context c of {config}" in second["message"]
    assert [json.loads(line)["message"] for line in rest.splitlines()] == ["Stopped"]


def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(KUBECONFIG.replace("PORT", "1"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = _run("--kubeconfig", str(config), "--listen", address)
    assert (code, said) == (
        1,
        f"headroom-manager: --listen {address}: Address already in use; choose a free address\n",
    )


@pytest.mark.parametrize("context", [{"asyncgen": None}, {}])
def test_generators_left_behind_are_no_error(context: dict[str, None]) -> None:
    """A watch that kopf left, busy when asyncio closes it, is ignored; other errors are logged."""
    texts = []

    class Loop(asyncio.SelectorEventLoop):
        def default_exception_handler(self, context: dict[str, object]) -> None:
            texts.append(context)

    loop = Loop()
    try:
        loop.set_exception_handler(_at_the_end)
        loop.call_exception_handler({"message": "an error occurred during closing of a generator", **context})
    finally:
        loop.close()
    assert bool(texts) is ("asyncgen" not in context)

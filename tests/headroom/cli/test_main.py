import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headroom.cli.__main__ import main
from headroom.cli.errors import FAILED, UNAVAILABLE, USAGE

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:%d"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {token: none}}]
"""


@pytest.fixture
def nobody_there(tmp_path: Path) -> str:
    """A kubeconfig whose server does not answer."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % port)
    return str(path)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("kubectl headroom 0.")
    assert main(["version", "-o", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"version", "python"}


@pytest.mark.parametrize(
    "arguments",
    [[], ["tpo"], ["top", "services"], ["explain", "node"], ["explain", "service", "x"], ["top", "-o", "xml"]],
)
def test_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == USAGE
    said = capsys.readouterr().err
    assert said.startswith("kubectl headroom: ")
    assert "--help" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", [["top"], ["top", "pods"], ["explain", "node", "any"]])
def test_no_api_server(command: list[str], nobody_there: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An API server that does not answer is one line, and exit code 3."""
    assert main([*command, "--kubeconfig", nobody_there]) == UNAVAILABLE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("kubectl headroom: The API server at http://127.0.0.1:")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("given", [["--interval", "-1s"], ["--interval=-1s"]])
def test_negative_value_is_told(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A value below nothing is told as such, whether or not an equals sign stands before it."""
    with pytest.raises(SystemExit) as ended:
        main(["top", "--watch", *given])
    assert ended.value.code == USAGE
    assert "argument --interval: '-1s' is not a time between" in capsys.readouterr().err


def test_login_before_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Login flags count before the command and after it; the last one wins."""
    missing, other = str(tmp_path / "missing"), str(tmp_path / "other")
    assert main(["--kubeconfig", missing, "top"]) == UNAVAILABLE
    assert missing in capsys.readouterr().err
    assert main(["--kubeconfig", missing, "top", "--kubeconfig", other]) == UNAVAILABLE
    assert other in capsys.readouterr().err


def test_help_costs_no_client() -> None:
    probe = "import sys, headroom.cli.__main__; print([m for m in ('aiohttp', 'numpy', 'rich', 'yaml') if m in sys.modules])"  # noqa: E501
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_top_costs_no_numpy() -> None:
    probe = (
        "import sys, headroom.cli.top, headroom.cli.explain;"
        "print([m for m in ('numpy', 'scipy', 'kopf', 'agent', 'scheduler_plugins', 'kubernetes') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("output", ["table", "json"])
def test_nobody_reads(output: str) -> None:
    """Standard output that is closed is no fault; one whose disk is full is, and is one line."""
    words = [sys.executable, "-m", "headroom.cli", "version", "-o", output]
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], check=False, stderr=subprocess.PIPE, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")
    silent = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *words], check=True, stdout=subprocess.PIPE)
    assert silent.stdout
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        FAILED,
        "kubectl headroom: the answer cannot be written: No space left on device.\n",
    )

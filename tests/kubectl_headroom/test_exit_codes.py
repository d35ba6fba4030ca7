"""The exit codes of docs/kubectl.md, and empty results: the same for all commands and forms of output."""

import json
from pathlib import Path

import pytest

from kubectl_headroom.__main__ import main
from kubectl_headroom.errors import FAILED, UNAVAILABLE
from tests.kubectl_headroom.served import CONFIG, serving

CONFIG_FILE = "config.json"
LINES = (
    "top",
    "top pods -A",
    "explain node a",
    "explain pod a",
    "explain quota a",
    f"config diff {CONFIG_FILE}",
    "shadow",
    "simulate pod a",
    "quota",
    "quota verify",
    "profile list",
    "profile explain --pod a",
    "doctor",
)
READERS = tuple(line for line in LINES if line != "doctor")
"""The commands without doctor, which reports a failed request as a finding."""
OUTPUTS = ("table", "json")


def _run(folder: Path, line: str, output: str, status: int = 200) -> int:
    """Run a command against an API server without objects, or one that responds with this status alone."""
    config = folder / CONFIG_FILE
    config.write_text('{"enable": true}')
    with serving(status=status) as (url, _):
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(CONFIG % url)
        words = line.replace(CONFIG_FILE, str(config)).split()
        return main([*words, "-o", output, "--kubeconfig", str(kubeconfig)])


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("line", LINES)
def test_rejected_token_is_no_login(line: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A token that the API server rejects is exit code 3, as a missing login."""
    assert _run(tmp_path, line, output, 401) == UNAVAILABLE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("kubectl headroom: The API server does not accept this login")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("line", READERS)
def test_forbidden_is_a_failure(line: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A login without any right is exit code 1."""
    assert _run(tmp_path, line, output, 403) == FAILED
    assert capsys.readouterr().err.startswith("kubectl headroom: ")


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("line", READERS)
def test_failing_server_is_unavailable(
    line: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An API server that fails at every request is exit code 3."""
    assert _run(tmp_path, line, output, 500) == UNAVAILABLE
    assert "500" in capsys.readouterr().err


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("line", [line for line in LINES if line.split()[-1] == "a"])
def test_absent_object_is_a_failure(line: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, line, output) == FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("kubectl headroom: ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("top", "No resources found"),
        ("top nodes -l pool=web", "No resources found"),
        ("top pods", "No resources found in default namespace."),
        ("top pods -n shop", "No resources found in shop namespace."),
        ("top pods -A", "No resources found"),
        ("shadow", "No resources found"),
        ("quota", "No resources found"),
        ("profile list", "No resources found"),
        ("quota -n shop", "No resources found in shop namespace."),
    ],
)
def test_empty_result_is_reported_as_by_kubectl(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty table is a message on standard error and exit code 0; a program gets an empty document."""
    assert _run(tmp_path, line, "table") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"{message}\n")
    assert _run(tmp_path, line, "json") == 0
    said = capsys.readouterr()
    json.loads(said.out)
    assert said.err == ""


@pytest.mark.parametrize("action", ["check", "diff"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_refused_config_is_a_fault(
    action: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A config with errors is exit code 1 in every form, and a program gets a document."""
    file = tmp_path / "bad.json"
    file.write_text('{"enable": 7}')
    assert _run_config(tmp_path, action, str(file), output) == FAILED
    out = capsys.readouterr().out
    assert "enable" in (out if output == "table" else json.loads(out)["errors"][0]["path"])


def _run_config(folder: Path, action: str, file: str, output: str) -> int:
    login = [] if action == "check" else ["--kubeconfig", str(folder / "kubeconfig")]
    with serving() as (url, _):
        (folder / "kubeconfig").write_text(CONFIG % url)
        return main(["config", action, file, "-o", output, *login])

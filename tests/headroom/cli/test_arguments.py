"""The command line: every command takes what commands share."""

import argparse

import pytest

from headroom.cli import arguments, commands, live, parsers
from headroom.cli.errors import CommandError
from headroom.cli.output import FORMATS, document

LINES = (
    "top",
    "top pods -A",
    "explain node a",
    "explain pod a -n b",
    "explain quota a",
    "config diff f",
    "shadow",
    "simulate pod f.yaml",
    "quota",
    "quota verify",
    "doctor",
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("output", FORMATS)
def test_every_command_prints_every_form(line: str, output: str) -> None:
    assert arguments.parser().parse_args([*line.split(), "-o", output]).output == output


@pytest.mark.parametrize("line", LINES)
def test_every_command_logs_in_alike(line: str) -> None:
    """Login flags count before the command and after it; what is not given takes its default."""
    before = ["--context", "c", "--as", "jane", "--request-timeout", "5s"]
    options = arguments.parser().parse_args([*before, *line.split(), "--as-group", "g", "--as-group", "h"])
    assert commands._login(options) == live.Login(None, "c", "jane", ("g", "h"), 5.0)
    assert commands._login(arguments.parser().parse_args(line.split())) == live.Login()


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5.0), ("5s", 5.0), ("1m30s", 90.0), ("0", 0.0), ("500ms", 0.5), ("24h", 86400.0)]
)
def test_times(text: str, seconds: float) -> None:
    assert parsers.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "five", "-1s", "25h", "1" * 30, "²"])
def test_no_times(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parsers.seconds(text)


@pytest.mark.parametrize(
    "line",
    [
        "explain node {}",
        "explain pod {}",
        "explain pod a -n {}",
        "quota -n {}",
        "top pods -n {}",
        "top --node {}",
        "simulate pod f.yaml -n {}",
        "simulate pod f.yaml --node {}",
        "simulate pod f.yaml --headroom-namespace {}",
        "doctor -n {}",
        "doctor --config-name {}",
    ],
)
@pytest.mark.parametrize("name", ["..", ".", "a/../../b", "a?b", "a#b", "%2e%2e", "a\nb", ""])
def test_names_lead_nowhere_else(line: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name becomes a part of a path: one that would lead to another path is refused, exit code 2."""
    with pytest.raises(SystemExit) as ended:
        arguments.parser().parse_args([word.format(name) for word in line.split()])
    assert ended.value.code == 2
    assert "is not a name that an object can have" in capsys.readouterr().err


def test_simulated_pods_have_names() -> None:
    options = arguments.parser().parse_args(["simulate", "pod", ".."])
    with pytest.raises(CommandError, match=r"'\.\.' is not a name") as refused:
        commands.run(options)
    assert refused.value.exit_code == 2


def test_shortest_interval() -> None:
    assert parsers.interval("1s") == 1.0
    with pytest.raises(argparse.ArgumentTypeError, match="shorter than a second"):
        parsers.interval("500ms")


def test_what_if_is_for_nodes() -> None:
    """--set tries what a node would publish; with a pod it is refused before anything is asked."""
    options = arguments.parser().parse_args(["explain", "pod", "a", "--set", "enable=true"])
    with pytest.raises(CommandError, match="not a pod: explain node"):
        commands.COMMANDS["explain"](options)


def test_namespace_and_all_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments.parser().parse_args(["top", "pods", "-n", "a", "-A"])
    assert "not allowed with" in capsys.readouterr().err


def test_documents_are_readable() -> None:
    assert document({"b": "ä", "a": None}, "yaml") == "b: ä\na: null"
    assert document({"b": "ä", "a": None}, "json") == '{\n  "b": "ä",\n  "a": null\n}'

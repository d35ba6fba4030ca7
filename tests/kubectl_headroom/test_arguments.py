"""The command line: its words, its login, its exit codes, and their completion."""

import argparse
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_headroom import arguments, commands, live, parsers
from kubectl_headroom.__main__ import complete as program
from kubectl_headroom.__main__ import main
from kubectl_headroom.completion import complete
from kubectl_headroom.errors import FAILED, UNAVAILABLE, USAGE, CommandError
from kubectl_headroom.output import FORMATS, document

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
    "profile list",
    "profile explain --pod a",
    "doctor",
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("output", FORMATS)
def test_every_command_prints_every_form(line: str, output: str) -> None:
    assert arguments.parser().parse_args([*line.split(), "-o", output]).output == output


@pytest.mark.parametrize("line", LINES)
def test_every_command_logs_in_alike(line: str) -> None:
    """Login flags count before and after the command; a missing flag takes its default."""
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
def test_names_do_not_escape_the_path(line: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
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
    """--set previews a node's amounts; with a pod it is rejected before any request."""
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


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:%d"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {token: none}}]
"""


@pytest.fixture
def no_server(tmp_path: Path) -> str:
    """A kubeconfig whose server is unreachable."""
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
    assert set(json.loads(capsys.readouterr().out)) == {"apiVersion", "kind", "version", "python"}
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("kubectl headroom 0.")


@pytest.mark.parametrize(
    ("line", "fault", "command"),
    [
        ("tpo", "unknown command: tpo", ""),
        ("--all top", "unknown flag: --all", ""),
        ("top --all", "unknown flag: --all", " top"),
        ("config chk", "unknown command: chk", " config"),
        ("config check a b", "unexpected argument: b", " config check"),
        ("help tpo", "unknown command: tpo", ""),
        ("top services", "", " top"),
        ("explain node", "", " explain"),
        ("explain service x", "", " explain"),
        ("top -o xml", "argument -o/--output: invalid choice: 'xml'", " top"),
        ("top -o jsonpath=", "argument -o/--output: template format specified but no template given", " top"),
        ("top -o jsonpath={.a[", "argument -o/--output: error parsing jsonpath={.a[, unterminated array", " top"),
        ("top -o custom-columns=", "argument -o/--output: custom-columns format specified but no", " top"),
        ("top -o custom-columns=A", "argument -o/--output: unexpected custom-columns spec: A, expected", " top"),
        ("top -o custom-columns=A:.b[", "argument -o/--output: error parsing custom-columns=A:.b[, ", " top"),
    ],
)
def test_wrong_command_line_points_to_help(
    line: str, fault: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command line is one line with the fault and the command's help, and exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"kubectl headroom: {fault}")
    assert said.endswith(f". See 'kubectl headroom{command} --help'.\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("", ""),
        ("help", ""),
        ("help top", " top"),
        ("config", " config"),
        ("help config check", " config check"),
        ("help help", " help"),
    ],
)
def test_help_succeeds(line: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments, with `help`, and after a command without its action, the help is on standard output."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    said = capsys.readouterr()
    assert (ended.value.code, said.err) == (0, "")
    assert said.out.startswith(f"usage: kubectl headroom{command} [")


def test_help_keeps_capitals(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    assert "Why a node has its Mid resources; " in capsys.readouterr().out


@pytest.mark.parametrize("line", ["--help", "version", "top --help"])
def test_closed_pipe_is_no_error(line: str) -> None:
    """A reader that ends first, such as `head`, leaves exit code 0 and no message."""
    command = f"{sys.executable} -m kubectl_headroom {line}"
    script = f"{{ sleep 0.2; {command}; echo $? >&2; }} | true"
    done = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)
    assert done.stderr == "0\n"


@pytest.mark.parametrize("command", [["top"], ["top", "pods"], ["explain", "node", "any"]])
def test_no_api_server(command: list[str], no_server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An API server that does not answer is one line, and exit code 3."""
    assert main([*command, "--kubeconfig", no_server]) == UNAVAILABLE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("kubectl headroom: The API server at http://127.0.0.1:")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("given", [["--interval", "-1s"], ["--interval=-1s"]])
def test_negative_value_is_reported(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A negative value is reported as such, with and without an equals sign."""
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


@pytest.mark.parametrize(
    ("modules", "libraries"),
    [
        # of --help and version, with the default output
        (
            "kubectl_headroom.__main__; kubectl_headroom.arguments.parser().parse_args(['version'])",
            ("aiohttp", "numpy", "rich", "yaml", "kubectl_headroom.jsonpath"),
        ),
        (
            "kubectl_headroom.top, kubectl_headroom.explain",
            ("numpy", "scipy", "kopf", "agent", "scheduler_plugins", "kubernetes"),
        ),
    ],
)
def test_no_library_is_loaded_in_vain(modules: str, libraries: tuple[str, ...]) -> None:
    probe = f"import sys, {modules}; print([m for m in {libraries} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("output", ["table", "json"])
def test_unread_output(output: str) -> None:
    """A closed standard output is no error; one on a full disk is, in one line."""
    words = [sys.executable, "-m", "kubectl_headroom", "version", "-o", output]
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


def words(*typed: str) -> set[str]:
    return {line.partition("\t")[0] for line in complete(typed)[:-1]}


def test_commands_come_with_descriptions() -> None:
    assert {"top", "explain", "config", "quota", "simulate", "doctor", "backtest"} <= words("")
    assert all("\t" in line for line in complete([""])[:-1])


def test_each_command_has_its_options() -> None:
    for command in words("") - {"help"}:
        listed = words(command, "--")
        assert "--help" in listed
        assert ("--kubeconfig" in listed) == (command not in {"backtest", "config", "profile", "version"})
        login = {"--server", "-s", "--token", "--cluster", "--user", "--insecure-skip-tls-verify", "-v"}
        assert login <= words(command, "-") or command in {"backtest", "config", "profile", "version"}
        assert ("--no-headers" in listed) == (command in {"top", "quota", "shadow"})
    assert words("config", "") == {"check", "diff"}
    assert "--config-name" in words("config", "diff", "--conf")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("top", "-o", ""), {"table", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns="}),
        (("top", ""), {"nodes", "pods"}),
        (("top", "--interval", "5s", ""), {"nodes", "pods"}),
        (("explain", "n"), {"node"}),
        (("explain", "d"), {"deployment", "daemonset"}),
        (("simulate", "p"), {"pod"}),
        (("top", "nodes", ""), set()),
        (("explain", "node", ""), set()),
        (("version", ""), set()),
        (("help", "config", ""), {"check", "diff"}),
        (("profile", ""), {"explain", "list"}),
        (
            (),
            {
                "top",
                "explain",
                "config",
                "quota",
                "simulate",
                "doctor",
                "backtest",
                "profile",
                "shadow",
                "version",
                "help",
            },
        ),
    ],
)
def test_choices(typed: tuple[str, ...], expected: set[str]) -> None:
    assert words(*typed) == expected


@pytest.mark.parametrize(
    ("typed", "directive"),
    [
        (("config", "check", ""), ":0"),
        (("--kubeconfig", ""), ":0"),
        (("simulate", "pod", "--profile", ""), ":0"),
        (("simulate", "pod", ""), ":0"),
        (("top", ""), ":4"),
        (("top", "nodes", ""), ":4"),
    ],
)
def test_files(typed: tuple[str, ...], directive: str) -> None:
    assert complete(typed)[-1] == directive


def test_program_prints_a_line_for_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-headroom", "conf"])
    assert program() == 0
    line, directive = capsys.readouterr().out.splitlines()
    assert (line.partition("\t")[0], directive) == ("config", ":4")

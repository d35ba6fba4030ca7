"""Shell completion, by the parser alone; what the cluster adds is in test_live.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headroom.cli import arguments
from headroom.cli.__main__ import main
from headroom.cli.completion import command, scripts
from headroom.cli.completion.candidates import Names, Next, after

ROOT = Path(__file__).parents[3]


def following(*words: str) -> Next:
    """What can stand in the place of the last word."""
    return after(arguments.parser(), words)


def names(found: Next) -> set[str]:
    """The words alone."""
    return {word for word, _ in found.candidates}


def test_commands_come_first() -> None:
    """At the beginning every command is offered, with what it does."""
    found = following("")
    assert {"top", "explain", "config", "quota", "simulate", "doctor", "completion"} <= names(found)
    assert all(told for _, told in found.candidates)


def test_every_command_is_walked() -> None:
    """Every command of the parser, and every action of config, offers its own options."""
    for word in names(following("")):
        offered = names(following(word, "--"))
        assert "--help" in offered
        assert ("--kubeconfig" in offered) == (word not in {"backtest", "config", "version", "completion"})
    assert names(following("config", "")) == {"check", "diff", "explain"}
    assert "--config-name" in names(following("config", "diff", "--conf"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("top", "-o", ""), {"table", "wide", "json", "yaml"}),
        (("top", "--output=j"), {"--output=table", "--output=wide", "--output=json", "--output=yaml"}),
        (("top", ""), {"nodes", "node", "pods", "pod"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("--color", ""), {"auto", "always", "never"}),
        (("explain", ""), {"node", "pod", "quota"}),
        (("backtest", "-o", ""), {"table", "wide", "json", "yaml", "csv"}),
        (("backtest", "--policies", ""), {"all"}),
    ],
)
def test_choices(words: tuple[str, ...], expected: set[str]) -> None:
    """Options and places with few values offer these."""
    assert names(following(*words)) == expected


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("explain", "node", ""), Names.NODES),
        (("explain", "-n", "shop", "pod", ""), Names.PODS),
        (("explain", "quota", "--", ""), Names.QUOTAS),
        (("quota", "explain", ""), Names.PODS),
        (("quota", "verify", ""), None),
        (("top", "--node", ""), Names.NODES),
        (("top", "pods", "-n", ""), Names.NAMESPACES),
        (("simulate", "pod", ""), Names.PODS),
        (("--context", ""), Names.CONTEXTS),
        (("config", "explain", ""), Names.FIELDS),
        (("backtest", "--policy", ""), Names.POLICIES),
        (("top", "--interval", ""), None),
        (("version", ""), None),
    ],
)
def test_names_of_the_cluster(words: tuple[str, ...], kind: Names | None) -> None:
    """Where a name stands, names of its kind are asked for, whatever options stand before."""
    assert following(*words).names is kind


@pytest.mark.parametrize(
    "words",
    [
        ("config", "check", ""),
        ("--kubeconfig", ""),
        ("simulate", "pod", "--profile", ""),
        ("backtest", "--trace", ""),
        ("backtest", "--db", "one.db", ""),
        ("backtest", "--seed", "0", "--db", "one.db", "two.db", ""),
    ],
)
def test_files(words: tuple[str, ...]) -> None:
    """Where a file stands, the shell offers files."""
    assert following(*words).files


def test_what_was_given_counts() -> None:
    """The cluster is asked as the words before say."""
    found = following("explain", "--kubeconfig", "k", "--context=c", "pod", "-n", "shop", "")
    assert {name: found.given[name] for name in ("kubeconfig", "context", "namespace")} == {
        "kubeconfig": "k",
        "context": "c",
        "namespace": "shop",
    }


def test_only_what_begins_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Candidates begin as what was typed; the last line says that the shell adds no files."""
    command.run(["co"])
    *lines, directive = capsys.readouterr().out.splitlines()
    assert {line.split("\t")[0] for line in lines} == {"config", "completion"}
    assert directive == ":4"


def test_fields_need_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of fields come with what they mean."""
    command.run(["config", "explain", "midEviction.m"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("midEviction.mode\t")


def test_options_end_lists_of_files() -> None:
    """Behind another option's value no further file is offered."""
    assert not following("backtest", "--db", "one.db", "--seed", "0", "").files


def test_policies_need_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of policies are those of the agent's models, and the default one."""
    command.run(["backtest", "--policy", "d"])
    assert capsys.readouterr().out.splitlines() == ["default", "diversity", ":4"]


def test_no_cluster_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While somebody types, a cluster that cannot be asked makes no noise."""
    command.run(["--kubeconfig", str(tmp_path / "missing"), "explain", "node", ""])
    said = capsys.readouterr()
    assert (said.out, said.err) == (":4\n", "")


def test_contexts_of_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Contexts are those of all files in $KUBECONFIG, each once."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"contexts: [{{name: {name}}}, {{name: both}}]\n")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    command.run(["top", "--context", ""])
    assert capsys.readouterr().out.splitlines() == ["one", "both", "two", ":4"]


@pytest.mark.parametrize("shell", arguments.SHELLS)
def test_scripts_ask_us(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each shell's script is printed, and asks the hidden command."""
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert out == scripts.of(shell)
    assert "__complete" in out


@pytest.mark.alone
@pytest.mark.parametrize(
    ("line", "offered"), [("kubectl-headroom explain n", "node"), ("kubectl-headroom top -o w", "wide")]
)
def test_bash_completes(line: str, offered: str, tmp_path: Path) -> None:
    """Bash itself completes a line with the script."""
    bash = shutil.which("bash")
    assert bash is not None
    program = tmp_path / "kubectl-headroom"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headroom.cli "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(scripts.of("bash"))
    words = " ".join(f"'{word}'" for word in line.split())
    last = len(line.split()) - 1
    asks = f'. ./script; COMP_WORDS=({words}); COMP_CWORD={last}; _kubectl_headroom; printf "%s\\n" "${{COMPREPLY[@]}}"'
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([bash, "-c", asks], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [offered]


def test_names_forge_no_candidate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A name or a description that could control the terminal or forge a line is left out, or escaped."""
    listed = [("sound", "told\x1b[2J\nFORGED\tword"), ("bad\nFORGED", ""), ("\x1b]0;title\x07", "")]
    monkeypatch.setattr(command, "_names", lambda _found, _typed: listed)
    command.run(["explain", "node", ""])
    lines = capsys.readouterr().out.split("\n")
    assert "sound\ttold\\x1b[2J\\nFORGED\\tword" in lines
    assert not [line for line in lines if line.startswith(("FORGED", "bad", "\x1b"))]

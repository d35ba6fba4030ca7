"""Completion as kubectl asks for it: words of the parser, and a directive for the shell."""

import sys

import pytest

from headroom.cli.__main__ import complete as program
from headroom.cli.completion import complete


def words(*typed: str) -> set[str]:
    return {line.partition("\t")[0] for line in complete(typed)[:-1]}


def test_commands_come_with_descriptions() -> None:
    assert {"top", "explain", "config", "quota", "simulate", "doctor", "backtest"} <= words("")
    assert all("\t" in line for line in complete([""])[:-1])


def test_each_command_has_its_options() -> None:
    for command in words(""):
        offered = words(command, "--")
        assert "--help" in offered
        assert ("--kubeconfig" in offered) == (command not in {"backtest", "config", "version"})
    assert words("config", "") == {"check", "diff"}
    assert "--config-name" in words("config", "diff", "--conf")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("top", "-o", ""), {"table", "wide", "json", "yaml"}),
        (("top", ""), {"nodes", "node", "pods", "pod"}),
        (("top", "--interval", "5s", ""), {"nodes", "node", "pods", "pod"}),
        (("explain", "n"), {"node"}),
        (("explain", "node", ""), set()),
        (("version", ""), set()),
        ((), {"top", "explain", "config", "quota", "simulate", "doctor", "backtest", "shadow", "version"}),
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
        (("top", ""), ":4"),
    ],
)
def test_files(typed: tuple[str, ...], directive: str) -> None:
    assert complete(typed)[-1] == directive


def test_program_prints_a_line_for_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-headroom", "conf"])
    assert program() == 0
    line, directive = capsys.readouterr().out.splitlines()
    assert (line.partition("\t")[0], directive) == ("config", ":4")

"""Words of a command line: removed ones, and negative values."""

from dataclasses import dataclass

import pytest

from headroom.runtime.option_types import TEXT
from headroom.runtime.options import WrongSetting, load, misspelled, setting
from headroom.runtime.removed import REMOVED
from headroom.runtime.text import joined
from kubectl_headroom.__main__ import main
from kubectl_headroom.errors import USAGE


@dataclass(frozen=True)
class Settings:
    pods_from: str = setting("api", flag="pods-from", kind=TEXT)
    """Where pods come from."""


@pytest.mark.parametrize("name", [name for kind, name in REMOVED if kind == "flag"])
def test_removed_flag_is_refused(name: str) -> None:
    """The flag alone, with a value after it and with a value after "=" is refused; the variable is reported."""
    flag, _, content = name.partition("=")
    sentence = REMOVED["flag", name]
    for arguments in ([flag, content or "x"], [f"{flag}={content or 'x'}"], ["--other", flag, content]):
        with pytest.raises(WrongSetting) as refusal:
            load(Settings, "headroom-agent", arguments, {})
        assert str(refusal.value) == sentence
    if not content:
        variable = "HEADROOM_AGENT_" + flag.removeprefix("--").replace("-", "_").upper()
        (said,) = misspelled(Settings, "headroom-agent", {variable: "x"})
        assert said == f"the variable {variable} does nothing: {sentence}"


def test_other_values_of_the_flag_remain() -> None:
    assert load(Settings, "headroom-agent", ["--pods-from", "cgroups"], {})[0].pods_from == "cgroups"


@pytest.mark.parametrize("name", [name for kind, name in REMOVED if kind == "command"])
def test_removed_command_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "x"]) == USAGE
    assert REMOVED["command", name] in capsys.readouterr().err


def test_values_are_no_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--context", "completion", "version"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--interval", "-1s"], ["--interval=-1s"]),
        (["--interval", "-.5s", "--listen", ":1"], ["--interval=-.5s", "--listen", ":1"]),
        (["--interval=1s", "-1"], ["--interval=1s", "-1"]),  # this one has its value
        (["-o", "-1"], ["-o", "-1"]),
        (["--once", "-o", "json"], ["--once", "-o", "json"]),
        (["--interval", "--", "-1s"], ["--interval", "--", "-1s"]),
        (["--", "--interval", "-1s"], ["--", "--interval", "-1s"]),
        (["-1s"], ["-1s"]),
        ([], []),
    ],
)
def test_negative_values_are_joined(words: list[str], expected: list[str]) -> None:
    """A word of minus and a digit is the value of the long flag before it; nothing else changes."""
    assert joined(words) == expected

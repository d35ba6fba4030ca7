"""`python -m tools.soak`: which steps run, for how long, and what is said in the end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.soak import HOUR, STEPS, api_server
from tools.soak import __main__ as program
from tools.soak.progress import Check
from tools.soak.step_process import Outcome

GOOD, BAD = Check("it holds", passed=True, found="seen"), Check("it holds", passed=False, found="not seen")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[float, float]]:
    """Steps that pass at once, all but `month`; which were run, with their time and what may come on top. [s]"""
    times: dict[str, tuple[float, float]] = {}

    def run(name: str, _module: str, seconds: float, spare: float, show: Callable[[str], None]) -> Outcome:
        times[name] = seconds, spare
        show("half way")
        return Outcome(Path("/log"), [BAD if name == "month" else GOOD])

    monkeypatch.setattr(program, "run", run)
    return times


def test_hour_is_shared_out(given: dict[str, tuple[float, float]], capsys: pytest.CaptureFixture[str]) -> None:
    """All steps run in order, and together take no more than an hour, with what they may need to end."""
    assert program.main([]) == 1
    assert list(given) == list(STEPS)
    beyond = sum(step.longer_seconds for step in STEPS.values())
    assert sum(seconds + spare for seconds, spare in given.values()) == pytest.approx(HOUR * 60 + beyond)
    said = capsys.readouterr().out
    assert said.index(f"{len(STEPS)} steps, 60 minutes") < said.index("half way")
    assert said.strip().splitlines()[-1] == f"{len(STEPS) - 1} passed, 1 failed"
    assert "FAILED  it holds: not seen" in said


def test_some_steps_get_the_time(given: dict[str, tuple[float, float]], capsys: pytest.CaptureFixture[str]) -> None:
    """Steps that are named share the minutes given; without minutes each has what it has in the hour."""
    assert program.main(["--only", "kills,manager", "--minutes", "38"]) == 0
    assert list(given) == ["manager", "kills"]
    assert sum(seconds + spare for seconds, spare in given.values()) == pytest.approx(38 * 60)
    assert "2 passed, 0 failed" in capsys.readouterr().out
    assert program.main(["--only", "fuzz"]) == 0
    assert given["fuzz"] == pytest.approx((STEPS["fuzz"].minutes * 60, 60))


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--only", "kils"], "no step named kils: choose from fuzz, manager, month"),
        (["--minutes", "0.5"], "'0.5': write a number of minutes from 1 on"),
        (["--minutes", "nan"], "'nan'"),
        (["--minutes", "soon"], "'soon'"),
    ],
)
def test_wrong_words_are_refused(words: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that does not exist, or a time that is none, is refused before anything runs."""
    with pytest.raises(SystemExit) as ended:
        program.main(words)
    assert ended.value.code == 2
    assert what in capsys.readouterr().err


def test_interruption_says_what_was_left_out(
    given: dict[str, tuple[float, float]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After Ctrl-C it is said which steps were not tried, and the exit code is not that of a success."""
    sound: Callable[..., Outcome] = vars(program)["run"]

    def run(name: str, module: str, seconds: float, spare: float, show: Callable[[str], None]) -> Outcome:
        if name == "month":
            raise KeyboardInterrupt
        return sound(name, module, seconds, spare, show)

    monkeypatch.setattr(program, "run", run)
    assert program.main([]) == 130
    said = capsys.readouterr().out
    assert "not tried: month, api-server, quotas, large-objects, kills, strangers" in said
    assert "2 passed, 0 failed" in said
    assert list(given) == ["fuzz", "manager"]


@pytest.mark.parametrize("minutes", [0.2, 1.0, STEPS["api-server"].minutes, 60.0])
def test_patience_fits_into_the_time(minutes: float) -> None:
    """A restart that never settles is named by its step: nobody ends the step while it still waits for it."""
    assert api_server.longest(minutes * 60) <= minutes * 60 + STEPS["api-server"].longer_seconds

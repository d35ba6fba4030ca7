"""A step as a process: what it tells, and how it ends."""

from pathlib import Path

import pytest

from tools.soak import step_process
from tools.soak.progress import Check, heard
from tools.soak.step_process import Outcome

MODULE = "tests.tools.soak.made_step"


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Logs go to a folder of the test's own."""
    monkeypatch.setattr(step_process, "cache_directory", lambda: tmp_path)
    return monkeypatch


def _run(step: pytest.MonkeyPatch, what: str, seconds: float = 600.0, spare: float = 60.0) -> tuple[Outcome, list[str]]:
    step.setenv("MADE_STEP", what)
    said: list[str] = []
    return step_process.run("made", MODULE, seconds, spare, said.append), said


def test_claims_that_hold_pass(step: pytest.MonkeyPatch) -> None:
    """A step whose claims hold has passed; what it says of its way is shown, all is in its log."""
    outcome, said = _run(step, "hold")
    assert outcome.passed
    assert [check.what for check in outcome.checks] == ["the first claim", "the second claim"]
    assert said == ["about to hold"]
    assert "no line of ours" in outcome.log.read_text()


def test_one_claim_fails_the_step(step: pytest.MonkeyPatch) -> None:
    """A step with a claim that does not hold has failed, and nothing else is wrong with it."""
    outcome, _ = _run(step, "fail")
    assert not outcome.passed
    assert not outcome.problem
    assert [check.passed for check in outcome.checks] == [True, False]


def test_breaking_off_is_told(step: pytest.MonkeyPatch) -> None:
    """A step that breaks off has failed, with the end of what it said."""
    outcome, _ = _run(step, "break off")
    assert not outcome.passed
    assert "exit code 1" in outcome.problem
    assert "the machine is too small" in outcome.problem


def test_no_claim_is_no_success(step: pytest.MonkeyPatch) -> None:
    """A step that claims nothing has not passed."""
    outcome, _ = _run(step, "say nothing")
    assert not outcome.passed
    assert outcome.problem


@pytest.mark.alone
def test_endless_step_is_ended(step: pytest.MonkeyPatch) -> None:
    """A step that goes on beyond its time is ended, and has failed although its claims held."""
    outcome, _ = _run(step, "go on for ever", seconds=5.0, spare=5.0)
    assert not outcome.passed
    assert "did not end within 5 s" in outcome.problem
    assert "the last that it said: about to go on for ever" in outcome.problem


def test_old_logs_go(step: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only the last twenty logs are kept."""
    folder = tmp_path / "logs" / "soak"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"20000101-0000{number:02d}-made.log").touch()
    _run(step, "hold")
    left = sorted(path.name for path in folder.iterdir())
    assert len(left) == step_process.KEPT_LOGS
    assert left[0] == "20000101-000011-made.log"


@pytest.mark.parametrize("line", ["", "no JSON", "[1]", "{}", '{"what": "x"}', "17"])
def test_other_lines_are_no_claims(line: str) -> None:
    """What is not one of our lines says nothing."""
    assert heard(line) == ""


def test_lines_are_heard() -> None:
    """A claim comes as one, a word about the way as a text."""
    assert heard('{"said": "half way"}') == "half way"
    assert heard('{"what": "a", "passed": false, "found": "b"}') == Check("a", passed=False, found="b")

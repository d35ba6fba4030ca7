"""Steps of `make soak` as processes: what passes, what fails, and what does not end."""

import sys
from pathlib import Path

import pytest

from tools.soak import __main__ as soak

STEP = """
from tools.soak.progress import Progress, run
def trial(progress: Progress) -> None:
    {what}
run(trial)
"""


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("progress.check('a claim', 'seen', passed=True)", ""),
        ("progress.check('a claim', 'seen', passed=False)", "FAILED with exit code 1"),
        ("progress.log('no claim')", "FAILED with exit code 1"),
        ("raise SystemExit(7)", "FAILED with exit code 7"),
        ("import time; progress.check('a claim', 'seen', passed=True); time.sleep(600)", "FAILED: it did not end"),
    ],
    ids=["holds", "does not hold", "claims nothing", "breaks off", "does not end"],
)
def test_step(what: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step passes when it ends in time and all that it claims holds, which is something."""
    (tmp_path / "made_step.py").write_text(STEP.format(what=what), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path.cwd()}:{':'.join(sys.path)}")
    result = soak.run("made_step", 600.0 if "end" not in problem else 2.0, 1.0)
    assert result.startswith(problem) if problem else not result

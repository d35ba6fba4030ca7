"""A run of benchmarks: what fails is named, the others are measured, and what was measured is kept."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.bench.__main__ import main
from tools.bench.measurement import Measurement, Picture
from tools.bench.results import FILE, item, load, plain

ROW = Measurement("a tick", "3 ms", "<= 5 ms", "none", 3.0)


def test_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A part that fails is named with its last words and keeps its earlier figures; the others are measured."""
    script = tmp_path / "part.py"
    items = [plain(each) for each in (ROW, Picture("drawn", "A line", "<svg/>"))]
    script.write_text(
        "import json, sys\nname = sys.argv[sys.argv.index('--here') + 1]\n"
        f"sys.exit('no such thing') if name == 'tick' else [print(json.dumps(each)) for each in {items!r}]\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" "{script}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    before: dict[str, Any] = {"at": "2026", "seconds": 1, "commit": "", "machine": "m", "items": [plain(ROW)]}
    out = tmp_path / "out"
    out.mkdir()
    (out / FILE).write_text(json.dumps({"version": 2, "parts": {"tick": before}}))
    assert main(["--out", str(out), "tick", "store"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "tick: failed with 1: no such thing (see " in said
    assert "not measured: tick" in said
    kept = load(out)
    assert kept["tick"] == before
    assert item(kept["store"]["items"][0]) == ROW
    assert (out / "drawn.svg").read_text() == "<svg/>"
    assert (out / "tick.log").exists()
    assert not (out / "store.log").exists()


@pytest.mark.parametrize(
    ("budget", "value", "within"),
    [
        ("<= 2 % of one core", 1.9, True),
        ("<= 2 % of one core", 2.1, False),
        (">= 1.0 x no extender", 0.77, False),
        ("p99 <= 1,024 MiB", 1000.0, True),
        ("<= 1024 MiB", None, None),  # nothing was measured
        ("none", 5.0, None),
    ],
)
def test_budget_is_read(budget: str, value: float | None, within: bool | None) -> None:  # noqa: FBT001 - expected
    """Whether a budget is kept follows from its text and the figure."""
    assert Measurement("x", "y", budget, value=value).within is within


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 1, "run": null, "parts": {}}', '{"version": 2}'])
def test_foreign_file_is_refused(content: str, tmp_path: Path) -> None:
    """A file that is not ours is named, and stays as it is."""
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ValueError, match=r"results\.json is not what `make bench` writes"):
        load(tmp_path)
    assert main(["--out", str(tmp_path), "tick"]) == 2
    assert (tmp_path / FILE).read_text() == content

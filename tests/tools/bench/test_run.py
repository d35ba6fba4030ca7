"""A run of benchmarks: what fails is named, what was measured is kept, and a run can go on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.architecture.sources import ROOT
from tools.bench import __main__ as program
from tools.bench.measurement import Grid, Item, Measurement, Picture
from tools.bench.parts import Part
from tools.bench.records import FILE, MEASURED, Record, Results, Run, plain
from tools.bench.run import Runner, duration

ROW = Measurement("a tick", "3 ms", "<= 5 ms", "none", 3.0)
SCRIPT = """
import json, os, subprocess, sys, time
name, folder = sys.argv[1], {folder!r}
open(os.path.join(folder, "ran"), "a").write(name + "\\n")
if name == "breaks" and not os.path.exists(os.path.join(folder, "mended")):
    print("first line", file=sys.stderr)
    sys.exit("there is no such thing")
if name == "silent":
    sys.exit(0)
if name == "hangs":
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
for item in {items!r}:
    print(json.dumps(item), flush=True)
"""
ITEMS: Sequence[Item] = [ROW, Grid("Some rows:", [["a"], ["1"]]), Picture("drawn", "A line", "<svg/>")]
NAMES = ("breaks", "works", "silent", "hangs")
Make = Callable[..., Runner]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a runner whose parts are a small program of ours."""
    monkeypatch.setattr("tools.bench.hardware.LISTEN_SECONDS", 0.01)
    script = tmp_path / "part.py"
    script.write_text(SCRIPT.format(folder=str(tmp_path), items=[plain(one) for one in ITEMS]))
    parts = {name: Part("some", name, 0.1, "") for name in NAMES}

    def make(*, quick: bool = False) -> Runner:
        return Runner(tmp_path / "out", quick, parts, (sys.executable, str(script)))

    return make


def _ran(tmp_path: Path) -> list[str]:
    return (tmp_path / "ran").read_text().split()


def test_others_go_on(runner: Make, tmp_path: Path) -> None:
    """A part that fails is named with its last words; the others are measured and kept."""
    results, said = Results(), list[str]()
    runner().run(["breaks", "silent", "works"], results, said.append)
    assert _ran(tmp_path) == ["breaks", "silent", "works"]
    assert results.run is not None
    outcomes = results.run.outcomes
    assert outcomes["breaks"].startswith("failed with 1: there is no such thing (see ")
    assert outcomes["silent"] == "failed: it measured nothing"
    assert outcomes["works"] == MEASURED
    assert said[0].startswith("breaks: failed with 1")
    assert "2 to go" in said[0]
    assert list(results.parts) == ["works"]
    assert results.parts["works"].items[0] == ROW
    assert (tmp_path / "out" / "drawn.svg").read_text() == "<svg/>"
    assert "first line" in (tmp_path / "out" / "breaks.log").read_text()
    assert not (tmp_path / "out" / "works.log").exists()


def test_run_goes_on(runner: Make, tmp_path: Path) -> None:
    """Whoever goes on with a run measures what failed or is missing, and nothing twice."""
    names = ["works", "breaks"]
    runner().run(names, Results(), print)
    (tmp_path / "mended").touch()
    again = Results.load(tmp_path / "out")
    assert again.run is not None
    assert again.run.left == ["breaks"]
    runner().run(names, again, print)
    assert _ran(tmp_path) == ["works", "breaks", "breaks"]
    assert Results.load(tmp_path / "out") == again
    assert again.run.left == []


def test_failure_keeps_what_was(runner: Make, tmp_path: Path) -> None:
    """A part that fails leaves the figures of an earlier run as they are."""
    (tmp_path / "mended").touch()
    runner().run(["breaks"], results := Results(), print)
    before = results.parts["breaks"]
    (tmp_path / "mended").unlink()
    results.run = None
    runner().run(["breaks"], results, print)
    assert Results.load(tmp_path / "out").parts["breaks"] == before


def test_hanging_part_is_ended(runner: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that takes many times as long as it should is ended, and said to be."""
    monkeypatch.setattr("tools.bench.run._QUICK_MINUTES", 0.005)
    runner(quick=True).run(["hangs"], results := Results(), print)
    assert results.run is not None
    assert results.run.outcomes["hangs"] == "failed: it was ended after 1 s"


def test_interruption_is_kept(runner: Make, tmp_path: Path) -> None:
    """After Ctrl-C what was measured is there, and the part that was interrupted is left."""
    results = Results()

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner().run(["works", "breaks"], results, interrupt)
    kept = Results.load(tmp_path / "out")
    assert kept.run is not None
    assert kept.run.left == ["breaks"]
    assert set(kept.parts) == {"works"}


@pytest.mark.parametrize(
    ("budget", "value", "within"),
    [
        ("<= 2 % of one core", 1.9, True),
        ("<= 2 % of one core", 2.1, False),
        (">= 1.0 x no extender", 0.77, False),
        (">= 65 %", 65.0, True),
        ("p99 <= 1,024 MiB", 1000.0, True),
        ("<= 1024 MiB", None, None),  # nothing was measured
        ("none", 5.0, None),
    ],
)
def test_budget_is_read(budget: str, value: float | None, within: bool | None) -> None:  # noqa: FBT001 - expected
    """Whether a budget is kept follows from its text and the figure."""
    assert Measurement("x", "y", budget, value=value).within is within


def test_results_survive_the_file(tmp_path: Path) -> None:
    """What is read is what was written, but for the drawings, which are files of their own."""
    items = (ROW, Grid("t", [["a", "b"]]), Picture("p", "P", ""))
    record = Record("2026-01-02T03:04:05Z", 1.5, "abc", {"cpus": 2}, None, items, "a note")
    results = Results({"x": record}, Run("2026-01-02T03:04:05Z", ["x", "y"], quick=False, outcomes={"x": MEASURED}))
    results.save(tmp_path)
    assert Results.load(tmp_path) == results
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 2, "run": null, "parts": {}}', '{"version": 1}'])
def test_foreign_file_is_refused(content: str, tmp_path: Path) -> None:
    """A file that is not ours is named, and stays as it is."""
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ValueError, match=r"results\.json is not what `make bench` writes"):
        Results.load(tmp_path)
    assert program.main(["--out", str(tmp_path), "tick"]) == 2
    assert (tmp_path / FILE).read_text() == content


def test_nothing_to_go_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a run that is incomplete, --resume says so."""
    assert program.main(["--out", str(tmp_path), "--resume"]) == 2
    done = {"began": "2026-01-02T03:04:05Z", "names": ["tick"], "quick": False, "outcomes": {"tick": MEASURED}}
    (tmp_path / FILE).write_text(json.dumps({"version": 1, "run": done, "parts": {}}))
    assert program.main(["--out", str(tmp_path), "--resume"]) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "There is no run to go on with" in said
    assert "began at 2026-01-02T03:04:05Z is complete" in said


@pytest.mark.parametrize(("minutes", "words"), [(0.0, "1 s"), (0.5, "30 s"), (15, "15 min"), (120, "2.0 h")])
def test_durations_in_words(minutes: float, words: str) -> None:
    """Times are told in what people count them in."""
    assert duration(minutes) == words


@pytest.mark.alone
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_part_ends_with_the_run(how: signal.Signals, runner: Make, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM end the part that runs, with what it started; what is left is named, with how to go on."""
    program_text = f"""
import signal, sys
from pathlib import Path
from tools.bench import __main__ as program
from tools.bench.parts import Part
from tools.bench.run import Runner
for each in (signal.SIGTERM, signal.SIGINT):  # a shell's background programs ignore the second
    signal.signal(each, signal.default_int_handler)
program.hardware.LISTEN_SECONDS = 0.01
parts = {{name: Part("some", name, 0.1, "") for name in {NAMES!r}}}
program.PARTS = parts
program.chosen = list
program.Runner = lambda folder, quick: Runner(folder, quick, parts, {tuple(runner().command)!r})
sys.exit(program.main(["--out", {str(tmp_path / "out")!r}, "works", "hangs", "silent"]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program_text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        deadline = time.monotonic() + 120
        while not (tmp_path / "ran").exists() or "hangs" not in _ran(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (part,) = psutil.Process(run.pid).children()
        while not (started := part.children()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run.send_signal(how)
        said = " ".join(run.communicate(timeout=120)[0].split())
    assert run.returncode == program.INTERRUPT_STATUS, said
    assert not part.is_running()
    gone, _ = psutil.wait_procs(started, timeout=120)
    assert gone == started
    assert "not measured: hangs, silent; `python -m tools.bench --resume`" in said
    kept = Results.load(tmp_path / "out")
    assert set(kept.parts) == {"works"}
    assert kept.run is not None
    assert kept.run.left == ["hangs", "silent"]

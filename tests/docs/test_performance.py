"""docs/performance.md has what tools/bench/results/results.json has, for every part there is."""

import pytest

from tools.bench import overview, page
from tools.bench.hardware import Description
from tools.bench.measurement import Grid, Measurement, Picture
from tools.bench.parts import PARTS
from tools.bench.records import Record, Results

ROW = Measurement("a tick", "3 ms", "<= 5 ms", "a peer's 4 ms", 3.0)
MACHINE: Description = {"architecture": "riscv", "cpus": 2, "memoryGiB": 4.0, "python": "3.11"}


def _record(busy: float | None = None, **machine: str | float) -> Record:
    items = (ROW, Measurement("b", "5 s"), Grid("Some rows:", [["a", "b"], ["1|2", "3"]]), Picture("p", "A line", ""))
    return Record("2026-01-02T03:04:05Z", 90.0, "abc", {**MACHINE, **machine}, busy, items)


def test_page_has_the_results() -> None:
    """What the page shows is what was measured: `python -m tools.bench.page` would change nothing."""
    text = page.PAGE.read_text()
    assert page.rewritten(text, Results.load(page.RESULTS)) == text


def test_page_has_every_part() -> None:
    """Each part has one place on the page, and so has the summary."""
    assert sorted(page.places(page.PAGE.read_text())) == sorted([*PARTS, page.SUMMARY])


def test_pictures_are_there() -> None:
    """Each picture of the results is beside them, and nothing else is."""
    results = Results.load(page.RESULTS)
    names = {one.name for part in results.parts.values() for one in part.items if isinstance(one, Picture)}
    assert {*names, overview.NAME} == {path.stem for path in page.RESULTS.glob("*.svg")}


def test_place_is_filled() -> None:
    """A place has the machine, the day, the state of the sources, all rows, tables and pictures."""
    text = "before\n<!-- measured: tick -->\nold\n<!-- end -->\nafter\n"
    found = page.rewritten(text, Results({"tick": _record()}))
    assert found.startswith("before\n<!-- measured: tick -->\n")
    assert found.endswith("<!-- end -->\nafter\n")
    assert "old" not in found
    assert "`tick`: measured on 2026-01-02, commit abc, in 2 min, on machine 1." in found
    assert "| a tick | <= 5 ms | a peer's 4 ms | 3 ms | yes |" in found
    assert "Some rows:\n\n| a | b |\n|---|---|\n| 1/2 | 3 |" in found
    assert "![A line](../tools/bench/results/p.svg)" in found
    assert page.rewritten(found, Results({"tick": _record()})) == found


def test_machines_are_told_apart() -> None:
    """Each machine is described once; parts refer to it, and state when it was busy."""
    text = "<!-- measured: summary -->\n<!-- end -->\n<!-- measured: week -->\n<!-- end -->\n"
    parts = {"week": _record(120.0, cpus=8), "tick": _record(3.0)}
    found = page.rewritten(text, Results(parts))
    assert "- Machine 1: riscv: 2 CPUs, 4.0 GiB, Python 3.11\n- Machine 2: riscv: 8 CPUs" in found
    assert found.count("| a tick |") == 3  # twice in the summary, once at its place
    assert "on machine 2, which did other things with 120 % of a core just before" in found


def test_missing_part_is_said() -> None:
    """A part that was never measured is shown as such, with what it would take."""
    found = page.rewritten("<!-- measured: week -->\n<!-- end -->\n", Results())
    assert "`week` was not measured yet: a simulated week, about 3 min." in found


def test_unknown_place_is_refused() -> None:
    """A place for what is not measured is a mistake of the page."""
    with pytest.raises(KeyError):
        page.rewritten("<!-- measured: nothing -->\n<!-- end -->\n", Results())

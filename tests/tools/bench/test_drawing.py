"""Drawings: the same figures give the same bytes, and what is used of a budget."""

import pytest

from tools.bench.drawing import bars, drawing, lines
from tools.bench.manager_pictures import pictures
from tools.bench.measurement import Measurement, Picture
from tools.bench.overview import picture, used
from tools.bench.scheduler_parts import NONE, SHORTLIST, Mode
from tools.bench.scheduler_table import Run
from tools.bench.scheduler_table import picture as ratios


def _drawn() -> Picture:
    with drawing(columns=2) as (axes, finish):
        lines(axes[0], {"one": [(1.0, 2.0), (3.0, 4.0)], "two": [(1.0, 1.0)]}, "nodes", "time [s]", powers=True)
        bars(axes[1], {"a": (1.0, 0.5, 2.0)}, "ratio", named=False)
        return finish("name", "A title")


def test_same_figures_same_bytes() -> None:
    """A drawing has no time and no random name in it, so that a run that measured the same changes nothing."""
    assert _drawn() == _drawn()
    assert "time [s]" in _drawn().svg


@pytest.mark.parametrize(
    ("budget", "value", "share"),
    [
        ("<= 2 %", 0.5, 0.25),
        (">= 1.0 x no extender", 0.5, 2.0),
        ("<= 0", 0.0, None),  # of nothing there are no shares
        ("<= 2 %", 0.0, 0.003),  # the shortest bar
        ("none", 1.0, None),
        ("<= 2 %", None, None),
    ],
)
def test_share_of_a_budget(budget: str, value: float | None, share: float | None) -> None:
    """A share below 1 keeps the budget, whichever way it bounds."""
    assert used(Measurement("x", "y", budget, value=value)) == share


def test_overview_has_what_has_a_budget() -> None:
    """Figures without a budget are left out; long names are cut."""
    drawn = picture(
        [Measurement("kept", "1", "<= 2", value=1.0), Measurement("a" * 50 + "b" * 50, "9", "<= 2", value=9.0)]
    )
    assert "kept" in drawn.svg
    assert f"{'a' * 37} ... {'b' * 37}" in drawn.svg
    assert "no budget" not in picture([Measurement("no budget", "1")]).svg


def test_manager_is_drawn() -> None:
    """Growth and latencies are drawn, also where some figures are missing."""
    figures: dict[int, dict[str, float | None]] = {
        500: {"manager_cpu": 3.0, "first_p99": None},
        1000: {"manager_cpu": 6.0, "first_p99": 0.5},
    }
    assert [one.name for one in pictures(figures)] == ["manager-growth", "manager-latency"]


def test_scheduler_is_drawn() -> None:
    """Each mode has a bar for every number of nodes."""
    runs = [Run(nodes, 0, mode, 9.0, {}, 0.0, None) for nodes in (1000, 5000) for mode in (Mode(NONE), Mode(SHORTLIST))]
    svg = ratios(runs).svg
    assert "x no extender, 1,000 nodes" in svg
    assert "x no extender, 5,000 nodes" in svg

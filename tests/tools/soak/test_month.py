"""The simulated month: its verdict, its pace, and that its agent runs."""

from pathlib import Path

import pytest

from crds.predict_policy import DEFAULTS
from tools.bench.workload import PODS
from tools.soak import month
from tools.soak.month import DAY, DAYS, STEPS, Month, Sizes, step_for
from tools.soak.progress import Telling
from tools.soak.trend import Trend


def _judged(rss: list[float], database: list[float], capsys: pytest.CaptureFixture[str], settled: float = 9.0) -> int:
    """How many claims do not hold."""
    sizes, telling = Sizes(), Telling(60.0)
    for day, (memory, file) in enumerate(zip(rss, database, strict=True), 1):
        sizes.see(day, memory, file)
    sizes.judge(telling, settled)
    assert capsys.readouterr().out.count('"passed"') == telling.checked == 4
    return telling.failed


def test_filling_up_is_no_growth(capsys: pytest.CaptureFixture[str]) -> None:
    """What grows until everything is kept that is kept for days, and then no more, is flat."""
    assert _judged([*range(75, 84), *[84.0] * 21], [*range(9), *[9.0] * 21], capsys) == 0


@pytest.mark.parametrize("days", [30, 14])
def test_slow_leak_is_found(days: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A MiB more each day is not flat, in memory as in the database, also where few days were simulated."""
    grows, flat = [50.0 + day for day in range(days)], [20.0] * days
    assert _judged(grows, flat, capsys) == 1
    assert _judged(flat, grows, capsys) == 1


def test_too_few_days_are_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """With four days after the filling nothing has passed."""
    assert _judged([80.0] * 12, [20.0] * 12, capsys) == 2


def test_database_has_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """A database that is flat above its bound is too large."""
    assert _judged([80.0] * 30, [300.0] * 30, capsys) == 1


def test_memory_has_a_budget(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory that is flat above its budget is too much, on one day as on all."""
    assert _judged([91.0] * 30, [20.0] * 30, capsys) == 1
    assert _judged([*[80.0] * 8, 91.0, *[80.0] * 21], [20.0] * 30, capsys) == 1


def test_line_through_values() -> None:
    """The slope is that of the straight line: 2 a day around 14; less than five values say nothing."""
    trend = Trend.of([0, 1, 2, 3, 4], [10, 12, 14, 16, 18])
    assert trend is not None
    assert (trend.level, trend.slope) == pytest.approx((14, 2))
    assert Trend.of([0, 1, 2, 3], [1, 2, 3, 4]) is None


def test_pace_follows_from_the_time() -> None:
    """A month of 10 ms a tick: 892.8 s with one tick in 30 s; the next longer step is taken; never none at all."""
    assert step_for(DAYS, 0.01, 892.8) == 30
    assert step_for(DAYS, 0.01, 892) == 60
    assert step_for(DAYS, 0.01, 0) == STEPS[-1]
    assert step_for(DAYS, 0.0001, 892) == STEPS[0]


def test_window_fills_first() -> None:
    """The verdict begins after what the default policy and the store keep: never less than nine days."""
    found = (DEFAULTS.parameters or {}).get("windowDays", 0.0)
    assert month.settled_days() >= max(9.0, found + 1)
    assert month.settled_days() + 5 <= DAYS


def test_agent_of_the_month_runs(tmp_path: Path) -> None:
    """Some ticks of it store samples and learn, across a day; no step fails."""
    agent = Month(tmp_path / "agent.db")
    for second in (1, 2, 31, 62, DAY - 1, DAY, DAY + 1):
        agent.pass_until(second)
    assert agent.pipeline.training.trainer.trained_until is not None
    names = {pod.name for pod in agent.workload.pods()}
    assert len(names) > PODS
    assert agent.close() == ""
    assert (tmp_path / "agent.db").stat().st_size > 0

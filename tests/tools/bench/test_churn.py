"""Pods that come and go: every case is judged as it says, and the figures are told as they are."""

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from agent.prediction.policy import resolve
from crds.predict_policy import DEFAULTS
from headroom.backtest.trace import Trace
from tools.bench import churn, churn_picture, replay
from tools.bench.churn import FORGOTTEN, NEW, OTHERS, REMEMBERED, SHIPPED, Case, Figures, Scale, Setting

DAYS = 6
SCALE = Scale(lives_days=(1.0,), cold_hours=(24, 6), machines=2, slots=3)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Eight series that use a quarter of their two cores, and half of them for an hour a day, each at its own time."""
    steps = DAYS * 288
    usage = np.full((steps, 8), 0.5)
    for series in range(8):
        for day in range(DAYS):
            begin = day * 288 + series * 36
            usage[begin : begin + 12, series] = 1.0
    times = 300.0 * np.arange(steps, dtype=np.float64)
    return Trace("cpu", times, 300.0, usage, np.full(8, 2.0), tuple(f"vm{number}" for number in range(8)))


def figures(trace: Trace, setting: Setting) -> dict[str, Figures]:
    """The figures of one case."""
    return churn.figures(trace, Case("cpu", 1.0, setting), SCALE)


def test_shorter_cold_period_saves_more(trace: Trace) -> None:
    """With a shorter cold period more is saved and the promise is kept less often."""
    found = figures(trace, NEW)
    assert set(found) == {"oracle", "24h", "6h", *OTHERS}
    assert found["oracle"].violation == 0.0
    assert found["24h"].savings < found["6h"].savings < found["oracle"].savings
    assert found["24h"].violation < found["6h"].violation


def test_remembering_workloads_saves(trace: Trace) -> None:
    """Pods that come back as the same workload are warm at once when it is remembered: more is saved."""
    remembered, forgotten = figures(trace, REMEMBERED), figures(trace, FORGOTTEN)
    assert set(remembered) == set(forgotten) == {"oracle", "24h", "6h"}
    assert remembered["oracle"] == forgotten["oracle"]
    assert remembered["24h"].savings > forgotten["24h"].savings + 10.0


def test_cold_periods_are_those_of_the_policy() -> None:
    """Each choice is the default policy with another cold period, and what ships is among them."""
    chosen = churn.choices(churn.FULL, others=True)
    own = {one.name: resolve(one.policy) for one in chosen if one.name not in OTHERS}
    assert {name: policy.cold_start_seconds / 3600 for name, policy in own.items()} == {
        f"{hours}h": hours for hours in churn.FULL.cold_hours
    }
    shipped = next(one for one in chosen if one.name == f"{SHIPPED}h")
    assert replace(shipped.policy, cold_start_period_seconds=None) == replace(DEFAULTS, cold_start_period_seconds=None)
    assert shipped.policy == DEFAULTS
    assert [one.name for one in chosen][-len(OTHERS) :] == list(OTHERS)


def made() -> dict[Case, dict[str, Figures]]:
    """Figures that can be recognised."""
    found = {}
    for number, (resource, setting) in enumerate(
        [(resource, setting) for resource in churn.RESOURCES for setting in (NEW, REMEMBERED, FORGOTTEN)]
    ):
        names = [f"{hours}h" for hours in SCALE.cold_hours] + (list(OTHERS) if setting == NEW else [])
        by_policy = {name: Figures(number + place / 4, 50.0 + number) for place, name in enumerate(names)}
        found[Case(resource, 1.0, setting)] = {**by_policy, "oracle": Figures(0.0, 70.0)}
    return found


def test_figures_are_for_people() -> None:
    """Rows and tables say violation @ savings, the setting, and what is compared."""
    found = made()
    first, second, *_ = churn.rows(found, SCALE)
    assert first.measured == "0.00 % @ 50.0 %"
    assert first.reference == "nsigma-v2 0.50 % @ 50.0 %; percentile 0.75 % @ 50.0 %; oracle 0.00 % @ 70.0 %"
    assert (second.measured, second.reference) == ("1.00 % @ 51.0 %", "workloads not remembered: 2.00 % @ 52.0 %")
    table = churn.grid(found, SCALE, "memory")
    assert table.cells[0] == ["mean life", "pods that end", "cold 24 h", "cold 6 h", "oracle"]
    assert table.cells[1] == ["1 days", NEW.name, "3.00 % @ 53.0 %", "3.25 % @ 53.0 %", "70.0 %"]
    assert [row[1] for row in table.cells[1:]] == [NEW.name, REMEMBERED.name, FORGOTTEN.name]


def test_picture_shows_both_resources() -> None:
    """The drawing names both resources, and is the same for the same figures."""
    shown = churn.curves(made(), SCALE)
    assert [curve.dashed for curve in shown] == [False, True] * 2
    picture = churn_picture.draw(shown)
    assert "savings of cpu" in picture.svg
    assert "savings of memory" in picture.svg
    assert picture == churn_picture.draw(shown)


@pytest.mark.parametrize("module", [churn, replay])
def test_picture_needs_a_folder(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture that could not be written is refused before anything is measured."""
    with pytest.raises(SystemExit):
        module.main(["--picture", "/nowhere/at/all.svg"])
    assert "there is no folder /nowhere/at" in capsys.readouterr().err

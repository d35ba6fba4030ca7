"""What a policy loses by looking at coarser values than those that have to be right."""

import numpy as np
import pytest

from crds.predict_policy import PredictPolicy
from headroom.backtest.engine import NamedPolicy, Plan, run
from headroom.backtest.trace import TraceError
from tests.headroom.backtest.small import bursts, trace
from tools.bench import granularity
from tools.bench.granularity import LOOKS, cases, coarser

CHOICE = NamedPolicy("sum-max", PredictPolicy(model="sum-max", safety_margin_percent=0, cold_start_period_seconds=900))
PLAN = Plan(machines=2, seeds=(0, 1), horizons_seconds=(7200,), warm_up_seconds=7200.0)


def test_coarser_steps() -> None:
    """A coarse step has the average or the highest of its steps; what does not fill one is left out."""
    given = trace([[1.0, 5.0], [3.0, np.nan], [2.0, 1.0], [4.0, 3.0], [9.0, 9.0]])
    average, highest = (coarser(given, 2, look) for look in LOOKS[1:])
    np.testing.assert_array_equal(average.usage, [[2.0, np.nan], [3.0, 2.0]])
    np.testing.assert_array_equal(highest.usage, [[3.0, np.nan], [4.0, 3.0]])
    assert (average.step_seconds, average.times.tolist()) == (600.0, given.times[[0, 2]].tolist())


def test_same_step_is_the_backtest() -> None:
    """With coarse steps of one step each look is the backtest's own answer."""
    given = trace(bursts(120, 6))
    _, alone = run(given, [CHOICE], PLAN)
    for found in cases(given, CHOICE, PLAN, 1).values():
        assert found[:, 0].mean() == pytest.approx(alone.violation_percent.mean)
        assert found[:, 1].mean() == pytest.approx(alone.savings_percent)


def test_averages_miss_peaks() -> None:
    """Peaks of one step are missed by averages of five, and not by the highest of five."""
    usage = np.ones((600, 4))
    usage[::7] = 5.0
    found = cases(trace(usage), CHOICE, PLAN, 5)
    fine, average, highest = (found[look] for look in LOOKS)
    assert not fine[:, 0].any()
    assert not highest[:, 0].any()
    assert (average[:, 0] > 99.0).all()
    assert (average[:, 1] > fine[:, 1]).all()


def test_short_trace_is_refused() -> None:
    """A trace that ends before the horizon does is refused."""
    with pytest.raises(TraceError, match="nothing is left between warm-up and horizon"):
        cases(trace(bursts(40, 4)), CHOICE, PLAN, 5)


def test_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has a row for each resource, and says what is judged."""
    monkeypatch.setattr(granularity, "read", lambda _folder, resource: [trace(bursts(900, 40), resource=resource)])
    monkeypatch.setattr(granularity, "PACKINGS", (0,))
    assert granularity.main(["--policy", "sum-max"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("peaks of 300 s; coarse steps of 1500 s")
    assert [line.split()[1] for line in out.splitlines()[-2:]] == ["cpu", "memory"]

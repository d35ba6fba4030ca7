"""The table that the default policy is chosen by: a case for each packing, and the worst of them counts."""

import numpy as np
import pytest

from crds.predict_policy import PredictPolicy
from headroom.backtest.engine import NamedPolicy, Plan, run
from headroom.backtest.policies import parse
from tests.headroom.backtest.small import bursts, trace
from tools.bench import policies

CHOICES = [
    NamedPolicy("sum-max", PredictPolicy(model="sum-max", safety_margin_percent=0)),
    NamedPolicy("recent-max", PredictPolicy(model="recent-max", safety_margin_percent=0)),
]


def test_every_packing_is_a_case() -> None:
    """Each packing of each trace is judged by itself: the same as a backtest of it alone."""
    given = trace(bursts(120, 6))
    plan = Plan(machines=2, seeds=(0, 1, 2), horizons_seconds=(1800,), warm_up_seconds=3600.0)
    setting = policies.Setting("small", (given, given), plan, cold_seconds=900)
    found = policies.cases(setting, CHOICES)
    assert found.shape == (3, 6, 2)
    assert found[:, :3].tolist() == found[:, 3:].tolist()
    oracle, highest, recent = found[:, :, 0]
    assert not oracle.any()
    assert (highest <= recent).all()
    cold = [
        NamedPolicy(each.name, PredictPolicy(model=each.name, safety_margin_percent=0, cold_start_period_seconds=900))
        for each in CHOICES
    ]
    alone = run(given, cold, Plan(machines=2, seeds=(1,), horizons_seconds=(1800,), warm_up_seconds=3600.0))
    assert found[1:, 1, 1] == pytest.approx([one.savings_percent for one in alone[1:]])
    assert found[1:, 1, 0] == pytest.approx([one.violation_percent.mean for one in alone[1:]])


def test_row_has_mean_and_worst() -> None:
    """Columns weigh the same in the mean, however many cases they have; the worst is one single case."""
    found = [np.array([[1.0, 60.0], [3.0, 62.0]]), np.array([[0.5, 71.0]])]
    assert policies._row("x", found) == ("x", "1.25 @ 66.00", "3.00", "2.00 (3.00) @ 61.00", "0.50 (0.50) @ 71.00")


def test_default_is_judged() -> None:
    """The default policy is in the table, and every row is a policy that an agent follows."""
    assert policies.POLICIES[0] == "default"
    assert [each.name for each in parse(policies.POLICIES)] == list(policies.POLICIES)

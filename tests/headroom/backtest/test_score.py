import numpy as np
import pytest

from headroom.backtest.score import result, score


def test_worked_score() -> None:
    """Predicted 4, 4, 4, 4 against 2, 4, 5, 8 of limits 10: two violations, of a fifth and a half; 60 % saved."""
    found = score(np.full(4, 4.0), np.array([2.0, 4.0, 5.0, 8.0]), np.full(4, 10.0))
    assert found.violation == pytest.approx(0.5)
    assert found.severity == pytest.approx((0.2 + 0.5) / 4)
    assert found.savings == pytest.approx(0.6)
    assert found.limits == pytest.approx(10.0)


def test_rounding_is_no_violation() -> None:
    """A prediction that is a billionth too low is right."""
    found = score(np.array([5.0 * (1 - 1e-10), 5.0 * (1 - 1e-8)]), np.full(2, 5.0), np.full(2, 10.0))
    assert found.violation == pytest.approx(0.5)


def test_limits_cap_both() -> None:
    """More than everything cannot be predicted, nor be missed."""
    found = score(np.array([12.0]), np.array([15.0]), np.array([10.0]))
    assert (found.violation, found.severity, found.savings) == (0.0, 0.0, 0.0)


def test_idle_machine() -> None:
    """Where nothing is used nothing can be violated, and everything is saved."""
    found = score(np.zeros(2), np.zeros(2), np.full(2, 10.0))
    assert (found.violation, found.severity, found.savings) == (0.0, 0.0, 1.0)


def test_limits_that_change_weigh_savings() -> None:
    """A step at which more is there weighs more: 2 of 2 and 3 of 6 are 5 of 8."""
    found = score(np.array([0.0, 3.0]), np.zeros(2), np.array([2.0, 6.0]))
    assert found.savings == pytest.approx(5 / 8)
    assert found.limits == pytest.approx(4.0)


def test_result_over_machines() -> None:
    """Violation and severity are means over machines, savings weigh by limits; percentiles lie between machines."""
    scores = [
        score(np.array([4.0, 4.0]), np.array([4.0, 8.0]), np.full(2, 10.0)),
        score(np.array([9.0, 9.0]), np.array([1.0, 1.0]), np.full(2, 30.0)),
    ]
    found = result("some", "cpu", 3600, (0,), scores)
    assert found.machines == 2
    assert found.violation_percent.mean == pytest.approx(25.0)
    assert found.violation_percent.p50 == pytest.approx(25.0)
    assert found.violation_percent.p90 == pytest.approx(45.0)
    assert found.severity_percent == pytest.approx(12.5)
    assert found.savings_percent == pytest.approx(100 * (6 + 21) / 40)

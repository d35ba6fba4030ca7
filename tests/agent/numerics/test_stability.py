"""A simulated month against sums in extended precision: in-place updates do not drift."""

import numpy as np
import pytest

from agent.numerics.arrays import FloatArray
from agent.numerics.history import ResourceHistory, cpu_history, memory_history

STEP = 300.0
STEPS = 30 * 288
MIB = float(1 << 20)
ROWS = np.array([0, 1, 2])


def _month(units: float) -> FloatArray:
    """A steady series with a little noise, a daily rhythm, and rare bursts; shape (STEPS, 3)."""
    random = np.random.default_rng(11)
    hours = np.arange(STEPS) / 12
    steady = 64.0 + random.normal(0.0, 1e-5, STEPS)
    rhythm = 2.0 + np.sin(2 * np.pi * hours / 24) + random.uniform(0.0, 0.3, STEPS)
    bursts = np.where(random.uniform(size=STEPS) < 0.01, 30.0, 0.05)
    return units * np.stack([steady, rhythm, bursts], axis=1)


@pytest.fixture(scope="module", params=["cpu", "memory"])
def month(request: pytest.FixtureRequest) -> tuple[ResourceHistory, FloatArray]:
    """The history of three series over a month, and their usage."""
    history, values = (cpu_history(), _month(1.0)) if request.param == "cpu" else (memory_history(), _month(1024 * MIB))
    history.grow(3)
    for number, row in enumerate(values):
        history.learn(ROWS, row, 1_700_000_000.0 + STEP * (number + 1), np.full(3, STEP))
    return history, values


def test_month_of_moments(month: tuple[ResourceHistory, FloatArray]) -> None:
    """After a month mean, deviation and effective samples are those of the plain sums in extended precision.

    The steady series is the hard one: 64 GiB that move by kilobytes, where a difference of large sums has no digit.
    """
    history, values = month
    ages = np.arange(STEPS - 1, -1, -1, dtype=np.longdouble) * STEP
    weights = np.exp2(-ages / np.longdouble(history.moments.half_life_seconds))[:, None]
    exact = values.astype(np.longdouble)
    total, squares = weights.sum(), (weights**2).sum()
    mean = (weights * exact).sum(axis=0) / total
    variance = (weights * (exact - mean) ** 2).sum(axis=0) / (total - squares / total)
    np.testing.assert_allclose(history.moments.mean(ROWS), mean.astype(np.float64), rtol=1e-13)
    np.testing.assert_allclose(history.moments.stdev(ROWS), np.sqrt(variance).astype(np.float64), rtol=1e-7)
    np.testing.assert_allclose(history.moments.effective_samples(ROWS), float(total**2 / squares), rtol=1e-12)


def test_month_of_histograms(month: tuple[ResourceHistory, FloatArray]) -> None:
    """After a month each bucket's share of the weight is that of the plain sums, however often it was rescaled."""
    history, values = month
    ages = np.arange(STEPS - 1, -1, -1, dtype=np.longdouble) * STEP
    weights = np.exp2(-ages / np.longdouble(history.moments.half_life_seconds))
    for row in ROWS:
        places = history.histograms.buckets.find(values[:, row])
        exact = np.zeros(len(history.histograms.buckets.starts), dtype=np.longdouble)
        np.add.at(exact, places, weights)
        shares = history.histograms.weights[row] / history.histograms.totals[row]
        np.testing.assert_allclose(shares, (exact / exact.sum()).astype(np.float64), rtol=1e-10, atol=1e-15)
        assert history.histograms.totals[row] == pytest.approx(history.histograms.weights[row].sum(), rel=1e-12)


def test_years_do_not_overflow() -> None:
    """Weights are rescaled before they leave the range of doubles: ten years of observed time, a sample a week."""
    history = cpu_history()
    history.grow(1)
    week = 7 * 86400.0
    for number in range(520):
        history.learn(ROWS[:1], np.array([1.0 + number % 2]), week * (number + 1), np.array([week]))
    assert np.isfinite(history.histograms.weights).all()
    assert history.histograms.percentiles(ROWS[:1], 0.95)[0] == pytest.approx(2.0, rel=0.05)
    assert history.moments.mean(ROWS[:1])[0] == pytest.approx(2.0, rel=0.01)

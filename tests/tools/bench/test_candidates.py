"""What lost against the default policy is measured as it is described."""

import numpy as np
import pytest

from agent.numerics.arrays import FloatArray
from agent.numerics.peaks import SLOTS_PER_DAY
from headroom.backtest.trace import Trace
from tools.bench import candidates

STEPS = 4 * SLOTS_PER_DAY


@pytest.fixture
def trace() -> Trace:
    """A trace in which each series has its burst at an hour of its own, sometimes."""
    numbers = np.random.default_rng(3)
    times = np.asarray([1.6e9 + 300.0 * step for step in range(STEPS)], dtype=np.float64)
    usage: FloatArray = numbers.uniform(0.1, 0.4, (STEPS, 80)) + (numbers.random((STEPS, 80)) < 0.002)
    names = tuple(f"s{number}" for number in range(80))
    return Trace(
        resource="cpu",
        times=times,
        step_seconds=300.0,
        usage=usage,
        limits=np.full(80, 2.0),
        names=names,
        source="made",
    )


def test_every_candidate_is_judged(trace: Trace) -> None:
    """A larger free number never predicts less, and what is printed is savings, or how few violations there can be."""
    usage = trace.usage[:, :6]
    for name, candidate in candidates.CANDIDATES.items():
        rule = candidate(usage)
        predicted = np.array([rule(number) for number in (0.0, 0.2, 0.6, 1.0)])
        assert np.isfinite(predicted).all(), name
        assert (np.diff(predicted, axis=0) >= -1e-9).all(), name
    assert float(candidates.at(trace, candidates.share_of_s(7), 0.5)) > 0.0
    assert candidates.at(trace, candidates.margin_on_c(7), -1.0).startswith("never so few: ")


def test_groups_are_of_pods_that_move_together() -> None:
    """Pods that move together share one C; others are added up."""
    wave = 1.0 + np.sin(np.arange(STEPS) / 40.0)
    usage = np.stack([wave, 2.0 * wave, 2.0 - wave, np.full(STEPS, 0.5)], axis=1)
    together, spread = candidates._by_groups(usage, 2, 0.5)
    apart = usage.max(axis=0).sum()
    assert together[-1] == pytest.approx(apart, abs=0.01)
    assert spread[-1] == pytest.approx(0.0, abs=0.01)
    together, spread = candidates._by_groups(usage, 2, -1.5)
    assert together[-1] == pytest.approx((2.0 * wave + 2.5).max(), abs=0.01)
    assert together[-1] + spread[-1] == pytest.approx(apart, abs=0.01)

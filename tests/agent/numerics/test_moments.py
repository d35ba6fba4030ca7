import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.moments import MomentsBank

ROW = np.array([0])
HALF_LIFE = 3600.0

values = st.lists(st.floats(0.0, 1e12), min_size=2, max_size=40)
gaps = st.lists(st.floats(0.0, 7200.0), min_size=40, max_size=40)


def learned(samples: list[float], elapsed: list[float]) -> MomentsBank:
    bank = MomentsBank(HALF_LIFE, rows=1)
    for value, gap in zip(samples, elapsed, strict=False):
        bank.add(ROW, np.array([value]), np.array([gap]))
    return bank


@given(samples=values)
def test_without_decay_it_is_ordinary(samples: list[float]) -> None:
    """With no time passing, mean, deviation (n - 1) and n_eff are the ordinary ones."""
    bank = learned(samples, [0.0] * len(samples))
    last_digits = 1e-6 + 1e-14 * max(samples)  # a deviation cannot be known better than its large samples
    assert bank.mean(ROW)[0] == pytest.approx(np.mean(samples))
    assert bank.stdev(ROW)[0] == pytest.approx(np.std(samples, ddof=1), rel=1e-6, abs=last_digits)
    assert bank.effective_samples(ROW)[0] == pytest.approx(len(samples))


@given(samples=values, elapsed=gaps)
def test_equals_weighted_sums(samples: list[float], elapsed: list[float]) -> None:
    bank = learned(samples, elapsed)
    ages = np.cumsum(elapsed[: len(samples)])[-1] - np.cumsum(elapsed[: len(samples)])
    weights = 0.5 ** (ages / HALF_LIFE)
    mean = np.average(samples, weights=weights)
    assert bank.mean(ROW)[0] == pytest.approx(mean, rel=1e-9, abs=1e-6)
    assert bank.effective_samples(ROW)[0] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    divisor = weights.sum() - (weights**2).sum() / weights.sum()
    if divisor > 1e-3:
        variance = (weights * (np.array(samples) - mean) ** 2).sum() / divisor
        assert bank.stdev(ROW)[0] == pytest.approx(np.sqrt(variance), rel=1e-5, abs=1e-3 + 1e-12 * max(samples))


@pytest.mark.parametrize(("samples", "answers"), [([], (0.0, 0.0, 0.0)), ([5.0], (5.0, 0.0, 1.0))])
def test_few_samples_have_no_spread(samples: list[float], answers: tuple[float, float, float]) -> None:
    """Nothing answers zeros; one sample its value, no deviation, n_eff 1. Nothing divides by zero."""
    bank = learned(samples, [0.0])
    assert (bank.mean(ROW)[0], bank.stdev(ROW)[0], bank.effective_samples(ROW)[0]) == answers


@given(
    rounds=st.lists(st.lists(st.floats(0.0, 100.0), min_size=4, max_size=4), min_size=1, max_size=20),
    elapsed=st.floats(0.0, 600.0),
)
def test_rows_equal_single_rows(rounds: list[list[float]], elapsed: float) -> None:
    bank, rows = MomentsBank(HALF_LIFE, rows=4), np.arange(4)
    alone = [MomentsBank(HALF_LIFE, rows=1) for _ in range(4)]
    for samples in rounds:
        bank.add(rows, np.array(samples), np.full(4, elapsed))
        for single, value in zip(alone, samples, strict=True):
            single.add(ROW, np.array([value]), np.array([elapsed]))
    assert bank.mean(rows).tolist() == [single.mean(ROW)[0] for single in alone]
    assert bank.stdev(rows).tolist() == [single.stdev(ROW)[0] for single in alone]


def test_highest_is_remembered() -> None:
    assert learned([3.0, 9.0, 1.0], [0.0, 1e6, 1e6]).highest[0] == 9.0

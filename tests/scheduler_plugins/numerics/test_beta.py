"""Beta distributions by their moments."""

import math

import pytest
from hypothesis import strategies as st

from scheduler_plugins.numerics.beta import Beta, largest_variance, probability_below, with_deviation, with_moments
from tests.fuzz.strength import fuzz

SHARES = st.floats(0.001, 0.999)


@fuzz(mean=SHARES, part=st.floats(0.001, 0.99))
def test_fit_has_the_moments(mean: float, part: float) -> None:
    deviation = math.sqrt(largest_variance(mean) * part)
    fit = with_deviation(mean, deviation)
    assert fit is not None
    first, second, _ = fit.moments()
    assert first == pytest.approx(mean, rel=1e-9)
    assert second - first**2 == pytest.approx(deviation**2, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("mean", "second"),
    [
        (0.0, 0.0),  # no variance is possible
        (1.0, 1.01),  # the same at the other end
        (0.5, 0.24),  # a negative variance
        (0.5, 0.5),  # the variance of a coin, the largest there is
        (-0.1, 0.02),  # no share
        (1.1, 1.3),
    ],
)
def test_invalid_moments(mean: float, second: float) -> None:
    assert with_moments(mean, second) is None


def test_no_probability_outside_of_shares() -> None:
    assert [Beta(2.0, 2.0).below(x) for x in (-0.1, 1.1, math.nan)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 2.0)])
def test_invalid_parameters(alpha: float, beta: float) -> None:
    assert [Beta(alpha, beta).below(x) for x in (0.0, 0.5, 1.0)] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("mean", [0.01, 0.4, 0.9, 0.999])
@pytest.mark.parametrize("deviation", [0.0, 1e-300, 1e-12, 4e-9, 9.9e-9, 1.1e-8, 1e-6])
def test_tiny_deviations_are_steps(mean: float, deviation: float) -> None:
    low, high = (probability_below(mean, deviation, x)[0] for x in (mean * 0.99, min(mean * 1.01, 0.9999)))
    assert low == pytest.approx(0.0, abs=1e-9)
    assert high == pytest.approx(1.0, abs=1e-9)


def test_no_distribution_has_no_share_below() -> None:
    assert [probability_below(mean, 0.5, 1.0) for mean in (1.0, 0.5, 1.2)] == [(0.0, None)] * 3

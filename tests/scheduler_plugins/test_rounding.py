"""Rounding is Go's, not Python's."""

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.snapshot.units import round_half_away


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (64.5, 65),  # half to even would give 64
        (65.49, 65),
        (65.5, 66),
        (-64.5, -65),  # away from zero, not up
        (0.49999999999999994, 0),  # adding 0.5 would reach 1
        (28500 / 100000 * 100, 28),  # 28.499999999999996 in doubles
        (4503599627370497.0, 4503599627370497),  # beyond 2^52 every double is an integer
    ],
)
def test_halves_leave_zero(number: float, expected: int) -> None:
    """Halves go away from zero, and everything else to the nearest integer."""
    assert round_half_away(number) == expected


@given(st.floats(-1e15, 1e15))
def test_rounding_matches_decimal(number: float) -> None:
    """It agrees with exact decimal arithmetic on any double."""
    assert round_half_away(np.array([number]))[0] == int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP))

"""Amounts as integers: the quick way for the usual forms says what the exact one says; rounding is Go's."""

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.quantity import QuantityError, milli_value, value
from scheduler_plugins.snapshot.units import LARGEST, round_half_away, units
from tests.fuzz.strength import fuzz

SUFFIXES = ("", "m", "u", "n", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", ".5", ".5Gi")


@fuzz(number=st.integers(0, 10**17), suffix=st.sampled_from(SUFFIXES), sign=st.sampled_from(["", "-", "+"]))
def test_quick_is_exact(number: int, suffix: str, sign: str) -> None:
    text = f"{sign}{number}{suffix}"
    for resource, exact in (("cpu", milli_value(text)), ("memory", value(text))):
        if exact < 0:
            with pytest.raises(QuantityError, match=f"{resource}: .* is negative"):
                units(resource, text)
        else:
            assert units(resource, text) == min(exact, LARGEST)


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "250m", 250),
        ("cpu", "1500u", 2),  # rounded up
        ("cpu", "1n", 1),
        ("cpu", "3", 3000),
        ("cpu", "1Ki", 1_024_000),
        ("memory", "1500m", 2),
        ("memory", "3Gi", 3 * 2**30),
        ("memory", "1u", 1),
        ("memory", "9Ei", LARGEST),
    ],
)
def test_usual_forms(resource: str, text: str, amount: int) -> None:
    assert units(resource, text) == amount


@pytest.mark.parametrize("text", ["", "m", "Gi", "\u0663", "1_000", " 1"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        units("cpu", text)


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
    assert round_half_away(number) == expected


@given(st.floats(-1e15, 1e15))
def test_rounding_matches_decimal(number: float) -> None:
    assert round_half_away(np.array([number]))[0] == int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP))

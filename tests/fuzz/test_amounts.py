"""Quantities and durations."""

import math

from hypothesis import strategies as st

from crds import quantity
from crds.duration import DurationError, format_duration, parse_duration
from crds.quantity import QuantityError
from tests.fuzz.inputs import NUMBERS, damaged
from tests.fuzz.strength import answer_or_refusal, fuzz

QUANTITIES = damaged("1500m", "9Gi", "1e3", "-2.5k", "100n", ".5Mi", "1E") | st.text() | st.sampled_from(NUMBERS)
DURATIONS = damaged("5m0s", "1h30m", "-1.5h", "100ms", ".5s", "3us", "0") | st.text() | st.sampled_from(NUMBERS)


@fuzz(given=QUANTITIES | st.integers() | st.floats() | st.booleans())
def test_quantity(given: str | float) -> None:
    """A quantity is an exact number that can be counted in units and thousandths, or refused in one line."""
    parsed = answer_or_refusal(lambda: quantity.parse_quantity(given), QuantityError, "quantity")
    if parsed is not None:
        whole, milli = quantity.value(given), quantity.milli_value(given)
        assert abs(whole) >= abs(parsed)
        assert abs(milli) >= abs(parsed * 1000)
        assert abs(whole) >= 2**63 or quantity.value(quantity.format_bytes(abs(whole))) == abs(whole)


@fuzz(given=DURATIONS)
def test_duration(given: str) -> None:
    """A duration is a finite number of seconds that can be written down again, or refused in one line."""
    seconds = answer_or_refusal(lambda: parse_duration(given), DurationError, "duration")
    if seconds is not None:
        assert math.isfinite(seconds)
        assert parse_duration(format_duration(seconds)) == round(seconds * 1000) / 1000 or abs(seconds) > 2**32

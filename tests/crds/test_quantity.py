from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.duration import DurationError, canonical, format_duration, parse_duration
from crds.quantity import QuantityError, format_bytes, format_milli_cores, milli_value, parse_quantity, value

BIG = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("0", Fraction(0)),
        ("2", Fraction(2)),
        ("500m", Fraction(1, 2)),
        ("1500u", Fraction(3, 2000)),
        ("7n", Fraction(7, 10**9)),
        ("3k", Fraction(3000)),
        ("1M", Fraction(10**6)),
        ("1G", Fraction(10**9)),
        ("1T", Fraction(10**12)),
        ("1P", Fraction(10**15)),
        ("1E", Fraction(10**18)),  # exa, not an exponent
        ("1E0", Fraction(1)),
        ("1Ki", Fraction(1024)),
        ("1Mi", Fraction(2**20)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1Ti", Fraction(2**40)),
        ("1Pi", Fraction(2**50)),
        ("1Ei", Fraction(2**60)),
        ("1e3", Fraction(1000)),
        ("1E+3", Fraction(1000)),
        ("25e-1", Fraction(5, 2)),
        ("-1.5Gi", Fraction(-3 * 2**29)),
        ("+.5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("00012", Fraction(12)),
        ("0.1n", Fraction(1, 10**9)),  # finer than a nano-unit: rounded up
        ("-0.1n", Fraction(-1, 10**9)),  # away from zero
        ("8Ei", Fraction(BIG)),  # binary amounts are capped
        ("10E", Fraction(10**19)),  # decimal ones are not
        (3, Fraction(3)),
        (0.25, Fraction(1, 4)),
        (1e-07, Fraction(1, 10**7)),
        (1e21, Fraction(10**21)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_values_are_exact(text: str | float | Fraction, exact: Fraction) -> None:
    assert parse_quantity(text) == exact


GARBAGE = "| 1|1 |1ki|1K|1mi|1g|1e|1e+|1e1.5|1_0|0x1|--1|1,5|inf|nan|k|.|-|٣|1Gib|1\n"


TOO_LARGE = ("1e2147483648", "0e-2147483648", f"1e{'9' * 400}", "1" * 600, float("nan"), float("inf"))


@pytest.mark.parametrize("text", [*GARBAGE.split("|"), *TOO_LARGE, True])
def test_garbage_is_refused(text: str | float) -> None:
    with pytest.raises(QuantityError, match="is not a quantity: write a number such as") as caught:
        parse_quantity(text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "milli", "whole"),
    [
        ("1500u", 2, 1),  # rounded up
        ("1500m", 1500, 2),
        ("-1500u", -2, -1),  # away from zero
        ("-1500m", -1500, -2),
        ("2", 2000, 2),
        ("1Ki", 1024000, 1024),
        ("0", 0, 0),
        ("1n", 1, 1),
    ],
)
def test_integers_round_up(text: str, milli: int, whole: int) -> None:
    assert (milli_value(text), value(text)) == (milli, whole)


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (1, "1m"), (1500, "1500m"), (2000, "2"), (-500, "-500m"), (-3000, "-3")]
)
def test_cpu_text(milli: int, text: str) -> None:
    """CPU is written in cores where it is whole, else in milli-cores."""
    assert format_milli_cores(milli) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (9 * 2**30, "9Gi"),
        (1536 * 2**20, "1536Mi"),
        (1024, "1Ki"),
        (1000, "1000"),
        (2**60, "1Ei"),
        (-(2**20), "-1Mi"),
        (2**20 + 1, "1048577"),
    ],
)
def test_bytes_text(amount: int, text: str) -> None:
    """Bytes are written in the largest binary unit that is exact."""
    assert format_bytes(amount) == text


@given(st.integers(-(2**62), 2**62))
def test_texts_come_back(amount: int) -> None:
    assert value(format_bytes(amount)) == amount
    assert milli_value(format_milli_cores(amount)) == amount


@given(st.sampled_from(["1e{}", "-1e{}", "1e-{}"]), st.integers(0, 2**31 - 1))
def test_huge_exponents_are_quick(pattern: str, exponent: int) -> None:
    """An exponent that Kubernetes holds is an answer of few digits at once, never a computation that does not end."""
    amount = parse_quantity(pattern.format(exponent))
    assert max(abs(amount.numerator), amount.denominator) <= 10**512


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m0s", 300),
        ("1h30m", 5400),
        ("90s", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("5.m", 300),
        ("0", 0),
        ("-2m", -120),
        ("250ms", 0.25),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("1h1h", 7200),  # Go adds up whatever it finds
    ],
)
def test_known_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "5m ", "5d", "1e3s", "+", "--1s", "3000000h", "٣s"])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(DurationError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(300, "5m0s"), (600, "10m0s"), (5400, "1h30m0s"), (0, "0s"), (0.25, "250ms"), (1.5, "1.5s"), (-90, "-1m30s")],
)
def test_written_as_go_does(seconds: float, text: str) -> None:
    """Durations are written as Go writes them, so that the same window has the same key everywhere."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1m", "1m0s"),
        ("90s", "1m30s"),
        ("1.5h", "1h30m0s"),
        ("0", "0s"),
        ("-0s", "0s"),
        ("-2m", "-2m0s"),
        ("5m0s", "5m0s"),
        ("1.25s", "1.25s"),
        ("1500us", "1.5ms"),
        ("1.5us", "1.5µs"),
        ("3ns", "3ns"),
        ("0.1ns", "0s"),  # Go counts whole nanoseconds
        ("2000000h0.000000001s", "2000000h0m0.000000001s"),
    ],
)
def test_one_text_for_a_duration(text: str, written: str) -> None:
    assert canonical(text) == written
    assert canonical(written) == written

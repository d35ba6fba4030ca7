import pytest

from manager.mid.explanation import amounts


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (1023, "1023"),
        (64 * 2**20, "64Mi"),
        (9878424781, "9.2Gi"),
        (31 * 2**30 + 5, "31Gi"),
        (2**40, "1Ti"),
        (-3 * 2**29, "-1.5Gi"),
    ],
)
def test_memory_in_largest_unit(number: int | None, text: str) -> None:
    """Memory is written in the largest unit that fits, with two or three digits."""
    assert amounts.memory(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (-3.0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (75, "1m15s"),
        (600, "10m"),
        (7300, "2h1m"),
        (90_000, "25h"),
        (300_000, "3d"),
    ],
)
def test_age_in_two_units(seconds: float | None, text: str) -> None:
    """An age is written in one or two units, the small one only where it matters."""
    assert amounts.age(seconds) == text


def test_percent_needs_a_whole() -> None:
    """A share of nothing, or of what is not known, is a dash."""
    assert amounts.percent(300, 1000) == "30%"
    assert amounts.percent(300, 0) == "-"
    assert amounts.percent(None, 1000) == "-"


def test_pair_with_one_known() -> None:
    """A pair of which one part is unknown shows the other; of nothing known, one dash."""
    assert amounts.pair(250, None) == "250m/-"
    assert amounts.pair(None, None) == "-"

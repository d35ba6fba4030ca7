"""Go durations."""

import pytest

from crds.duration import DurationError, canonical, format_duration, parse_duration


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

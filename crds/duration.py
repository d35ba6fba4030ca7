"""Go durations ("5m0s", "1h30m") <-> seconds; and ages as people read them."""

import re
from fractions import Fraction
from typing import Final

_UNITS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"([+-]?)((?:{_PART.pattern})+|0)")
_LARGEST_NANOSECONDS: Final = 2**63 - 1
_LONGEST_TEXT: Final = 256
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400


class DurationError(ValueError):
    """The text is not a Go duration."""


def parse_duration(text: str) -> float:
    """Seconds of a Go duration.

    Raises:
        DurationError: the text is not one, or is out of Go's range of 292 years; the message quotes it.
    """
    return float(_exact(text))


def canonical(text: str) -> str:
    """The text that Go writes for a duration: "1m" -> "1m0s", "90s" -> "1m30s", "1500us" -> "1.5ms".

    Raises:
        DurationError: the text is not a duration.
    """
    exact = _exact(text)
    sign, nanoseconds = "-" if exact < 0 else "", int(abs(exact) * 10**9)
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if 0 < nanoseconds < 1000 * size:
            return f"{sign}{_decimal(Fraction(nanoseconds, size))}{unit}"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    parts = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{parts}{_decimal(Fraction(rest, 10**9))}s"


def _decimal(number: Fraction) -> str:
    return f"{float(number):.9f}".rstrip("0").rstrip(".")


def _exact(text: str) -> Fraction:
    """Seconds."""
    match = _WHOLE.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        shown = text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004 - what fits on a line
        raise DurationError(f"{shown!r} is not a duration: write it like 5m0s, 90s or 1h30m")
    seconds = sum((Fraction(number) * _UNITS[unit] for number, unit in _numbers(match[2])), Fraction(0))
    if seconds * 10**9 > _LARGEST_NANOSECONDS:
        raise DurationError(f"{text[:80]!r} is longer than a duration can be (292 years)")
    return -seconds if match[1] == "-" else seconds


def _numbers(text: str) -> list[tuple[str, str]]:
    return [(match[1].rstrip("."), match[2]) for match in _PART.finditer(text)]


def format_duration(seconds: float) -> str:
    """The text Go writes for whole milliseconds: 300 -> "5m0s", 0.5 -> "500ms"."""
    sign = "-" if seconds < 0 else ""
    milliseconds = round(abs(seconds) * 1000)
    if milliseconds == 0:
        return "0s"
    if milliseconds < 1000:  # noqa: PLR2004 - below one second Go changes the unit
        return f"{sign}{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def format_span(seconds: float) -> str:
    """A time in its largest units: 86400 -> "24h", 604800 -> "7d", 5400 -> "1h30m", 300 -> "5m"."""
    if seconds > _DAY and seconds % _DAY == 0:
        return f"{seconds / _DAY:.0f}d"
    hours, rest = divmod(round(seconds), _HOUR)
    minutes, left = divmod(rest, _MINUTE)
    parts = [f"{amount}{unit}" for amount, unit in ((hours, "h"), (minutes, "m"), (left, "s")) if amount]
    return "".join(parts) or "0s"


def short_age(seconds: float) -> str:
    """Format an age in one or two units: 75 -> "1m15s", 7300 -> "2h1m", 90000 -> "25h".

    Args:
        seconds: how long; less than nothing counts as nothing. [s]
    """
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole // _MINUTE, "m", whole % _MINUTE, "s")
    if whole < _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 10 * _HOUR:
        return _two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "m")
    return f"{whole // _HOUR}h" if whole < 2 * _DAY else f"{whole // _DAY}d"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"

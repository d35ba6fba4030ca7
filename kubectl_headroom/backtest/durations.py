"""Parses and formats time spans with days ("7d", "1d12h", "90m"), and timestamps."""

import math
import re
from datetime import UTC, datetime
from typing import Final

from crds.duration import DurationError, parse_duration

DAY_SECONDS: Final = 86_400.0
_LONGEST_SECONDS: Final = 10 * 366 * DAY_SECONDS
_DAYS: Final = re.compile(r"(?P<days>\d{1,6}(?:\.\d{1,6})?)d(?P<rest>.*)")
_PLAIN: Final = re.compile(r"\d{1,10}(?:\.\d{1,6})?")
_SHOWN: Final = 40


def parse_span(text: str) -> float:
    """Seconds of a time such as "24h", "7d", "1d12h" or "300", at most ten years.

    Raises:
        ValueError: it is none; the message quotes it.
    """
    days, rest = 0.0, text.strip()
    if result := _DAYS.fullmatch(rest):
        days, rest = float(result["days"]), result["rest"] or "0s"
    try:
        seconds = days * DAY_SECONDS + (float(rest) if _PLAIN.fullmatch(rest) else parse_duration(rest))
    except DurationError:
        seconds = math.nan
    if not 0.0 <= seconds <= _LONGEST_SECONDS:
        raise ValueError(f"{text[:_SHOWN]!r} is not a time such as 90m, 24h or 7d")
    return seconds


def parse_timestamp(text: str, now: float) -> float:
    """Seconds since 1970 of "2013-08-16", "2026-01-31T12:00:00Z" (UTC if without zone), "1376611200" or "14d" (ago).

    Raises:
        ValueError: it is none of these; the message quotes it.
    """
    wrong = f"{text[:_SHOWN]!r} is no moment: write 2026-01-31, 2026-01-31T12:00:00Z, or 14d for so long ago"
    plain = text.strip()
    if _PLAIN.fullmatch(plain) and len(plain) > 8:  # noqa: PLR2004 - eight digits are a date
        return float(plain)
    try:
        moment = datetime.fromisoformat(plain)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        seconds = parse_span(plain)
    except ValueError:
        raise ValueError(wrong) from None
    if plain[-1:].isdecimal():
        raise ValueError(wrong)
    return now - seconds


def format_timestamp(moment: float) -> str:
    """A moment as people read it, to the minute: "2013-08-01 00:00 UTC"."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"

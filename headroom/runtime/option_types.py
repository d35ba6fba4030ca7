"""The types of settings: times, sizes, names. Each converts text to a value and back, and names the allowed values."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crds.duration import format_duration, parse_duration

YEAR_SECONDS: Final = 366 * 86400.0
_MIB: Final = 1 << 20
_HIGHEST_PORT: Final = 65535
_OBJECT_NAME: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z._-]{0,252})")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value."""

    metavar: str  # the value's name in the help
    parse: Callable[[str], Any]
    """Text to value. Raises ValueError whose message continues the setting's name: "must be …"."""
    show: Callable[[Any], str] = str  # value to text, for the help
    switch: bool = False  # whether the flag takes no value
    may_be_empty: bool = False  # whether the flag may be given an empty value


def duration(least: float = 0.05, most: float = YEAR_SECONDS, *, whole: bool = False) -> Kind:
    """A time between two bounds [s]: 500ms, 1s, 5m, or a bare number of seconds. Whole ones are int."""

    def parse(text: str) -> float | int:
        try:
            seconds = float(text) if text.isascii() and text.replace(".", "", 1).isdecimal() else parse_duration(text)
        except ValueError:
            raise ValueError("must be a time such as 500ms, 1s or 5m") from None
        if not least <= seconds <= most:
            raise ValueError(f"must be between {short_duration(least)} and {short_duration(most)}")
        if whole and seconds != int(seconds):
            raise ValueError("must be a whole number of seconds")
        return int(seconds) if whole else seconds

    return Kind("TIME", parse, short_duration)


def whole(least: int, most: int, metavar: str = "NUMBER") -> Kind:
    """A whole number between two bounds."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):  # noqa: PLR2004 - 64 bits
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return Kind(metavar, parse)


def mebibytes(least: int, most: int) -> Kind:
    """A size in whole MiB between two bounds; the value is in bytes."""
    inner = whole(least, most, "MIB")
    return Kind("MIB", lambda text: inner.parse(text) * _MIB, lambda value: str(value // _MIB))


def number(least: float, most: float) -> Kind:
    """A decimal number between two bounds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise ValueError(f"must be a number from {least:g} to {most:g}")
        return value

    return Kind("NUMBER", parse, lambda value: f"{value:g}")


def choice(*allowed: str, metavar: str = "NAME") -> Kind:
    """A choice of words, in any case."""

    def parse(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text.lower()

    return Kind(metavar, parse)


def names(known: tuple[str, ...]) -> Kind:
    """Some of the known names, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(part.strip() for part in text.split(",") if part.strip())
        if not chosen or any(name not in known for name in chosen):
            raise ValueError(f"must name some of {', '.join(known)}")
        return chosen

    return Kind("NAMES", parse, ",".join)


def _name(text: str) -> str:
    if not _OBJECT_NAME.fullmatch(text):
        raise ValueError("must be a name of letters, digits, '-' and '.', at most 253 of them")
    return text


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not (separator and port.isascii() and port.isdecimal() and len(port) < 6 and int(port) <= _HIGHEST_PORT):  # noqa: PLR2004 - digits
        raise ValueError("must be HOST:PORT or :PORT")
    return host.strip("[]"), int(port)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError("must be one of true, false, 1, 0")
    return text.lower() in ("true", "1")


def short_duration(seconds: float) -> str:
    """A time as people write it: 3600 -> "1h", 90 -> "1m30s", two days -> "48h"."""
    text = format_duration(seconds)
    for zero, kept in (("m0s", "m"), ("h0m", "h")):
        text = text.removesuffix(zero) + kept if text.endswith(zero) else text
    return text


TEXT: Final = Kind("TEXT", str)
NAME: Final = Kind("NAME", _name)  # the name of an object of the cluster
FILE: Final = Kind("FILE", str)  # a file, or several with colons between them
FOLDER: Final = Kind("DIR", Path)
ADDRESS: Final = Kind("ADDRESS", _address, lambda value: f"{value[0]}:{value[1]}")
"""A host and port to listen on; an empty host means all."""
PEM: Final = Kind("FILE", Path)  # a file of certificates
SWITCH: Final = Kind("", _switch, lambda value: str(value).lower(), switch=True)  # on or off; the flag alone means on

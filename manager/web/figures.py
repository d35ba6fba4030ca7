"""Numbers of the page as people read them: cores and GiB, three digits."""

from typing import Final

NOTHING: Final = "–"  # noqa: RUF001 - a dash of the width of a digit
"""Stands where a number is not known."""
_KIB: Final = 1024.0
_KILO: Final = 1000.0
_SMALLEST_CORES: Final = 0.1  # less is written in milli-cores
_TEN: Final = 10
_HUNDRED: Final = 100

UNITS: Final = {"cpu": "cores", "memory": "GiB"}  # units of plots and tables
TITLES: Final = {"cpu": "CPU", "memory": "Memory"}  # how people call the resources
INSIDE: Final = {"cpu": "CPU", "memory": "memory"}  # the same inside of a sentence


def digits(number: float) -> str:
    """Three digits: 3.256 -> "3.26", 12.34 -> "12.3", 12345 -> "12,345"."""
    size = abs(number)
    if size >= _HUNDRED:
        return f"{number:,.0f}"
    text = f"{number:.1f}" if size >= _TEN else f"{number:.2f}"
    return text.rstrip("0").rstrip(".")


def amount(resource: str, number: float | None) -> str:
    """An amount [cores, GiB] with its unit: "3.25 cores", "3m", "9.2 GiB", "1.2 TiB"."""
    if number is None:
        return NOTHING
    if resource == "cpu":
        return f"{digits(number)} cores" if abs(number) >= _SMALLEST_CORES or not number else f"{number * _KILO:.0f}m"
    if abs(number) >= _KIB:
        return f"{digits(number / _KIB)} TiB"
    return f"{digits(number)} GiB" if abs(number) >= 1 or not number else f"{digits(number * _KIB)} MiB"


def short(resource: str, number: float | None) -> str:
    """The same for narrow columns; cores go without saying."""
    return amount(resource, number).removesuffix(" cores")


def of(resource: str, part: float | None, whole: float | None) -> str:
    """A part of a whole in few letters: "2.9 of 8", "11.2 of 32 GiB"; units once where they are the same."""
    shown, total = short(resource, part), short(resource, whole)
    unit = total.rpartition(" ")[2]
    if " " in total and part is not None:
        shown = "0" if not part else shown.removesuffix(f" {unit}")
    return f"{shown} of {total}"


def percent(number: float | None, whole: float | None) -> str:
    """A share: "42%"."""
    return NOTHING if number is None or not whole else f"{100 * number / whole:.0f}%"

"""Kubernetes quantities: the only place where strings such as "1500m" and "9Gi" become numbers, and back.

Values are exact (`fractions.Fraction`). Conversions to integers round away from zero, as Kubernetes does: a pod that
requests a little gets at least that. Like Kubernetes, anything finer than a nano-unit is rounded up to one, and binary
amounts beyond 2^63-1 count as 2^63-1. Unlike Kubernetes, a suffix without a number ("k") is an error, not a zero.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final, NewType

MilliCores = NewType("MilliCores", int)
"""CPU in thousandths of a core."""

Bytes = NewType("Bytes", int)
"""Memory or storage in bytes."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_BINARY: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<decimals>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)
_NANO: Final = Fraction(1, 10**9)
_LARGEST_BINARY: Final = Fraction(2**63 - 1)
_LONGEST_TEXT: Final = 512
_LARGEST_EXPONENT: Final = 2**31 - 1
"""Kubernetes holds an exponent in 32 bits: an API server stores 1e400000 as 10e399999."""
_COMPUTED_EXPONENT: Final = 512
_ONE_DECIMAL_BELOW: Final = 10
_IN_CORES_FROM: Final = 1_000_000


def parse_quantity(quantity: str | float | Fraction) -> Fraction:
    """The exact value of a quantity, in its base unit (cores, bytes, pieces).

    Args:
        quantity: text as Kubernetes writes it ("500m", "1Gi", "1e3", "-2"), or a JSON number.

    Raises:
        QuantityError: it is not a quantity; the message quotes it.
    """
    if isinstance(quantity, Fraction):
        return quantity
    if isinstance(quantity, str):
        return _parse_text(quantity)
    if isinstance(quantity, bool):
        raise QuantityError(f"{quantity!r} is not a quantity: write a number such as 2, 500m or 1Gi")
    return _parse_text(str(quantity) if isinstance(quantity, int) else repr(quantity))


@lru_cache(maxsize=8192)
def _parse_text(text: str) -> Fraction:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    has_digits = match is not None and (match["whole"] or match["decimals"])
    if match is None or not has_digits or abs(int(match["exponent"] or 0)) > _LARGEST_EXPONENT:
        shown = text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004 - what fits on a line
        raise QuantityError(f"{shown!r} is not a quantity: write a number such as 2, 500m or 1Gi")
    decimals = match["decimals"] or ""
    number = Fraction(int((match["whole"] or "") + decimals or "0"), 10 ** len(decimals))
    suffix = match["suffix"] or ""
    magnitude = _round_to_nano(_scaled(number, match["exponent"], suffix))
    magnitude = min(magnitude, _LARGEST_BINARY) if suffix in _BINARY else magnitude
    return -magnitude if match["sign"] == "-" else magnitude


def _scaled(number: Fraction, exponent: str | None, suffix: str) -> Fraction:
    if exponent is None:
        return number * _SUFFIXES[suffix]
    # A large exponent means a huge or a vanishing amount; its digits are not computed.
    power = max(-_COMPUTED_EXPONENT - _LONGEST_TEXT, min(int(exponent), _COMPUTED_EXPONENT))
    return number * Fraction(10) ** power


def _round_to_nano(value: Fraction) -> Fraction:
    """Round a value >= 0 up to a whole number of nano-units."""
    return value if _NANO.denominator % value.denominator == 0 else -(-value // _NANO) * _NANO


def _away_from_zero(value: Fraction) -> int:
    return -(-value.numerator // value.denominator) if value >= 0 else value.numerator // value.denominator


def value(quantity: str | float | Fraction) -> int:
    return _away_from_zero(parse_quantity(quantity))


def milli_value(quantity: str | float | Fraction) -> MilliCores:
    return MilliCores(_away_from_zero(parse_quantity(quantity) * 1000))


def format_milli_cores(milli_cores: int) -> str:
    """Canonical text of an amount of CPU: 1500 -> "1500m", 2000 -> "2"."""
    whole, rest = divmod(milli_cores, 1000)
    return f"{milli_cores}m" if rest else str(whole)


def format_bytes(amount: int) -> str:
    """Canonical text of an amount of bytes: exact binary units where they fit ("9Gi"), else the plain integer."""
    for suffix in _BINARY:
        whole, rest = divmod(amount, int(_SUFFIXES[suffix]))
        if whole and not rest:
            return f"{whole}{suffix}"
    return str(amount)


def short_milli_cores(milli_cores: int) -> str:
    """An amount of CPU for people: 2000 -> "2000m"; from 1,000 cores on 160000000 -> "160000 cores"."""
    return f"{milli_cores}m" if abs(milli_cores) < _IN_CORES_FROM else f"{milli_cores / 1000:.0f} cores"


def short_bytes(amount: int) -> str:
    """An amount of bytes for people, rounded to two or three digits: 9878424781 -> "9.2Gi", 67108864 -> "64Mi"."""
    for suffix in _BINARY:
        size = int(_SUFFIXES[suffix])
        if abs(amount) >= size:
            scaled = amount / size
            whole = abs(scaled) >= _ONE_DECIMAL_BELOW or amount % size == 0
            return f"{scaled:.0f}{suffix}" if whole else f"{scaled:.1f}{suffix}"
    return str(amount)

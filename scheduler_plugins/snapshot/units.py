"""Amounts of a resource as integers: CPU in milli-cores, everything else in base units (bytes, pieces)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from crds.quantity import milli_value, value

Vector: TypeAlias = tuple[int, ...]
"""One amount per resource of the load rules, in their order. [milli-cores for cpu, else base units]"""
_LARGEST: Final = 2**53


def units(resource: str, quantity: Any) -> int:  # noqa: ANN401 - a quantity is text, a number or a Fraction
    """A quantity of a resource as an integer, rounded up: milli-cores for cpu, else base units.

    More than 2^53 (8 pebibytes) counts as that: doubles are exact up to there, and sums over a node stay in 64 bits.

    Raises:
        QuantityError: it is not a quantity.
    """
    return min(milli_value(quantity) if resource == "cpu" else value(quantity), _LARGEST)


def vector(resources: Sequence[str], amounts: Mapping[str, Any] | None) -> Vector:
    """The amounts of these resources; one that is not named counts 0."""
    given = amounts or {}
    return tuple(units(name, given[name]) if name in given else 0 for name in resources)


def unix_time(text: str | None) -> float | None:
    """Unix seconds of an RFC 3339 time; None for none."""
    return datetime.fromisoformat(text).timestamp() if text else None

"""Amounts of a resource as integers: CPU in milli-cores, everything else in base units (bytes, pieces)."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crds.quantity import QuantityError, milli_value, value

Vector: TypeAlias = tuple[int, ...]
"""An amount per resource of the load rules, in their order. [milli-cores for cpu, else base units]"""
Usage: TypeAlias = tuple[int | None, ...]
"""The same as measured; None: nothing is known of that resource. [milli-cores for cpu, else base units]"""
LARGEST: Final = 2**53  # the largest amount. [milli-cores for cpu, else base units]
INT64_MAX: Final = 2**63 - 1  # the largest amount that Kubernetes knows
_LONGEST_PLAIN: Final = 15
_SHOWN: Final = 80  # the part of a quantity that a message quotes [characters]
_THOUSANDTHS: Final[Mapping[str, int]] = {"m": 1, "u": 1000, "n": 10**6}  # how many of a unit make one thousandth
_MULTIPLES: Final[Mapping[str, int]] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
"""The suffixes that amounts of memory usually have."""


def units(resource: str, quantity: Any, most: int = LARGEST) -> int:  # noqa: ANN401 - text, a number or a Fraction
    """A quantity of a resource as an integer, rounded up: milli-cores for cpu, else base units.

    Args:
        resource: name of the resource.
        quantity: the amount.
        most: what more counts as. By default 2^53 (8 pebibytes): doubles are exact up to there, and sums over a node
            stay in 64 bits.

    Raises QuantityError: it is not a quantity, or negative; the message names the resource.
    """
    cpu = resource == "cpu"
    amount = _plain(quantity, cpu=cpu) if isinstance(quantity, str) else None
    if amount is None:
        try:
            amount = milli_value(quantity) if cpu else value(quantity)
        except QuantityError as error:
            raise QuantityError(f"{resource}: {error}") from None
        if amount < 0:
            raise QuantityError(f"{resource}: {str(quantity)[:_SHOWN]!r} is negative")
    return min(amount, most)


def _plain(text: str, *, cpu: bool) -> int | None:
    """The forms in which usage is reported ("250m", "1234567890", "3Gi") without fractions, ten times as fast.

    None: another form.
    """
    if len(text) > _LONGEST_PLAIN or not text.isascii():
        return None
    if text.isdigit():
        return int(text) * 1000 if cpu else int(text)
    if (parts := _THOUSANDTHS.get(text[-1:])) is not None and text[:-1].isdigit():
        return -(-int(text[:-1]) // (parts if cpu else parts * 1000))
    if (multiple := _MULTIPLES.get(text[-2:])) is not None and text[:-2].isdigit():
        return int(text[:-2]) * multiple * (1000 if cpu else 1)
    return None


def usage(resources: Sequence[str], amounts: Mapping[str, Any] | None) -> Usage | None:
    """Return the measured usage of these resources; None where there are no amounts at all.

    Everything uses CPU and memory, so that of these an amount that is not stated is unknown. Of other resources it
    is 0: a node without devices reports none.
    """
    if not amounts:
        return None
    absent = {"cpu": None, "memory": None}
    return tuple([units(name, amounts[name]) if name in amounts else absent.get(name, 0) for name in resources])


@lru_cache(maxsize=4096)  # objects that change at once have the same seconds
def unix_time(text: str | None) -> float | None:
    """Unix seconds of an RFC 3339 time; None for none."""
    return datetime.fromisoformat(text).timestamp() if text else None


_JUST_BELOW_HALF: Final = math.nextafter(0.5, 0.0)
"""Adding this, not 0.5, keeps the number just below one half from reaching one; x.5 still does: the sum rounds up."""


def round_half_away(values: Any) -> NDArray[np.int64]:  # noqa: ANN401 - whatever numpy takes for an array of floats
    """Nearest integers, halves away from zero: 64.5 -> 65, -64.5 -> -65, 65.49 -> 65."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.trunc(numbers + np.copysign(_JUST_BELOW_HALF, numbers)).astype(np.int64)


def round_half_up(value: float) -> int:
    """Round one number that is not negative as `round_half_away` rounds arrays, without the cost of an array."""
    return math.trunc(value + _JUST_BELOW_HALF)

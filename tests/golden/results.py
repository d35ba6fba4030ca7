"""Results of adapters beyond plain JSON, and their comparison with a vector's expectation."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from crds.quantity import QuantityError, parse_quantity

FLOAT_TOLERANCE: Final = 1e-12
"""Relative difference between two floats that only stems from the last digits of two math libraries."""


INFORMATIVE: Final = frozenset({"detail", "message", "messages"})
"""Keys of `expected` that only explain; nothing is compared under them."""


class UnsupportedVectorError(Exception):
    """An adapter met a step or an option that nothing of ours answers."""


class Exact(dict[str, Any]):
    """An object whose keys must be exactly the expected ones: a map of data, where an extra key is an error."""


class Amount(Fraction):
    """A quantity; equal to every text and number that says the same amount ("500m", "0.5")."""

    @classmethod
    def of(cls, quantity: str | float) -> "Amount":
        return cls(parse_quantity(quantity))


class Amounts(dict[str, Any]):
    """Amounts by resource; without any it is also null, as Go writes a map that was never made."""


def difference(expected: Any, actual: Any, tolerance: float | None, path: str = "") -> str | None:  # noqa: ANN401
    """The first difference as a sentence, or None. Keys that are not expected do not matter, except in `Exact`."""
    here = path or "the result"
    if isinstance(actual, Amount):
        return _amount_difference(expected, actual, here)
    if isinstance(actual, Amounts) and not actual and expected is None:
        return None
    if isinstance(expected, Mapping):
        return _object_difference(expected, actual, tolerance, path)
    if isinstance(expected, list):
        return _list_difference(expected, actual, tolerance, path)
    if _is_number(expected) and _is_number(actual):
        same = _close(expected, actual, tolerance)
    else:
        same = type(expected) is type(actual) and expected == actual
    return None if same else f"{here}: expected {expected!r}, got {actual!r}"


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(expected: float, actual: float, tolerance: float | None) -> bool:
    if isinstance(expected, int) and isinstance(actual, int):
        return expected == actual
    if tolerance is not None:
        return math.isclose(expected, actual, rel_tol=0.0, abs_tol=tolerance)
    return math.isclose(expected, actual, rel_tol=FLOAT_TOLERANCE)


def _amount_difference(expected: Any, actual: Amount, here: str) -> str | None:  # noqa: ANN401
    try:
        same = expected is not None and parse_quantity(expected) == actual
    except (QuantityError, AttributeError):
        same = False
    return None if same else f"{here}: expected the amount {expected!r}, got {float(actual):g}"


def _object_difference(expected: Mapping[str, Any], actual: object, tolerance: float | None, path: str) -> str | None:
    if not isinstance(actual, Mapping):
        return f"{path or 'the result'}: expected an object, got {actual!r}"
    for key, value in expected.items():
        if key in INFORMATIVE:
            continue
        inner = f"{path}.{key}" if path else str(key)
        if key not in actual and value is not None:  # null means absent
            return f"{inner}: expected {value!r}, got nothing"
        result = difference(value, actual.get(key), tolerance, inner)
        if result:
            return result
    extra = sorted(actual.keys() - expected.keys())
    return f"{path or 'the result'}: not expected: {extra}" if extra and isinstance(actual, Exact) else None


def _list_difference(expected: Sequence[Any], actual: object, tolerance: float | None, path: str) -> str | None:
    here = path or "the result"
    if not isinstance(actual, list | tuple):
        return f"{here}: expected a list, got {actual!r}"
    for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
        result = difference(left, right, tolerance, f"{here}[{index}]")
        if result:
            return result
    return None if len(expected) == len(actual) else f"{here}: expected {len(expected)} entries, got {len(actual)}"

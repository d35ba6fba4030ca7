"""Reads numbers and times out of JSON of other writers, without ever failing on it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from crds.quantity import QuantityError, milli_value, value
from manager.inputs.amounts import LARGEST, Amounts, Measured

Json = Mapping[str, Any]

LONGEST_ANNOTATION: Final = 16 * 1024  # an annotation of a Node is read at each reconciliation [characters]
MOST_ITEMS: Final = 2000
"""The number of items of a list that are read; no node has more pods. Further ones cost nothing."""
_MOST_PROBLEMS: Final = 20
_LONGEST_VALUE: Final = 80


class Reader:
    """Reads amounts out of JSON of other writers, and records unreadable ones."""

    def __init__(self) -> None:
        self.problems: list[str] = []  # one sentence for each of the first values that could not be read

    def problem(self, text: str) -> None:
        """Note what could not be read; of very many the first ones."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(text)

    def measured(self, resources: object, path: str) -> Measured:
        """CPU and memory of a resource list; an amount that cannot be counts as not reported."""
        if not isinstance(resources, Mapping):
            return Measured()
        return Measured(
            self._amount(resources.get("cpu"), f"{path}.cpu", milli_value),
            self._amount(resources.get("memory"), f"{path}.memory", value),
        )

    def _amount(self, quantity: object, path: str, convert: Any) -> int | None:  # noqa: ANN401 - milli_value or value
        if quantity is None:
            return None
        try:
            amount = int(convert(quantity))
        except (QuantityError, TypeError):
            self.problem(f"{path}: {_shown(quantity)} is not a quantity; the amount counts as not reported")
            return None
        if not 0 <= amount <= LARGEST:  # as zero, a negative usage would mean that everything is free
            self.problem(f"{path}: {_shown(quantity)} cannot be an amount; it counts as not reported")
            return None
        return amount

    def time(self, text: object, path: str) -> float | None:
        """Unix seconds of an RFC 3339 time."""
        if text is None or text == "":
            return None
        try:
            return parse_time(str(text))
        except ValueError:
            self.problem(f"{path}: {_shown(text)} is not a time; the report counts as never sent")
            return None


def _shown(value: object) -> str:
    """Return a value, cut to a line; a nested value may be deeper than the encoder can write."""
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def parse_time(text: str) -> float:
    """Unix seconds of an RFC 3339 time.

    Raises:
        ValueError: it is not one.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def get_path(data: object, *path: str) -> Any:  # noqa: ANN401 - JSON from outside can be anything
    """Return the value at a path of JSON, or `None` where the path ends early."""
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def get_objects(data: object, *path: str) -> list[Json]:
    """The first objects of the list at a path of JSON; empty where there is none."""
    result = get_path(data, *path)
    listed = result[:MOST_ITEMS] if isinstance(result, list | tuple) else ()
    return [item for item in listed if isinstance(item, Mapping)]


def known(measured: Measured) -> Amounts:
    return Amounts(measured.cpu or 0, measured.memory or 0)

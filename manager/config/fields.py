"""Checks JSON field by field against the types of the API, and gathers every fault instead of stopping at the first."""

import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Final

from crds.codec import json_fields
from crds.colocation import ALLOWED, ALLOWED_MID_EVICTION, MetricAggregatePolicy, MidEviction
from crds.duration import DurationError, parse_duration
from crds.predict_policy import RANGES, ModelChoice, PredictPolicy, ResourceOverride
from crds.ranges import Allowed, Choice
from manager.config.document import UnusableNumber
from manager.config.findings import ConfigFinding, join, nearest, shown

_ALLOWED: Final[Mapping[type, Mapping[str, Allowed]]] = {
    MidEviction: ALLOWED_MID_EVICTION,
    PredictPolicy: RANGES,
    ResourceOverride: RANGES,
    ModelChoice: {},
    MetricAggregatePolicy: {},
}
# Settings of Koordinator that take any text there: an odd one changes nothing here, so it is no reason to refuse.
_ANY_TEXT: Final = frozenset({"midReclaimMode", "cpuCalculatePolicy", "memoryCalculatePolicy"})
_NUMBER: Final = re.compile(r"\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*%?\s*", re.ASCII)
_UNITS: Final = {"Seconds": 1, "Minutes": 60}
_NAMES: Final[Mapping[type, str]] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
MISSING: Final = object()
"""Stands for a value that cannot be used."""


class Budget:
    """How many unknown names one text may have before it is refused as a whole."""

    def __init__(self, unknown: int = 100) -> None:
        self.unknown = unknown
        """How many more unknown names are checked one by one."""


class Fields:
    """Reads one document and gathers what is wrong (`errors`) and what is odd (`warnings`) about it.

    Args:
        budget: shared by all parts of one text.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self.errors: list[ConfigFinding] = []
        """Faults: the document, or the entry they are in, cannot be used."""
        self.warnings: list[ConfigFinding] = []
        """What is ignored, or probably not meant."""

    def error(self, path: str, message: str) -> None:
        """Note a fault."""
        self.errors.append(ConfigFinding(path, message))

    def warn(self, path: str, message: str) -> None:
        """Note an oddity."""
        self.warnings.append(ConfigFinding(path, message))

    def read(self, cls: type, data: Any, path: str, special: Mapping[str, Callable[[Any, str], Any]]) -> dict[str, Any]:  # noqa: ANN401
        """The usable fields of a JSON object, by their right names; null and unusable ones are left out.

        Args:
            cls: the type of the API that defines the fields.
            data: parsed JSON.
            path: where it stands.
            special: readers for fields that need more than their type; each takes (value, path).
        """
        if not isinstance(data, Mapping):
            self.error(path, f"must be an object with fields, got {shown(data)}")
            return {}
        known = _kinds(cls)
        read: dict[str, Any] = {}
        spelt: dict[str, str] = {}
        for written, value in data.items():
            name = self._name(written, known, data, path)
            if name is None or value is None:
                continue
            if spelt.setdefault(name, written) != written:
                self.error(join(path, written), f"given twice, also as {spelt[name]}: remove one")
                continue
            where = join(path, name)
            clean = special[name](value, where) if name in special else self.value(known[name], value, where)
            if clean is not MISSING and self._within(cls, name, clean, where):
                read[name] = clean
        return read

    def _name(self, written: str, known: Mapping[str, Any], data: Mapping[str, Any], path: str) -> str | None:
        """The right name of a field as written; `None` when there is none."""
        if written in known:
            return written
        where = join(path, written)
        same = next((name for name in known if name.lower() == written.lower()), None)
        if same is not None and same not in data:
            self.warn(where, f"read as {same}: write it like that")
            return same
        if same is not None:
            self.error(where, f"given twice, also as {same}: remove one")
        elif not self.may_inspect(path):
            return None
        elif (meant := nearest(written, known)) is not None:
            self.error(where, f"unknown field: did you mean {meant}?")
        else:
            self.warn(where, "unknown field: ignored")
        return None

    def may_inspect(self, path: str) -> bool:
        """Whether one more unknown name may be checked: finding the intended name takes long."""
        if self._budget.unknown == 0:
            self.error(path, "has very many unknown names: is this a colocation config?")
        self._budget.unknown -= 1
        return self._budget.unknown >= 0

    def _within(self, cls: type, name: str, value: Any, path: str) -> bool:  # noqa: ANN401
        rule = _ALLOWED.get(cls, ALLOWED).get(name)
        if rule is None or rule.allows(value):
            return True
        if name in _ANY_TEXT and isinstance(value, str):
            self.warn(path, f"{shown(value)} is not {_words(rule)}: it has no effect")
            return True
        meant = nearest(value, rule.options) if isinstance(rule, Choice) and isinstance(value, str) else None
        guess = f": did you mean {shown(meant)}?" if meant else ""
        self.error(path, f"must be {_words(rule)}, got {shown(value)}{guess}")
        return False

    def value(self, kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401
        """A value of a type, cleaned; `MISSING` after noting why it cannot be used."""
        if isinstance(value, UnusableNumber):  # the document was blamed for it
            return MISSING
        if is_dataclass(kind):
            return self.read(typing.cast("type", kind), value, path, {})
        origin = typing.get_origin(kind)
        if origin is tuple:
            return self.items(typing.get_args(kind)[0], value, path)
        if origin is not None:  # a mapping with free content
            if isinstance(value, Mapping):
                return dict(value)
            self.error(path, f"must be an object, got {shown(value)}")
            return MISSING
        return self._scalar(kind, value, path)

    def items(self, kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401
        """The usable items of a list."""
        if not isinstance(value, list):
            self.error(path, f"must be a list, got {shown(value)}")
            return MISSING
        read = []
        for index, item in enumerate(value):
            clean = self.value(kind, item, join(path, index))
            if clean is not MISSING:
                read.append(clean)
        return read

    def _scalar(self, kind: type, value: Any, path: str) -> Any:  # noqa: ANN401
        # JSON's true is no number, and 60.5 seconds are no whole number; a whole number is a number.
        if type(value) is kind or (kind is float and type(value) is int):
            return value
        hint = _hint(kind, value, path) if isinstance(value, str) else ""
        self.error(path, f"must be {_NAMES[kind]}, got {shown(value)}{hint}")
        return MISSING


def _hint(kind: type, text: str, path: str) -> str:
    """What to write in place of a text that is right in the wrong form: "50%", "5m", "true"."""
    if kind is bool:
        return f": write {text.lower()} without quotes" if text.lower() in {"true", "false"} else ""
    if kind not in {int, float}:
        return ""
    number = _NUMBER.fullmatch(text)
    if number is not None:
        return f": write {number[1]}" if kind is float or "." not in number[1] else ""
    unit = next((seconds for suffix, seconds in _UNITS.items() if path.endswith(suffix)), None)
    try:
        amount = parse_duration(text) / unit if unit else 0.0
    except DurationError:
        return ""
    return f": write {amount:.0f}" if amount >= 1 and amount.is_integer() else ""


def _words(rule: Allowed) -> str:
    return "one of " + ", ".join(shown(option) for option in rule.options) if isinstance(rule, Choice) else str(rule)


@cache
def _kinds(cls: type) -> dict[str, Any]:
    """JSON name -> type of each field, without `None`."""
    hints = typing.get_type_hints(cls)
    return {name: _present(hints[field.name]) for name, field in json_fields(cls).items()}


def _present(hint: Any) -> Any:  # noqa: ANN401 - a type expression
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return hint

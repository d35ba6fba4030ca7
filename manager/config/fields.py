"""Checks JSON field by field against the types of the API, and gathers every fault instead of stopping at the first."""

import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Any, Final

from crds.codec import json_fields
from crds.colocation import (
    ALLOWED,
    ALLOWED_HOT_NODES,
    ALLOWED_MID_EVICTION,
    ColocationConfig,
    HotNodes,
    MetricAggregatePolicy,
    MidEviction,
    NodeStrategy,
)
from crds.duration import DurationError, format_duration, parse_duration
from crds.node_metric import LONGEST_DURATION_SECONDS, MOST_DURATIONS
from crds.predict_policy import RANGES, ModelChoice, PredictPolicy, ResourceOverride
from crds.ranges import Allowed, Choice, Range
from manager.config import selector
from manager.config.document import UnusableNumber
from manager.config.findings import ConfigFinding, join, nearest, shown

_ALLOWED: Final[Mapping[type, Mapping[str, Allowed]]] = {
    HotNodes: ALLOWED_HOT_NODES,
    MidEviction: ALLOWED_MID_EVICTION,
    PredictPolicy: RANGES,
    ResourceOverride: RANGES,
    ModelChoice: {},
    MetricAggregatePolicy: {},
}
# Settings of Koordinator that accept any text there: a wrong one changes nothing here, so it is not rejected.
_ANY_TEXT: Final = frozenset({"midReclaimMode", "cpuCalculatePolicy", "memoryCalculatePolicy"})
_NUMBER: Final = re.compile(r"\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*%?\s*", re.ASCII)
_UNITS: Final = {"Seconds": 1, "Minutes": 60}
_NAMES: Final[Mapping[type, str]] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_DURATIONS: Final = Range(1, LONGEST_DURATION_SECONDS)
MISSING: Final = object()  # in place of an unusable value


@dataclass(slots=True)
class Fields:
    """Reads a document, or a part of it, and gathers errors and warnings."""

    unknown: list[int] = field(default_factory=lambda: [100])
    """The number of further unknown names that are checked; shared by all parts of a text."""
    errors: list[ConfigFinding] = field(default_factory=list)
    """Faults: the document, or the entry they are in, cannot be used."""
    warnings: list[ConfigFinding] = field(default_factory=list)  # ignored or suspicious fields

    def error(self, path: str, message: str) -> Any:  # noqa: ANN401 - in place of any value
        self.errors.append(ConfigFinding(path, message))
        return MISSING

    def warn(self, path: str, message: str) -> None:
        self.warnings.append(ConfigFinding(path, message))

    def read(self, cls: type, data: Any, path: str) -> dict[str, Any]:  # noqa: ANN401
        """The usable fields of a JSON object, by their right names; null and unusable ones are left out."""
        if not isinstance(data, Mapping):
            self.error(path, f"must be an object with fields, got {shown(data)}")
            return {}
        known, clean, spelt = _types(cls), dict[str, Any](), dict[str, str]()
        for written, value in data.items():
            name = self._name(written, known, data, path)
            if name is None or value is None:
                continue
            if spelt.setdefault(name, written) != written:
                self.error(join(path, written), f"given twice, also as {spelt[name]}: remove one")
                continue
            where, special = join(path, name), _SPECIAL.get((cls, name))
            result = special(self, value, where) if special else self._value(known[name], value, where)
            if result is not MISSING and self._within(cls, name, result, where):
                clean[name] = result
        return clean

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
        elif self.may_inspect(path):
            if (meant := nearest(written, known)) is not None:
                self.error(where, f"unknown field: did you mean {meant}?")
            else:
                self.warn(where, "unknown field: ignored")
        return None

    def may_inspect(self, path: str) -> bool:
        """Return whether one more unknown name may be checked: finding the intended name takes long."""
        if self.unknown[0] == 0:
            self.error(path, "has very many unknown names: is this a colocation config?")
        self.unknown[0] -= 1
        return self.unknown[0] >= 0

    def _within(self, cls: type, name: str, value: Any, path: str) -> bool:  # noqa: ANN401
        rule = _ALLOWED.get(cls, ALLOWED).get(name)
        if rule is None or rule.allows(value):
            return True
        allowed = "one of " + ", ".join(map(shown, rule.options)) if isinstance(rule, Choice) else str(rule)
        if name in _ANY_TEXT and isinstance(value, str):
            self.warn(path, f"{shown(value)} is not {allowed}: it has no effect")
            return True
        meant = nearest(value, rule.options) if isinstance(rule, Choice) and isinstance(value, str) else None
        self.error(path, f"must be {allowed}, got {shown(value)}{f': did you mean {shown(meant)}?' if meant else ''}")
        return False

    def _value(self, kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401
        """A value of a type, cleaned; `MISSING` after noting why it cannot be used."""
        if isinstance(value, UnusableNumber):  # the document was blamed for it
            return MISSING
        if is_dataclass(kind):
            return self.read(typing.cast("type", kind), value, path)
        origin = typing.get_origin(kind)
        if origin is tuple and isinstance(value, list):
            inner = typing.get_args(kind)[0]
            read = [self._value(inner, item, join(path, index)) for index, item in enumerate(value)]
            return [item for item in read if item is not MISSING]
        if origin not in {None, tuple} and isinstance(value, Mapping):  # free content
            return dict(value)
        # JSON's true is no number, and 60.5 seconds are no whole number; a whole number is a number.
        if type(value) is kind or (kind is float and type(value) is int):
            return value
        wanted = "a list" if origin is tuple else _NAMES.get(kind, "an object")
        hint = _hint(kind, value, path) if isinstance(value, str) else ""
        return self.error(path, f"must be {wanted}, got {shown(value)}{hint}")


def _hint(kind: type, text: str, path: str) -> str:
    """Return the corrected form of a value: "50%", "5m", "true"."""
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


def _durations(fields: Fields, value: Any, path: str) -> Any:  # noqa: ANN401
    if not isinstance(value, list):
        return fields.error(path, f"must be a list of durations such as 5m, got {shown(value)}")
    if len(value) > MOST_DURATIONS:
        return fields.error(path, f"must list at most {MOST_DURATIONS} durations, got {len(value)}")
    read = [_duration(fields, item, join(path, index)) for index, item in enumerate(value)]
    return [text for text in read if text is not MISSING] or MISSING  # an empty list keeps the default


def _duration(fields: Fields, item: Any, path: str) -> Any:  # noqa: ANN401
    try:
        seconds = parse_duration(item) if isinstance(item, str) else 0.0
    except DurationError as error:
        return fields.error(path, str(error))
    if seconds <= 0:
        return fields.error(path, f"must be a positive duration such as 5m, got {shown(item)}")
    if not _DURATIONS.allows(seconds):
        return fields.error(path, f"must be a duration from 1s to 168h, got {shown(item)}")
    return format_duration(seconds)


def _node_selector(fields: Fields, value: Any, path: str) -> Any:  # noqa: ANN401
    wrong = selector.faults(value, path)
    fields.errors += wrong
    return MISSING if wrong else dict(value)


def _node_configs(fields: Fields, value: Any, path: str) -> Any:  # noqa: ANN401
    return value if isinstance(value, list) else fields.error(path, f"must be a list, got {shown(value)}")


_SPECIAL: Final[Mapping[tuple[type, str], Callable[[Fields, Any, str], Any]]] = {
    (MetricAggregatePolicy, "durations"): _durations,
    (NodeStrategy, "nodeSelector"): _node_selector,
    (ColocationConfig, "nodeConfigs"): _node_configs,
}
"""Fields that need more than their type."""


@cache
def _types(cls: type) -> dict[str, Any]:
    """JSON name -> type of each field, without `None`."""
    hints = typing.get_type_hints(cls)
    return {name: _present(hints[each.name]) for name, each in json_fields(cls).items()}


def _present(hint: Any) -> Any:  # noqa: ANN401 - a type expression
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return hint

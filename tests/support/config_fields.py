"""Every field of a colocation config: meaning, type, default and range, from the types of the API."""

import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any, Final

from crds import colocation, predict_policy
from crds.codec import json_fields
from crds.colocation import ColocationConfig, ColocationStrategy, HotNodes, MetricAggregatePolicy, MidEviction
from crds.predict_policy import PredictPolicy, ResourceOverride
from crds.ranges import Allowed, Choice, Range
from headroom.runtime.options import docstrings

ENTRY: Final = "nodeConfigs[]"  # path of an entry for some nodes
_DEFAULTS: Final[Mapping[type, Any]] = {
    ColocationConfig: colocation.DEFAULTS,
    ColocationStrategy: colocation.DEFAULTS,
    HotNodes: colocation.DEFAULTS.hot_nodes,
    MidEviction: colocation.DEFAULTS.mid_eviction,
    MetricAggregatePolicy: colocation.DEFAULTS.metric_aggregate_policy,
    PredictPolicy: predict_policy.DEFAULTS,
}
_ALLOWED: Final[Mapping[type, Mapping[str, Allowed]]] = {
    ColocationConfig: colocation.ALLOWED,
    HotNodes: colocation.ALLOWED_HOT_NODES,
    MidEviction: colocation.ALLOWED_MID_EVICTION,
    PredictPolicy: predict_policy.RANGES,
    ResourceOverride: predict_policy.RANGES,
}
_KINDS: Final[Mapping[Any, str]] = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_UNIT: Final = re.compile(r"\s*\[([^]]+)\]$")
_UNUSED: Final = "accepted, not used"


@dataclass(frozen=True, slots=True)
class Field:
    path: str  # its path: "midEviction.mode"; of an entry for some nodes "nodeConfigs[].name"
    kind: str  # its type, in words
    default: Any  # JSON; None: none
    allowed: Allowed | None  # its range; None: that of its type
    meaning: str  # a sentence or two
    unit: str  # such as "s" or "percent"; empty where there is none

    @property
    def used(self) -> bool:
        """Return whether it has an effect here: some are accepted for Koordinator alone."""
        return _UNUSED not in self.meaning

    @property
    def range(self) -> str:
        """Return the range in words; empty where the type has all of it."""
        if isinstance(self.allowed, Choice):
            return ", ".join(option or '""' for option in self.allowed.options)
        if isinstance(self.allowed, Range):  # written out: 2592000, not 2.592e+06
            return f"{self.allowed.low:.12g} to {self.allowed.high:.12g}"
        return "" if self.allowed is None else str(self.allowed)


@cache
def every_field() -> tuple[Field, ...]:
    """All fields, in the order of the types: Koordinator's first; an object precedes its own fields."""
    return tuple(_fields(ColocationConfig, ""))


def _fields(cls: type, prefix: str, *, only_own: bool = False) -> Iterator[Field]:
    texts, kinds, defaults = docstrings(cls), typing.get_type_hints(cls), _DEFAULTS.get(cls)
    inherited = json_fields(ColocationStrategy) if only_own else {}
    for name, field in json_fields(cls).items():
        if name in inherited:
            continue
        kind = _present(kinds[field.name])
        default = getattr(defaults, field.name, None)
        text = texts.get(field.name, "")
        unit = _UNIT.search(text)
        yield Field(
            path=f"{prefix}{name}",
            kind=_words(kind),
            default=None if is_dataclass(default) else _plain(default),
            allowed=_ALLOWED.get(cls, {}).get(name),
            meaning=_UNIT.sub("", text),
            unit=unit[1] if unit else "",
        )
        if is_dataclass(kind):
            yield from _fields(typing.cast("type", kind), f"{prefix}{name}.")
        elif cls is ColocationConfig and typing.get_origin(kind) is tuple:
            yield from _fields(typing.get_args(kind)[0], f"{ENTRY}.", only_own=True)


def _words(kind: Any) -> str:  # noqa: ANN401 - a type expression
    if is_dataclass(kind):
        return "object"
    origin = typing.get_origin(kind)
    if origin is tuple:
        inner = typing.get_args(kind)[0]
        return "list of objects" if is_dataclass(inner) else f"list of {_KINDS.get(inner, 'object')}s"
    return "object" if origin is not None else _KINDS[kind]


def _present(kind: Any) -> Any:  # noqa: ANN401 - a type expression
    """A type without None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def _plain(value: Any) -> Any:  # noqa: ANN401 - a default
    return list(value) if isinstance(value, tuple) else value

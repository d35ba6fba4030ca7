"""A plugin's arguments: JSON under upstream's names <-> the fields of its dataclass. Collects every mistake."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from crds.codec import json_name
from crds.duration import DurationError, format_duration, parse_duration


class ArgumentError(ValueError):
    """Arguments that do not fit the plugin; `mistakes` holds one sentence for each."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that is closest to a wrong one, else the list of all."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f'did you mean "{close[0]}"?' if close else f"known are {', '.join(names)}"


def decode(cls: type[Any], data: object, path: str) -> Any:  # noqa: ANN401 - an object of cls
    """Build a dataclass from JSON; what is absent or null keeps the field's default.

    Args:
        cls: the dataclass; its fields are int, bool, float, str, a map to int, a tuple of str, or such a dataclass,
            each possibly None. A float whose name ends in `_duration` is written as a Go duration.
        data: parsed JSON or YAML.
        path: where it stands, for messages.

    Raises:
        ArgumentError: unknown names and wrong types, all of them.
    """
    if not isinstance(data, Mapping):
        raise ArgumentError([f"{path}: {data!r} is not an object"])
    fields = {json_name(field.name): field for field in dataclasses.fields(cls)}
    types_of = typing.get_type_hints(cls)
    mistakes, values = [], {}
    for name, value in data.items():
        field = fields.get(name)
        if field is None:
            mistakes.append(f"{path}.{name}: unknown; {nearest(str(name), fields)}")
        elif value is not None:
            try:
                values[field.name] = _value(field.name, types_of[field.name], value, f"{path}.{name}")
            except ArgumentError as error:
                mistakes.extend(error.mistakes)
    if mistakes:
        raise ArgumentError(mistakes)
    return cls(**values)


def _value(field: str, hint: Any, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON in, a field's value out
    """A field's value from JSON.

    Raises:
        ArgumentError: it has the wrong type.
    """
    kind = (
        next((part for part in typing.get_args(hint) if part is not types.NoneType), hint) if _optional(hint) else hint
    )
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return decode(kind, value, path)
    if field.endswith("_duration"):
        return _duration(value, path)
    origin = typing.get_origin(kind) or kind
    if origin is Mapping and isinstance(value, Mapping):
        return _int_map(value, path)
    if origin is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if origin is float and type(value) is int:
        return float(value)
    if origin in (int, bool, str, float) and type(value) is origin:
        return value
    raise ArgumentError([f"{path}: {value!r} is not {_SPOKEN.get(origin, origin)}"])


_SPOKEN: Mapping[Any, str] = {
    int: "an integer",
    bool: "true or false",
    str: "text",
    float: "a number",
    Mapping: "a map from resource names to integers",
    tuple: "a list of names",
}


def _optional(hint: Any) -> bool:  # noqa: ANN401 - a type hint
    return isinstance(hint, types.UnionType)


def _duration(value: object, path: str) -> float:
    if not isinstance(value, str):
        raise ArgumentError([f"{path}: {value!r} is not a duration: write it like 5m0s or 90s"])
    try:
        return parse_duration(value)
    except DurationError as error:
        raise ArgumentError([f"{path}: {error}"]) from error


def _int_map(value: Mapping[Any, Any], path: str) -> dict[str, int]:
    bad = [name for name, amount in value.items() if type(name) is not str or type(amount) is not int]
    if bad:
        raise ArgumentError(f"{path}.{name}: {value[name]!r} is not an integer" for name in bad)
    return dict(value)


def encode(obj: Any) -> dict[str, Any]:  # noqa: ANN401 - any such dataclass
    """The JSON of a dataclass of arguments, with every field; None is null."""
    return {json_name(field.name): _encoded(field.name, getattr(obj, field.name)) for field in dataclasses.fields(obj)}


def _encoded(field: str, value: Any) -> Any:  # noqa: ANN401 - a field's value in, JSON out
    if dataclasses.is_dataclass(value):
        return encode(value)
    if field.endswith("_duration"):
        return format_duration(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value

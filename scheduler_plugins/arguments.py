"""A plugin's arguments: JSON under upstream's names <-> the fields of its dataclass. Collects every mistake."""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Final

from crds.codec import JSON_NAME, json_name
from crds.duration import DurationError, format_duration, parse_duration
from headroom.runtime.removed import removed

_LONGEST_SHOWN: Final = 60
_INT64: Final = range(-(2**63), 2**63)
_MOST_NAMES: Final = 20  # how many known names a message lists


class ArgumentError(ValueError):
    """Arguments that do not fit the plugin; `mistakes` holds one sentence for each."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


def shown(value: object) -> str:
    """A value from outside as messages show it: on one line, and no longer than a few words."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that is closest to a wrong one, else the list of all."""
    names = sorted(known)
    if len(name) <= _LONGEST_SHOWN:
        same = [known for known in names if known.lower() == name.lower()]
        close = same or difflib.get_close_matches(name, names, n=1)
        if close:
            return f'did you mean "{close[0]}"?'
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"known are {', '.join(names[:_MOST_NAMES])}{more}" if names else "nothing is known here"


def json_fields(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass of arguments by JSON name: camelCase, unless the metadata `json` has another."""
    return {
        field.metadata.get(JSON_NAME) or json_name(field.name): field for field in dataclasses.fields(cls) if field.init
    }


def decode(cls: type[Any], data: object, path: str) -> Any:  # noqa: ANN401 - an object of cls
    """Build a dataclass from JSON, as `read` does. Raises ArgumentError: anything is wrong; all mistakes."""
    mistakes: list[str] = []
    result = read(cls, data, path, mistakes)
    if mistakes:
        raise ArgumentError(mistakes)
    return result


def read(cls: type[Any], data: object, path: str, mistakes: list[str]) -> Any:  # noqa: ANN401 - an object of cls
    """Build a dataclass from JSON; an absent, null or wrong field keeps its default.

    Args:
        cls: the dataclass; its fields are int, bool, float, str, a StrEnum, a map from names to any of these, a tuple
            of any of these, or such a dataclass; each possibly None. A float whose name ends in `_duration` is written
            as a Go duration.
        data: parsed JSON or YAML.
        path: its path, for messages.
        mistakes: takes a sentence for each unknown name, wrong type, and absent value without a default.

    Returns:
        The object; None where there is none to build.
    """
    fields = json_fields(cls)
    if not isinstance(data, Mapping):
        # What `repr` leaves out is a secret: no message quotes it, or what may hold it.
        text = shown(data) if all(field.repr for field in fields.values()) else f"a {type(data).__name__}"
        mistakes.append(f"{path}: {text} is not an object")
        return None
    types_of, before = typing.get_type_hints(cls), len(mistakes)
    values = {}
    for name, value in data.items():
        field = fields.get(name) if isinstance(name, str) else None
        if field is None:
            gone = removed("argument", f"{path.rpartition('.')[2]}.{name}")
            mistakes.append(f"{path}.{_key(name)}: {gone or f'unknown; {nearest(str(name), fields)}'}")
        elif value is not None:
            wrong: list[str] = []
            value_of = _duration if field.name.endswith("_duration") else partial(_value, types_of[field.name])
            result = value_of(value, f"{path}.{name}", wrong)
            if not wrong:
                values[field.name] = result
            mistakes += wrong if field.repr or not wrong else [f"{path}.{name}: the name is not text"]
    absent = [name for name, field in fields.items() if data.get(name) is None and _required(field)]
    mistakes += [f"{path}.{name}: is missing" for name in absent]
    if not all(field.name in values for field in fields.values() if _required(field)):
        return None
    try:
        return cls(**values)
    except ValueError as error:
        if len(mistakes) == before:  # else it may be about a default in place of a wrong value
            mistakes.append(f"{path}: {error}")
        return None


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _key(name: object) -> str:
    return name if isinstance(name, str) and len(name) <= _LONGEST_SHOWN else shown(name)


def _value(hint: Any, value: Any, path: str, mistakes: list[str]) -> Any:  # noqa: ANN401 - JSON in, a field's value out
    """A field's value from JSON; of the wrong type it is a mistake."""
    optional = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    kind = next(part for part in typing.get_args(hint) if part is not types.NoneType) if optional else hint
    origin = typing.get_origin(kind) or kind
    if origin is Mapping and isinstance(value, Mapping):
        named = {name: item for name, item in value.items() if isinstance(name, str)}
        unnamed = [name for name in value if not isinstance(name, str)]
        mistakes += [f"{path}: the name {shown(name)} is not text: put it in quotes" for name in unnamed]
        of_items = typing.get_args(kind)[1]
        return {name: _value(of_items, item, f"{path}.{_key(name)}", mistakes) for name, item in named.items()}
    if origin is tuple and isinstance(value, list):
        return tuple(_value(typing.get_args(kind)[0], item, f"{path}[{at}]", mistakes) for at, item in enumerate(value))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return read(kind, value, path, mistakes)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _choice(kind, value, path, mistakes)
    if kind is float and type(value) is int and _bounded(value):
        value = float(value)
    if type(value) is kind and kind in (int, bool, str, float) and _bounded(value):
        return value
    mistakes.append(f"{path}: {shown(value)} is not {_SPOKEN.get(origin, 'understood')}")
    return None


_SPOKEN: Final[Mapping[Any, str]] = {
    int: "an integer",
    bool: "true or false",
    str: "text",
    float: "a number",
    Mapping: "a map from resource names to numbers",
    tuple: "a list",
}


def _bounded(value: Any) -> bool:  # noqa: ANN401 - a scalar
    """Return whether a number is one that Go's int64 or JSON could hold."""
    if type(value) is int:
        return value in _INT64
    return not isinstance(value, float) or math.isfinite(value)


def _choice(kind: type[StrEnum], value: object, path: str, mistakes: list[str]) -> StrEnum | None:
    choices = [str(choice) for choice in kind]
    if isinstance(value, str) and value in choices:
        return kind(value)
    hint = nearest(value, choices) if isinstance(value, str) else f"known are {', '.join(choices)}"
    mistakes.append(f"{path}: {shown(value)}: must be {' or '.join(choices)}; {hint}")
    return None


def _duration(value: object, path: str, mistakes: list[str]) -> float | None:
    if not isinstance(value, str):
        mistakes.append(f"{path}: {shown(value)} is not a duration: write it like 5m0s or 90s")
        return None
    try:
        return parse_duration(value)
    except DurationError as error:
        mistakes.append(f"{path}: {error}")
        return None


def encode(obj: Any, *, secrets: bool = True) -> dict[str, Any]:  # noqa: ANN401 - any such dataclass
    """The JSON of a dataclass of arguments, with every field; None is null."""
    return {
        name: "..." if value and not secrets and not field.repr else _encoded(field.name, value, secrets)
        for name, field in json_fields(type(obj)).items()
        for value in [getattr(obj, field.name)]
    }


def _encoded(field: str, value: Any, secrets: bool) -> Any:  # noqa: ANN401, FBT001 - a field's value in, JSON out
    if value is None:
        return None
    if dataclasses.is_dataclass(value):
        return encode(value, secrets=secrets)
    if field.endswith("_duration"):
        return format_duration(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_encoded("", item, secrets) for item in value]
    return str(value) if isinstance(value, StrEnum) else value

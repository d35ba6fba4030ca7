"""Frozen dataclasses <-> the camelCase JSON of the wire.

An absent field is `None` and stays absent; it is never a zero. Fields that a class does not know are kept in its
`unknown` mapping and come back out. A value of the wrong type is a `CodecError` that names its path.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeVar

from crds.quantity import QuantityError, parse_quantity

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]

_QUANTITY: Final = object()
QuantityText = Annotated[str, _QUANTITY]
"""A string that must be a Kubernetes quantity; a JSON number is accepted and becomes its text."""
_INT_OR_STRING: Final = object()
IntOrString = Annotated[str, _INT_OR_STRING]
"""An integer or a string of Kubernetes, such as 50 or "50%"; an integer becomes its text."""

_LONGEST_KEY: Final = 100
JSON_NAME: Final = "json"
"""Key in a field's metadata: its JSON name where that is not the camelCase of the Python name."""


class CodecError(ValueError):
    """JSON that does not fit the type; the message starts with the path of the field."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Base of every type on the wire."""

    unknown: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Fields of the JSON that this version does not know, kept for the way back."""


def json_name(name: str) -> str:
    """The wire name of a Python field: "update_time" -> "updateTime"."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def from_json(cls: type[T], data: Any) -> T:  # noqa: ANN401 - JSON from outside can be anything
    """Build an object from parsed JSON.

    Raises:
        CodecError: a value has the wrong type, a quantity is malformed, or the object is of another kind.
    """
    decoded = _decoder(typing.cast("Any", cls))(data, "")
    return typing.cast("T", decoded)


def to_json(obj: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of the API
    """The JSON of an object; fields that are `None` are left out, empty ones are kept."""
    data: dict[str, Any] = {}
    api_version, kind = getattr(obj, "API_VERSION", None), getattr(obj, "KIND", None)
    if kind is not None:
        data.update(apiVersion=api_version, kind=kind)
    for name, key in _json_names(typing.cast("Any", type(obj))):
        value = getattr(obj, name)
        if value is not None:
            data[key] = _encode(value)
    data.update(getattr(obj, "unknown", {}))
    return data


def json_fields(cls: type) -> dict[str, dataclasses.Field[Any]]:
    fields = {field.name: field for field in dataclasses.fields(cls)}
    return {key: fields[name] for name, key in _json_names(cls)}


def _is_required(cls: type, name: str) -> bool:
    field = next(field for field in dataclasses.fields(cls) if field.name == name)
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@cache
def _json_names(cls: type) -> tuple[tuple[str, str], ...]:
    return tuple(
        (field.name, field.metadata.get(JSON_NAME) or json_name(field.name))
        for field in dataclasses.fields(cls)
        if field.name != "unknown"
    )


def _encode(value: Any) -> Any:  # noqa: ANN401
    if dataclasses.is_dataclass(value):
        return to_json(value)
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


@cache
def _decoder(hint: Any) -> Decoder:  # noqa: ANN401 - a type expression
    """The function that turns (JSON value, path) into a value of the type."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _decode_quantity if hint.__metadata__[0] is _QUANTITY else _decode_int_or_string
    if origin in (types.UnionType, typing.Union):
        return _optional(_decoder(next(arg for arg in typing.get_args(hint) if arg is not type(None))))
    if origin is tuple:
        return _list_of(_decoder(typing.get_args(hint)[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _map_of(_decoder(typing.get_args(hint)[1]))
    return _object_of(hint) if dataclasses.is_dataclass(hint) else _scalar(hint)


def _wrong(path: str, wanted: str, value: Any) -> CodecError:  # noqa: ANN401
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}…"  # noqa: PLR2004 - what fits on a line
    return CodecError(f"{path or 'the object'}: must be {wanted}, got {shown}")


def below(path: str, key: str) -> str:
    """The path of a field; a key that came from outside is cut, and stays on its line."""
    if len(key) > _LONGEST_KEY or not key.isprintable():
        key = repr(key[:_LONGEST_KEY])[1:-1]
    return f"{path}.{key}" if path else key


def _decode_quantity(value: Any, path: str) -> str:  # noqa: ANN401
    if not isinstance(value, str | int | float):
        raise _wrong(path, "a quantity", value)
    try:
        parse_quantity(value)
    except QuantityError as error:
        raise CodecError(f"{path}: {error}") from None
    return value if isinstance(value, str) else str(value)


def _decode_int_or_string(value: Any, path: str) -> str:  # noqa: ANN401
    if type(value) not in (int, str):
        raise _wrong(path, "an integer or a string", value)
    return str(value)


def _scalar(wanted: Any) -> Decoder:  # noqa: ANN401 - a type
    if wanted is Any:
        return lambda value, _path: value
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
    if wanted not in names:
        raise TypeError(f"no JSON form is defined for {wanted!r}")

    def decode(value: Any, path: str) -> Any:  # noqa: ANN401
        if type(value) is wanted:
            return value
        if wanted is float and type(value) is int:
            return float(value)
        if wanted is int and type(value) is float and value.is_integer():
            return int(value)
        raise _wrong(path, names[wanted], value)

    return decode


def _optional(inner: Decoder) -> Decoder:
    return lambda value, path: None if value is None else inner(value, path)


def _list_of(inner: Decoder) -> Decoder:
    def decode(value: Any, path: str) -> tuple[Any, ...]:  # noqa: ANN401
        if not isinstance(value, list | tuple):
            raise _wrong(path, "a list", value)
        return tuple(inner(item, f"{path}[{index}]") for index, item in enumerate(value))

    return decode


def _map_of(inner: Decoder) -> Decoder:
    def decode(value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401
        if not isinstance(value, Mapping):
            raise _wrong(path, "an object", value)
        return {key: inner(item, below(path, key)) for key, item in value.items()}

    return decode


def _object_of(cls: Any) -> Decoder:  # noqa: ANN401 - a dataclass
    required = tuple((name, key) for name, key in _json_names(cls) if _is_required(cls, name))
    identity = {"apiVersion": getattr(cls, "API_VERSION", None), "kind": getattr(cls, "KIND", None)}
    decoders: dict[str, tuple[str, Decoder]] = {}

    def decode(value: Any, path: str) -> Any:  # noqa: ANN401
        if not isinstance(value, Mapping):
            raise _wrong(path, "an object", value)
        if not decoders:  # filled at first use, so that types may refer to themselves
            hints = typing.get_type_hints(cls, include_extras=True)
            decoders.update((key, (name, _decoder(hints[name]))) for name, key in _json_names(cls))
        values: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, item in value.items():
            name, decoder = decoders.get(key, ("", None))
            if decoder is None:
                unknown[key] = item
            elif item is not None:
                values[name] = decoder(item, below(path, key))
        _check_identity(identity, unknown, path)
        for name, key in required:
            if name not in values:
                raise CodecError(f"{path or 'the object'}: {key} is missing")
        return cls(**values, unknown=unknown) if unknown else cls(**values)

    return decode


def _check_identity(identity: Mapping[str, str | None], fields: dict[str, Any], path: str) -> None:
    """Take apiVersion and kind out of the fields of a kind, if they are right; lists may leave them out."""
    for key, wanted in identity.items():
        if wanted is not None and fields.setdefault(key, wanted) != wanted:
            raise _wrong(f"{path}.{key}" if path else key, repr(wanted), fields[key])
        if wanted is not None:
            del fields[key]

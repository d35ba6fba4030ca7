"""Parts of values.schema.json from the code: the colocation config's fields, and the plugins' arguments.

`python -m tests.charts.schema` (`make chart-schema`) writes it; a test compares. So a wrong one is refused at install,
by its path.
"""

import dataclasses
import json
import pkgutil
import sys
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from crds.ranges import ALLOWED, Choice, Range
from headroom.runtime.removed import REMOVED
from scheduler_plugins.arguments import json_fields
from scheduler_plugins.plugins import PLUGINS
from tests.charts.readme import CHART
from tests.support.config_fields import ENTRY, Field, every_field

Json = dict[str, Any]

PATH: Final = CHART / "values.schema.json"
REMOVED_PATH: Final = CHART / "removed.json"
_WORDS: Final[Mapping[str, Json]] = {
    "true or false": {"type": "boolean"},
    "whole number": {"type": "integer"},
    "number": {"type": "number"},
    "text": {"type": "string"},
    "object": {"type": "object"},
    "list of texts": {"type": "array", "items": {"type": "string"}},
    "list of objects": {"type": "array", "items": {"type": "object"}},
}
_SCALARS: Final[Mapping[Any, str]] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_HEAD: Final[Json] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
"""The prefixes that upstream's arguments may have."""


def with_generated(schema: Json) -> Json:
    """A schema of the chart's values in which these parts are as the code has them."""
    made: Json = json.loads(json.dumps(schema))
    made["properties"]["colocationConfig"] = colocation_config()
    profile = made["properties"]["scheduler"]["properties"]["profile"]["properties"]
    references = {name: {"$ref": f"#/definitions/{name}"} for name in PLUGINS}
    # Other distributions may bring plugins of other names.
    profile["arguments"] = {"type": "object", "properties": references, "additionalProperties": {"type": "object"}}
    profile["plugins"]["items"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string"},
            "weight": {"type": "number", "minimum": 0, "maximum": 100},
            "args": {"type": ["object", "null"]},
        },
        "required": ["name"],
        "allOf": [
            {"if": {"properties": {"name": {"const": name}}}, "then": {"properties": {"args": reference}}}
            for name, reference in references.items()
        ],
    }
    for name, target in PLUGINS.items():
        arguments = dataclass_schema(pkgutil.resolve_name(target))
        made["definitions"][name] = _or_null({**arguments, "properties": {**_HEAD, **arguments["properties"]}})
    for path in removed_values():
        *above, name = path.partition("=")[0].split(".")
        parent = made
        for part in above:
            parent = parent["properties"][part]
        parent["properties"][name] = {}  # a template refuses it, with the sentence
        parent["required"] = [entry for entry in parent["required"] if entry != name]
    return made


def removed_values() -> dict[str, str]:
    """Return the chart's removed values by path, each with the sentence that refuses it."""
    return {name: sentence for (kind, name), sentence in REMOVED.items() if kind == "value"}


def colocation_config() -> Json:
    """The schema of the value `colocationConfig`: every field with its type, choices and range; no other name."""
    fields = every_field()
    below = f"{ENTRY}."
    shared = [field for field in fields if not field.path.startswith(below) and field.path != ENTRY.removesuffix("[]")]
    parts = [
        dataclasses.replace(field, path=field.path.removeprefix(below))
        for field in fields
        if field.path.startswith(below)
    ]
    config = _nested(shared)
    config["properties"][ENTRY.removesuffix("[]")] = {"type": "array", "items": _nested([*parts, *shared])}
    return {**config, "type": ["object", "null"]}


def _nested(fields: list[Field]) -> Json:
    root: Json = {"type": "object", "additionalProperties": False, "properties": {}}
    for field in fields:
        *above, name = field.path.split(".")
        parent = root
        for part in above:
            parent = parent["properties"][part]
            parent.setdefault("additionalProperties", False)
            parent.setdefault("properties", {})
        parent["properties"][name] = _field(field)
    return root


def _field(field: Field) -> Json:
    schema = dict(_WORDS[field.kind])
    if isinstance(field.allowed, Choice):
        schema["enum"] = list(field.allowed.options)
    elif isinstance(field.allowed, Range):
        schema |= {"minimum": field.allowed.low, "maximum": field.allowed.high}
    return schema


def dataclass_schema(cls: type[Any]) -> Json:
    """The schema of a dataclass of arguments, as `scheduler_plugins.arguments.decode` reads it."""
    kinds = typing.get_type_hints(cls)
    result = {
        name: {"type": ["string", "null"]}
        if field.name.endswith("_duration")
        else _or_null(_ranged(_kind(kinds[field.name]), field.metadata.get(ALLOWED)))
        for name, field in json_fields(cls).items()
    }
    return {"type": "object", "additionalProperties": False, "properties": result}


def _ranged(schema: Json, allowed: Range | None) -> Json:
    """The same, with the bounds of its number, or of each number of its map."""
    if allowed is None:
        return schema
    if schema["type"] == "object":
        return {**schema, "additionalProperties": _ranged(schema["additionalProperties"], allowed)}
    return {**schema, "minimum": allowed.low, "maximum": allowed.high}


def _or_null(schema: Json) -> Json:
    """The same, or null, which leaves an argument at its default."""
    more = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **more}


def _kind(hint: Any) -> Json:  # noqa: ANN401 - a type hint
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = [part for part in typing.get_args(hint) if part is not types.NoneType]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _kind(parts[1])}
    if origin is tuple:
        return {"type": "array", "items": _kind(parts[0])}
    if dataclasses.is_dataclass(hint):
        return dataclass_schema(typing.cast("type[Any]", hint))
    if issubclass(hint, StrEnum):
        return {"type": "string", "enum": [str(entry) for entry in hint]}
    return {"type": _SCALARS[hint]}


def main() -> int:
    REMOVED_PATH.write_text(json.dumps(removed_values(), indent=2, sort_keys=True) + "\n")
    PATH.write_text(json.dumps(with_generated(json.loads(PATH.read_text())), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

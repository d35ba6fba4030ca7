"""The schema of a pod, as the API server describes it: faults of a strategic merge patch, and its application.

The rules are those of https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from manager.config.findings import ConfigFinding, join, nearest, shown

PATH: Final = "/openapi/v3/api/v1"
"""Where an API server describes pods."""
_POD: Final = "io.k8s.api.core.v1.Pod"
_REFERENCE: Final = "#/components/schemas/"
_DIRECTIVE: Final = "$patch"
_DIRECTIVES: Final = ("merge", "replace", "delete")
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"
_PARTS: Final = ("metadata", "spec")
_IDENTITY: Final = ("apiVersion", "kind")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}

Json = dict[str, Any]
Schema = Mapping[str, Any]


class PodSchema:
    """The part of an API server's description that concerns pods.

    Args:
        document: the description of the core kinds, see `PATH`.

    Raises:
        KeyError: it does not describe pods.
    """

    def __init__(self, document: Schema) -> None:
        described, pending = document["components"]["schemas"], [_POD]
        self._schemas: dict[str, Schema] = {}
        while pending:
            name = pending.pop()
            if name not in self._schemas:
                self._schemas[name] = described[name]
                pending += _references(described[name])

    def faults(self, patch: Mapping[str, Any], path: str = "") -> list[ConfigFinding]:
        """Return the faults of a patch: fields that no pod has, values of another type, unknown directives."""
        refused = [name for name in patch if name not in {*_PARTS, *_IDENTITY}]
        result = [ConfigFinding(join(path, name), "must be absent: allowed are metadata and spec") for name in refused]
        pod = self._schemas[_POD]
        parts = {name: patch[name] for name in _PARTS if name in patch}
        return [*result, *(ConfigFinding(where, message) for where, message in self._faults(parts, pod, path))]

    def patched(self, pod: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
        """Return a pod after a patch without faults; neither argument is changed."""
        changes = {name: content for name, content in patch.items() if name in _PARTS}
        return self._merged(pod, changes, self._schemas[_POD])

    def _at(self, schema: Schema, name: str) -> Schema:
        """Return the schema of a field, without references; empty: it is not described."""
        fields = self._resolved(schema)
        inner = (fields.get("properties") or {}).get(name) or fields.get("additionalProperties") or {}
        return self._resolved(inner)

    def _resolved(self, schema: Schema) -> Schema:
        """Return a schema with the content of its reference, which the fields beside the reference replace."""
        for part in (schema, *(schema.get("allOf") or ())):
            if reference := part.get("$ref"):
                return {**self._schemas[reference.removeprefix(_REFERENCE)], **schema}
        return schema

    def _faults(self, value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON
        schema = self._resolved(schema)
        if value is None:
            return  # deletes the field
        if alternatives := schema.get("oneOf"):
            types = tuple(kind for part in alternatives for kind in _TYPES[part["type"]])
            if not isinstance(value, types) or isinstance(value, bool):
                yield path, f"must be {' or '.join(part['type'] for part in alternatives)}, got {shown(value)}"
        elif schema.get("type") == "object":
            yield from self._object_faults(value, schema, path)
        elif schema.get("type") == "array":
            yield from self._list_faults(value, schema, path)
        elif schema.get("type") in _TYPES:
            types = _TYPES[schema["type"]]
            if not isinstance(value, types) or isinstance(value, bool) != (types == (bool,)):
                yield path, f"must be {schema['type']}, got {shown(value)}"

    def _object_faults(self, value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401
        if not isinstance(value, Mapping):
            yield path, f"must be an object, got {shown(value)}"
            return
        fields = schema.get("properties") or {}
        for name, content in value.items():
            where, target = join(path, name), name.removeprefix(_DELETE_VALUES)
            if name == _DIRECTIVE:
                if content not in _DIRECTIVES:
                    yield where, f"must be one of {', '.join(_DIRECTIVES)}, got {shown(content)}"
            elif name.startswith("$") and not (target != name and target in fields):
                yield where, f"must be absent: allowed are {_DIRECTIVE} and {_DELETE_VALUES}FIELD"
            elif target not in fields and "additionalProperties" not in schema and fields:
                hint = nearest(name, fields)
                yield where, f"must be absent: a pod has no such field{f'; did you mean {hint}?' if hint else ''}"
            else:
                yield from self._faults(content, self._at(schema, target), where)

    def _list_faults(self, value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401
        if not isinstance(value, list):
            yield path, f"must be a list, got {shown(value)}"
            return
        key = _merge_key(schema)
        for index, item in enumerate(value):
            where = join(path, index)
            if key and isinstance(item, Mapping) and key not in item and item.get(_DIRECTIVE) != "replace":
                yield join(where, key), "must be present: the item with the same value is changed"
            yield from self._faults(item, schema["items"], where)

    def _merged(self, before: Mapping[str, Any], patch: Mapping[str, Any], schema: Schema) -> Json:
        if patch.get(_DIRECTIVE) == "delete":
            return {}
        result: Json = {} if patch.get(_DIRECTIVE) == "replace" else dict(before)
        for name, content in patch.items():
            target = name.removeprefix(_DELETE_VALUES)
            if name == _DIRECTIVE:
                continue
            if target != name:
                result[target] = [item for item in result.get(target) or () if item not in content]
            elif content is None:
                result.pop(name, None)
            elif isinstance(content, Mapping):
                result[name] = self._merged(result.get(name) or {}, content, self._at(schema, name))
            elif isinstance(content, list):
                result[name] = self._merged_list(result.get(name) or [], content, self._at(schema, name))
            else:
                result[name] = content
        return result

    def _merged_list(self, before: Sequence[Any], patch: Sequence[Any], schema: Schema) -> list[Any]:
        if "merge" not in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
            return list(patch)
        key = _merge_key(schema)
        if not key:
            return [*before, *(item for item in patch if item not in before)]
        replaces = any(item == {_DIRECTIVE: "replace"} for item in patch)
        result = {} if replaces else {item.get(key): item for item in before}
        for item in patch:
            if item.get(_DIRECTIVE) == "delete":
                result.pop(item.get(key), None)
            elif key in item:
                result[item[key]] = self._merged(result.get(item[key]) or {}, item, self._resolved(schema["items"]))
        return list(result.values())


def _merge_key(schema: Schema) -> str:
    return str(schema.get("x-kubernetes-patch-merge-key") or "")


def _references(schema: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the names of the schemas that a schema refers to."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_REFERENCE)
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)

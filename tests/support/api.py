"""An API server in memory: objects by path, patches, server-side apply, conflicts, preconditions and evictions."""

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headroom.kube import APPLY, ApiError, ApiUnavailable
from headroom.kube.connection import Connection
from headroom.kube.decoding import Decode
from headroom.kube.server_clock import ServerClock
from tests.headroom.kube.preconditions import check_options, check_patch
from tests.support.objects import Json, at

LIST_KEYS = {"conditions": "type", "ownerReferences": "uid"}
"""Lists with an owner per item, and the key of the items; all others have one owner."""


class FakeApi:
    """The part of an API server that the manager's writers use; an evicted pod is terminating."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.connection = Connection("http://nowhere", None, lambda: None)
        self.server_time = ServerClock()
        self.calls: list[tuple[str, str, Any]] = []
        self.before: dict[str, Callable[[], object]] = {}
        """Hooks before a request, by a text of its method and path, such as "PATCH /api/v1/nodes/"."""
        self.fails: dict[str, Exception] = {}
        self.unknown_fields: set[str] = set()
        self.refused: dict[str, Exception] = {}
        """The reason why the eviction of a pod is refused, by its name."""
        self.once: dict[str, Exception] = {}
        """The same, for the first time alone."""
        self._version = 100

    def put(self, path: str, body: Json) -> Json:
        self._version += 1
        stored = copy.deepcopy(body)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self.objects[path] = stored
        return copy.deepcopy(stored)

    def _enter(self, method: str, path: str, body: Any = None) -> None:  # noqa: ANN401
        self.calls.append((method, path, copy.deepcopy(body)))
        for happens in [each for part, each in self.before.items() if part in f"{method} {path}"]:
            happens()
        for part, error in self.fails.items():
            if part in f"{method} {path}":
                raise error

    def _stored(self, path: str) -> Json:
        result = self.objects.get(path.removesuffix("/status").removesuffix("/scale"))
        if result is None:
            raise ApiError(404, "NotFound", f"{path} not found")
        return result

    async def get(self, path: str, params: Any = None) -> Json:  # noqa: ANN401, ARG002
        self._enter("GET", path)
        return copy.deepcopy(self._stored(path))

    async def list(
        self,
        path: str,
        params: Any = None,  # noqa: ANN401, ARG002 - JSON
        keep: Any = None,  # noqa: ANN401 - JSON
        decode: Decode | None = None,
    ) -> tuple[list[Any], str]:
        """Read all objects below a path, or their reduced forms."""
        self._enter("LIST", path)
        result = [copy.deepcopy(obj) for at_path, obj in self.objects.items() if at_path.startswith(f"{path}/")]
        objects = result if decode is None else [decode(msgspec.Raw(json.dumps(obj).encode())) for obj in result]
        return objects if keep is None else [keep(obj) for obj in objects], "1"

    async def create(self, path: str, body: Json, params: Any = None) -> Json:  # noqa: ANN401, ARG002
        self._enter("POST", path, body)
        if path.endswith("/eviction"):
            return self._evict(self._stored(path.removesuffix("/eviction")), body)
        where = f"{path}/{body['metadata']['name']}"
        if where in self.objects:
            raise ApiError(409, "AlreadyExists", f"{where} already exists")
        return self.put(where, {**body, "metadata": {**body["metadata"], "uid": f"made-{len(self.calls)}"}})

    def _evict(self, pod: Json, body: Json) -> Json:
        name = body["metadata"]["name"]
        if name in self.refused or name in self.once:
            raise self.once.pop(name, None) or self.refused[name]
        check_options(pod, body.get("deleteOptions"))
        pod["metadata"]["deletionTimestamp"] = at(0)
        return {}

    async def patch(self, path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        """Merge a patch into an object, or apply it, or carry out the operations of a JSON patch."""
        self._enter("PATCH", path, body)
        if content_type == APPLY:
            return self._apply(path, body, str(params["fieldManager"]))
        stored = self._stored(path)
        if isinstance(body, list):
            return self.put(path, _json_patched(stored, body))
        check_patch(stored, body)
        merged = merge(stored, body)
        for field in self.unknown_fields:  # a definition that does not know a field drops it
            head, _, rest = field.partition(".")
            (merged.get(head) or {}).pop(rest, None)
        return self.put(path.removesuffix("/status").removesuffix("/scale"), merged)

    def _apply(self, path: str, body: Json, manager: str) -> Json:
        for field in sorted(self.unknown_fields):
            if has(body, field):
                what = f"failed to create typed patch object (x): .{field}: field not declared in schema"
                raise ApiUnavailable(f"The API server answers 500: {what}", status=500)
        where, subresource = path.removesuffix("/status"), "status" if path.endswith("/status") else ""
        stored = self._stored(path) if subresource else self.objects.get(path)
        check_patch(stored or {}, {"metadata": {**body["metadata"], "uid": None}})
        result = server_side_apply(stored, body, manager, subresource)
        result["metadata"].setdefault("uid", f"made-{len(self.calls)}")
        if result == stored:
            return copy.deepcopy(result)
        return self.put(where, result)

    async def delete(self, path: str, body: Json | None = None) -> Json:
        self._enter("DELETE", path, body)
        stored = self._stored(path)
        check_options(stored, body)
        del self.objects[path]
        return {}

    def written(self, method: str, part: str) -> Sequence[Any]:
        """Return the bodies of the calls of a method with a text in their path."""
        return [body for called, path, body in self.calls if called == method and part in path]


def _json_patched(stored: Json, operations: list[Json]) -> Json:
    result = copy.deepcopy(stored)
    for operation in operations:
        *parents, last = operation["path"].strip("/").split("/")
        target: Any = result
        for parent in parents:
            target = target[int(parent) if parent.isdigit() else parent]
        if operation["op"] == "test" and target[last] != operation["value"]:
            raise ApiError(409, "Conflict", "the test failed")
        target[last] = operation["value"]
    return result


def merge(target: Json, patch: Json) -> Json:
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged


def server_side_apply(stored: Json | None, body: Json, manager: str, subresource: str) -> Json:
    """Return the object after an apply: our fields as wanted, our former ones removed, all others unchanged."""
    result = copy.deepcopy(stored or {})
    metadata = result.setdefault("metadata", {})
    entries = metadata.setdefault("managedFields", [])
    mine = {"manager": manager, "operation": "Apply", **({"subresource": subresource} if subresource else {})}
    entry = next(
        (
            entry
            for entry in entries
            if mine.items() <= entry.items() and str(entry.get("subresource", "")) == subresource
        ),
        None,
    )
    wanted = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    wanted["metadata"] = {key: value for key, value in wanted.get("metadata", {}).items() if key != "name"}
    fields = _fields({key: value for key, value in wanted.items() if value})
    if entry is None:
        entry = {**mine, "fieldsV1": {}}
        entries.append(entry)
    remaining = [item["fieldsV1"] for item in entries if item is not entry]
    _remove(result, entry["fieldsV1"], fields, remaining)
    entry["fieldsV1"] = fields
    _set(result, {**body, "metadata": {**body["metadata"]}})
    return result


def _fields(value: Any, name: str = "") -> Json:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {f"f:{key}": _fields(below, key) for key, below in value.items()}
    if isinstance(value, list) and name in LIST_KEYS:
        key = LIST_KEYS[name]
        return {f"k:{json.dumps({key: item[key]}, separators=(',', ':'))}": {".": {}} for item in value}
    return {}


def _remove(target: Any, before: Json, now: Json, others: list[Json]) -> None:  # noqa: ANN401 - any JSON
    """Remove the fields that were ours, are not now, and have no other owner."""
    for key, below in before.items():
        theirs = [manager[key] for manager in others if key in manager]
        if key.startswith("k:") and isinstance(target, list):
            wanted = json.loads(key.removeprefix("k:"))
            if key not in now and not theirs:
                target[:] = [item for item in target if not wanted.items() <= item.items()]
        elif isinstance(target, dict) and (name := key.removeprefix("f:")) in target:
            _remove(target[name], below, now.get(key, {}), theirs)
            if key not in now and not theirs and (not below or target[name] in ({}, [])):
                del target[name]


def _set(target: Json, wanted: Json) -> None:
    for name, value in wanted.items():
        if isinstance(value, dict):
            if not isinstance(target.get(name), dict):
                target[name] = {}
            _set(target[name], value)
        elif isinstance(value, list) and name in LIST_KEYS:
            key = LIST_KEYS[name]
            rest = [item for item in target.get(name, []) if item[key] not in {wanted[key] for wanted in value}]
            target[name] = [*rest, *copy.deepcopy(value)]
        else:
            target[name] = copy.deepcopy(value)


def has(body: Any, path: str) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a path such as `spec.predictPolicy` has a value."""
    for key in path.split("."):
        if not isinstance(body, dict) or key not in body:
            return False
        body = body[key]
    return True

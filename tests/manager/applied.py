"""Server-side apply for the API server in memory: who owns which field, as far as one manager's applies go."""

import copy
import json
from typing import Any

Json = dict[str, Any]

LIST_KEYS = {"conditions": "type", "ownerReferences": "uid"}
"""Lists whose items have an owner each, and what tells them apart; all others are owned whole."""


def apply(stored: Json | None, body: Json, manager: str, subresource: str) -> Json:
    """The object after an apply: our fields as wanted, those we no longer apply gone, everybody else's as they were."""
    result = copy.deepcopy(stored or {})
    metadata = result.setdefault("metadata", {})
    entries = metadata.setdefault("managedFields", [])
    mine = {"manager": manager, "operation": "Apply", **({"subresource": subresource} if subresource else {})}
    entry = next((each for each in entries if mine.items() <= each.items() and _sub(each) == subresource), None)
    wanted = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    wanted["metadata"] = {key: value for key, value in wanted.get("metadata", {}).items() if key != "name"}
    fields = _fields({key: value for key, value in wanted.items() if value})
    if entry is None:
        entry = {**mine, "fieldsV1": {}}
        entries.append(entry)
    others = [each["fieldsV1"] for each in entries if each is not entry]
    _remove(result, entry["fieldsV1"], fields, others)
    entry["fieldsV1"] = fields
    _set(result, {**body, "metadata": {**body["metadata"]}})
    return result


def _sub(entry: Json) -> str:
    return str(entry.get("subresource", ""))


def _fields(value: Any, name: str = "") -> Json:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {f"f:{key}": _fields(below, key) for key, below in value.items()}
    if isinstance(value, list) and name in LIST_KEYS:
        key = LIST_KEYS[name]
        return {f"k:{json.dumps({key: item[key]}, separators=(',', ':'))}": {".": {}} for item in value}
    return {}


def _remove(target: Any, before: Json, now: Json, others: list[Json]) -> None:  # noqa: ANN401 - any JSON
    """Take away what was ours before, is not now, and is nobody else's."""
    for key, below in before.items():
        theirs = [each[key] for each in others if key in each]
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
            rest = [item for item in target.get(name, []) if item[key] not in {each[key] for each in value}]
            target[name] = [*rest, *copy.deepcopy(value)]
        else:
            target[name] = copy.deepcopy(value)


def has(body: Any, path: str) -> bool:  # noqa: ANN401 - any JSON
    """Whether something stands at a path such as `spec.predictPolicy`."""
    for key in path.split("."):
        if not isinstance(body, dict) or key not in body:
            return False
        body = body[key]
    return True

"""JSON merge patches that change a part of an object into its wanted state. Pure."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def merge_patch(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """Return the merge patch that changes an object into the wanted one.

    A merge patch keeps every key of a map that it does not name, so keys that are no longer wanted are set to null.
    """
    patch: Json = dict.fromkeys(current.keys() - wanted.keys())
    for key, value in wanted.items():
        before = current.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            patch[key] = merge_patch(before, value)
        else:
            patch[key] = value
    return patch


def patch_of_keys(current: Mapping[str, Any], wanted: Mapping[str, Any], keys: frozenset[str]) -> Json:
    """Return the same for our own keys: a key that is absent from the wanted object is removed."""
    mine = {key: value for key, value in current.items() if key in keys}
    return merge_patch(mine, {key: value for key, value in wanted.items() if key in keys})


def dropped_paths(wanted: Any, answered: Any, path: str = "") -> list[str]:  # noqa: ANN401 - any JSON
    """Paths that were sent and are absent from the response: the server's schema does not have them."""
    if isinstance(wanted, Mapping):
        if not isinstance(answered, Mapping):
            return [path] if wanted else []
        result = []
        for key, value in wanted.items():
            name = f"{path}.{key}".lstrip(".")
            if key in answered and value is not None:
                result += dropped_paths(value, answered[key], name)
            elif value not in (None, {}, [], ()):
                result.append(name)
        return result
    if isinstance(wanted, list | tuple) and isinstance(answered, list) and len(wanted) == len(answered):
        result = [
            name for one, other in zip(wanted, answered, strict=True) for name in dropped_paths(one, other, f"{path}[]")
        ]
        return list(dict.fromkeys(result))
    return []

"""Preconditions of writes, checked as the API server does; for fakes of it."""

from collections.abc import Mapping
from typing import Any

from headroom.kube import ApiError

Json = Mapping[str, Any]


def check_options(stored: Json, options: Json | None) -> None:
    """Refuse a deletion or eviction that means another object, or another version of it."""
    preconditions = (options or {}).get("preconditions") or {}
    for part in ("uid", "resourceVersion"):
        wanted, result = preconditions.get(part), (stored.get("metadata") or {}).get(part)
        if wanted is not None and wanted != result:
            raise ApiError(
                409, "Conflict", f"Precondition failed: {part} in precondition: {wanted}, in object: {result}"
            )


def check_patch(stored: Json, body: Json) -> None:
    """Refuse a patch that means another object, or another version of it; a uid is given by `metadata.uid`."""
    inputs, result = body.get("metadata") or {}, stored.get("metadata") or {}
    if inputs.get("resourceVersion") not in (None, result.get("resourceVersion")):
        raise ApiError(409, "Conflict", "the object has been modified; please apply your changes to the latest version")
    if inputs.get("uid") not in (None, result.get("uid")):
        raise ApiError(422, "Invalid", f'metadata.uid: Invalid value: "{inputs["uid"]}": field is immutable')

"""The last writers of fields and their times, from `metadata.managedFields`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from crds.names import CONDITION_MID_PUBLISHED
from manager.inputs import ObservedAt, Resource
from manager.inputs.reading import get_objects, get_path, parse_time
from manager.mid.publish import was_withdrawn

MANAGER: Final = "headroom-manager"
"""The prefix of the manager's field managers and of its user agent."""

KOORDINATOR: Final = "koord-manager"  # how the writes of Koordinator's manager are called

Json = Mapping[str, Any]


def observed_at(node_metric: Json | None) -> ObservedAt:
    """Return when the two times of a report were written, by the API server's clock.

    The manager sees a report the moment it is written. A later write of the same agent, such as a fast report, hides
    when the full one came: then the report counts as younger than it is, never as older.
    """
    return ObservedAt(_written(node_metric, "f:updateTime"), _written(node_metric, "f:prediction"))


def _written(obj: Json | None, field: str) -> float | None:
    times = [time for entry, time in _status_entries(obj) if get_path(entry, "fieldsV1", "f:status", field) is not None]
    return max(times, default=None)


def written_at(node: Json) -> float | None:
    """Return when the manager last changed a Node's status; None where that is not known. [unix s]"""
    times = [time for entry, time in _status_entries(node) if by_manager(entry)]
    return max(times, default=None)


def published_by_koordinator(node: Json) -> bool:
    """Return whether Koordinator's manager, and not ours, wrote a Node's Mid resources last."""
    fields = {f"f:{resource.mid_name}" for resource in Resource}
    entries = [
        entry
        for entry, _ in _status_entries(node)
        if fields & set(get_path(entry, "fieldsV1", "f:status", "f:capacity") or {})
    ]
    theirs = any(str(entry.get("manager", "")).startswith(KOORDINATOR) for entry in entries)
    return theirs and not any(by_manager(entry) for entry in entries)


def withdrawn(status: Json) -> bool:
    published = (item for item in get_objects(status, "conditions") if item.get("type") == CONDITION_MID_PUBLISHED)
    return any(was_withdrawn(str(item.get("reason"))) for item in published)


def by_manager(entry: Json) -> bool:
    return str(entry.get("manager", "")).startswith(MANAGER)


def _status_entries(obj: Json | None) -> Iterator[tuple[Json, float]]:
    for entry in get_objects(obj, "metadata", "managedFields"):
        if entry.get("subresource") != "status":
            continue
        try:
            yield entry, parse_time(str(entry.get("time")))
        except ValueError:  # the API server writes no such time
            continue

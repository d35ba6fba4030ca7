"""Which fields the cluster's NodeMetric definition knows: Koordinator's has no predictPolicy and no conditions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

PROBE_SECONDS: Final = 600.0
"""How often one node probes whether a field is known meanwhile. [s]"""
_UNDECLARED: Final = re.compile(r"\.([A-Za-z0-9_.]+)[^:\s]*: field not declared in schema")


def undeclared_field(message: str) -> str | None:
    """The field that a server refuses to apply because the definition does not know it, such as `spec.predictPolicy`.

    The server reports it with status 500 and this sentence alone; `None` for another message.
    """
    found = _UNDECLARED.search(message)
    return found.group(1) if found else None


@dataclass(slots=True)
class DefinitionFields:
    """The fields that the definition does not know: they are left out, and probed now and then."""

    _probe_at: dict[str, float] = field(default_factory=dict)

    @property
    def unknown(self) -> frozenset[str]:
        """The unknown fields, such as `spec.predictPolicy`."""
        return frozenset(self._probe_at)

    def omitted(self, part: str, now: float) -> frozenset[str]:
        """The fields below a path to leave out of this write; a field that is due for a probe is kept once.

        Args:
            part: the path, such as `spec` or `status.conditions`.
            now: a clock that never jumps. [s]
        """
        here = {path: when for path, when in self._probe_at.items() if f"{path}.".startswith(f"{part}.")}
        due = {path for path, when in here.items() if when <= now}
        for path in due:
            self._probe_at[path] = now + PROBE_SECONDS
        return frozenset(here.keys() - due)

    def mark_unknown(self, path: str, now: float) -> bool:
        """Record that a field is unknown; whether that is new."""
        news = path not in self._probe_at
        self._probe_at[path] = now + PROBE_SECONDS
        return news

    def mark_known(self, body: Mapping[str, Any]) -> list[str]:
        """Record that a body was applied whole; the fields of it that were unknown before."""
        back = [path for path in self._probe_at if _has(body, path)]
        for path in back:
            del self._probe_at[path]
        return back


def _has(body: Any, path: str) -> bool:  # noqa: ANN401 - any JSON
    head, _, rest = path.partition(".")
    return isinstance(body, Mapping) and head in body and (not rest or _has(body[head], rest))


def without_field(body: Mapping[str, Any], path: str) -> Json:
    """The body without a field; a parent that becomes empty is removed, too."""
    head, _, rest = path.partition(".")
    copy = dict(body)
    if not rest:
        copy.pop(head, None)
    elif isinstance(copy.get(head), Mapping):
        copy[head] = without_field(copy[head], rest)
        if not copy[head]:
            del copy[head]
    return copy

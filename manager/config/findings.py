"""Errors and warnings about a piece of configuration: one sentence per field."""

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_LONGEST: Final = 60
_CLOSE: Final = 0.8
_MOST_KEYS: Final = 5


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """A finding about a field: its path (empty: the document as a whole), the fault and the allowed values."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def shown(value: Any) -> str:  # noqa: ANN401 - configuration can hold anything
    """A value as JSON, cut to what fits on a line."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "something that is nested too deeply"
    except (TypeError, ValueError):
        text = repr(value)
    return _cut(text)


def join(path: str, name: str | int) -> str:
    """The path of a field or item below another; a name stays on one line, no longer than a name should be."""
    if isinstance(name, int):
        return f"{path}[{name}]"
    name = _cut(name if name.isprintable() else json.dumps(name)[1:-1])
    return f"{path}.{name}" if path else name


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was most likely intended, or `None` when it resembles none of them."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(name[:_LONGEST].lower(), by_lower, n=1, cutoff=_CLOSE)
    return by_lower[close[0]] if close else None


def resembling(name: str, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the first few keys that were probably intended as another name."""
    return tuple(sorted(key for key in keys if key != name and nearest(key, (name,)))[:_MOST_KEYS])


def entry_name(index: int, name: str | None) -> str:
    return f"nodeConfigs[{index}] {join('', name)}" if name else f"nodeConfigs[{index}]"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

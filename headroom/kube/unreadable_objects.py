"""Objects that cannot be understood: each is named once, and none stops the others."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

_Taken = TypeVar("_Taken")

_LONGEST: Final = 200

_LOG: Final = logging.getLogger(__name__)


class TooLarge(ValueError):  # noqa: N818 - a state of the object
    """There is more in an object than is read; the message begins with the path of the field."""


def reason(item: Any, error: Exception, check: Callable[[Any], object] | None) -> str:  # noqa: ANN401 - JSON
    """Return the fault of an object: the path of the wrong field, where that is known."""
    if check is not None and not isinstance(error, TooLarge):  # a check takes as long as decoding
        try:
            check(item)
        except ValueError as found:
            return str(found)
        except RecursionError:
            return "it is nested deeper than can be read"
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


class Unreadable:
    """Which objects of one kind could not be understood when they last changed."""

    def __init__(self, kind: str, check: Callable[[Any], object] | None = None) -> None:
        self.kind, self._check = kind, check
        self.named: dict[str, str] = {}  # display names by key

    def attempt(self, key: str, item: Any, take: Callable[[Any], _Taken]) -> _Taken | None:  # noqa: ANN401 - JSON
        """Return the result of a handler for an object; None where it fails, which is logged once per object."""
        try:
            taken = take(item)
        except Exception as error:  # noqa: BLE001 - a malformed object must not stop the others
            name = f"{self.kind} {_place(item)}"
            if key not in self.named:
                why = reason(item, error, self._check)
                _LOG.warning("%s is malformed; its last valid state stays in use: %s", name, why)
            self.named[key] = name
            return None
        self.named.pop(key, None)
        return taken

    def retain(self, keys: set[str]) -> None:
        self.named = {key: name for key, name in self.named.items() if key in keys}


def _place(item: Any) -> str:  # noqa: ANN401 - JSON
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "without metadata"
    return "/".join(str(metadata[part])[:_LONGEST] for part in ("namespace", "name") if part in metadata)

"""A kind of object that is watched, and where it goes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headroom.kube import Decode, WatchHealth

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of object that is watched, and where it goes."""

    kind: str  # its name in messages
    path: str  # path of its collection
    selector: str  # field selector
    hint: str  # the hint for when it cannot be listed
    identity: Callable[[Json], str]  # its key in the cache
    put: Callable[[Json], None]  # add or update one
    delete: Callable[[str], None]  # forget one
    health: WatchHealth = field(default_factory=WatchHealth)  # how the watch is doing
    absent_is_empty: bool = False
    """True if a cluster that does not know the kind counts as one without such objects; else nothing is answered."""
    decode: Decode | None = None  # makes an object from its JSON; None: all of it becomes plain objects
    check: Callable[[Any], object] | None = None
    """Raises a ValueError that names the field of an object that has another shape than it should."""

    def problem_of(self, stale_seconds: float) -> str:
        """Return why the cached objects of this kind may be stale, in one sentence; empty when all is well."""
        if not self.health.synced:
            return self.unlisted()
        silent = silence(self)
        return f"{self.kind}: no contact with the API server for {silent:.0f} s" if silent > stale_seconds else ""

    def unlisted(self) -> str:
        """Return that the objects of this kind have not been listed, in one sentence; empty once they have."""
        return "" if self.health.synced else f"{self.kind} have not been listed yet ({self.hint})"

    def absence(self) -> str:
        """That the cluster does not know the kind, and what to do, in one sentence; empty where it does."""
        if not self.health.not_found:
            return ""
        return f"the cluster does not know {self.kind}, which counts as having none ({self.hint})"


def silence(source: Source) -> float:
    """Return the time since the API server's last response about a kind; infinite before the first. [s]"""
    contact = source.health.last_contact
    return float("inf") if contact is None else time.monotonic() - contact


def by_name(item: Json) -> str:
    return str(item["metadata"]["name"])


def by_uid(item: Json) -> str:
    """The identity of an object whose name may be reused."""
    return str(item["metadata"]["uid"])

"""The Lease of the replica that writes, as it can be seen from outside."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from manager.mid.explanation.node_metric import age

DEFAULT_LEASE_SECONDS: Final = 15
"""For how long a Lease counts that does not say it. [s]"""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lease:
    """Who writes, and since when nothing was heard of it."""

    holder: str
    """Name of the replica; empty when it was given back."""
    renewed_ago: float | None
    """Time since it was renewed, by our clock. [s]"""
    seconds: float
    """It counts for so long after that. [s]"""

    @property
    def held(self) -> bool:
        """Whether somebody writes, as far as our clock and the writer's agree."""
        return bool(self.holder) and self.renewed_ago is not None and self.renewed_ago <= self.seconds


def lease_of(obj: Json | None, now: float) -> Lease | None:
    """What a Lease says; None where there is none.

    Args:
        obj: the Lease as JSON.
        now: the clock. [unix s]
    """
    if obj is None:
        return None
    spec = obj.get("spec") or {}
    renewed = spec.get("renewTime")
    seconds = spec.get("leaseDurationSeconds") or DEFAULT_LEASE_SECONDS
    return Lease(str(spec.get("holderIdentity") or ""), age(str(renewed), now) if renewed else None, float(seconds))

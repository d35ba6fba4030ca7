"""The Lease of the replica that writes, as it can be seen from outside."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from manager.mid.explanation.node_metric import age

DEFAULT_LEASE_SECONDS: Final = 15  # the default duration of a Lease [s]

Json = Mapping[str, Any]


class Lease(NamedTuple):
    """Which replica writes ("" when it was given back), how long ago it renewed the Lease, which counts so long."""

    holder: str
    renewed_ago: float | None  # by our clock [s]
    seconds: float

    @property
    def held(self) -> bool:
        return bool(self.holder) and self.renewed_ago is not None and self.renewed_ago <= self.seconds


def lease_of(obj: Json | None, now: float) -> Lease | None:
    """Decode a Lease; None without one."""
    if obj is None:
        return None
    spec = obj.get("spec") or {}
    renewed = spec.get("renewTime")
    seconds = spec.get("leaseDurationSeconds") or DEFAULT_LEASE_SECONDS
    return Lease(str(spec.get("holderIdentity") or ""), age(str(renewed), now) if renewed else None, float(seconds))

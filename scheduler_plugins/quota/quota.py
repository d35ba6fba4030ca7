"""An ElasticQuota: the guaranteed and the largest amounts of its namespace."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from scheduler_plugins.quota.amounts import NOTHING, UNLIMITED, Amounts, amounts_of, is_counted, is_extended, quantity
from scheduler_plugins.snapshot.units import unix_time

_BOUNDED: Final = ("cpu", "memory", "ephemeral-storage")


class MaxMissing(StrEnum):
    """The meaning of a `max` for cpu, memory and ephemeral-storage where it does not name them."""

    ZERO = "zero"  # none of it may be used, as upstream's code has it
    INFINITE = "infinite"  # it is not limited, as the design text has it


@dataclass(frozen=True, slots=True)
class Quota:
    """The bounds of a namespace."""

    uid: str  # of the ElasticQuota
    namespace: str  # the namespace
    name: str  # of the ElasticQuota
    created: float  # when it was created; of several in a namespace the oldest is in force. [unix s]
    min: Amounts  # guaranteed to the namespace; absent ones are 0. [milli-cores for cpu, else base units]
    max: Amounts  # never exceeded; a scalar that is absent is not limited. [milli-cores for cpu, else base units]
    named: tuple[str, ...] = ()
    """The resources that the object's `min` and `max` name, in this order, whether quotas can bound them or not."""
    left_out: frozenset[str] = frozenset()
    """The resources among cpu, memory and ephemeral-storage that a present `max` does not name."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def seniority(self) -> tuple[float, str]:
        return self.created, self.name

    @property
    def uncounted(self) -> list[str]:
        """The named resources that no pod requests: they limit nothing."""
        return [name for name in self.named if not is_counted(name)]

    @property
    def names_devices(self) -> bool:
        """Return whether it names a resource that may be a device."""
        return any(is_counted(name) and is_extended(name) for name in self.named)

    def concerns(self, resource: str) -> bool:
        """Return whether a resource in use is shown: the number of pods only where the quota names it."""
        return resource != "pods" or resource in self.named

    def reported(self, used: Amounts) -> Mapping[str, str]:
        names = dict.fromkeys((*self.named, *filter(self.concerns, used)))
        return {name: quantity(name, used.get(name, 0)) for name in names}

    @classmethod
    def from_json(cls, quota: Mapping[str, Any], max_missing: MaxMissing = MaxMissing.ZERO) -> "Quota":
        """Read an ElasticQuota.

        Raises:
            QuantityError: an amount is not a quantity.
            ValueError: a time is not RFC 3339.
        """
        metadata, spec = quota.get("metadata") or {}, quota.get("spec") or {}
        given_min, given_max = spec.get("min"), spec.get("max")
        missing = 0 if given_max is not None and max_missing is MaxMissing.ZERO else UNLIMITED
        return cls(
            uid=str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}"),
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
            created=unix_time(metadata.get("creationTimestamp")) or 0.0,
            min=amounts_of(given_min) or NOTHING,
            max={**dict.fromkeys(_BOUNDED, missing), **amounts_of(given_max)},
            left_out=frozenset(_BOUNDED).difference(given_max) if given_max is not None else frozenset(),
            named=tuple(dict.fromkeys((*(given_min or ()), *(given_max or ())))),
        )

"""Amounts as people and the API read them: resource lists of quantities."""

from collections.abc import Mapping
from typing import Final

from crds.quantity import format_bytes, format_milli_cores
from scheduler_plugins.quota.amounts import UNLIMITED, Amounts
from scheduler_plugins.quota.quota import Quota

_IN_BYTES: Final = frozenset({"memory", "ephemeral-storage"})


def quantity(resource: str, amount: int) -> str:
    """An amount of a resource as a Kubernetes quantity: 500m, 2, 3Gi.

    Args:
        resource: its name.
        amount: how much. [milli-cores for cpu, else base units]
    """
    if amount < 0:
        return f"-{quantity(resource, -amount)}"
    if resource == "cpu":
        return format_milli_cores(amount)
    return format_bytes(amount) if resource in _IN_BYTES or resource.startswith("hugepages-") else str(amount)


def bound(resource: str, amount: int) -> str:
    """A bound as people read it: a quantity, or `unlimited`."""
    return "unlimited" if amount >= UNLIMITED else quantity(resource, amount)


def reported(quota: Quota, used: Amounts) -> Mapping[str, str]:
    """The `status.used` of a quota: what its namespace is charged, and 0 of all else that `min` or `max` names.

    Args:
        quota: the quota.
        used: what is charged for the bound pods of its namespace. [milli-cores for cpu, else base units]
    """
    names = dict.fromkeys((*quota.named, *used))
    return {name: quantity(name, used.get(name, 0)) for name in names}

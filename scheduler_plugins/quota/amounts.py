"""Amounts of resources that quotas are about, and how two of them compare.

An amount is a mapping from resource names to integers: milli-cores for cpu, else base units (bytes, pieces). The core
resources (`CORE`) count as 0 where they are absent. All others are scalars. A bound that names a resource with 0 is not
the same as one that does not name it.
"""

from collections.abc import Container, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from crds import names
from crds.quantity import format_bytes, format_milli_cores
from scheduler_plugins.snapshot.units import INT64_MAX, units

Amounts: TypeAlias = Mapping[str, int]  # integers by resource name. [milli-cores for cpu, else base units]

NOTHING: Final[Amounts] = MappingProxyType({})  # no resources
UNLIMITED: Final = INT64_MAX  # in place of a missing bound
CORE: Final = ("cpu", "memory", "ephemeral-storage", "pods")  # resources that always count
_CORE: Final = frozenset(CORE)
_OF_RESOURCE_QUOTAS: Final = ("requests.", "limits.", "count/")  # names that no pod requests begin with
_OF_STORAGE_CLASSES: Final = ".storageclass.storage.k8s.io/"
_IN_BYTES: Final = frozenset({"memory", "ephemeral-storage", names.MID_MEMORY, names.BATCH_MEMORY})


def is_counted(resource: str) -> bool:
    """Return whether quotas can bound a resource: core ones, and what Kubernetes calls scalars.

    Scalars are extended resources, huge pages and attachable volumes; not names of ResourceQuotas such as requests.cpu.
    """
    if resource.startswith(_OF_RESOURCE_QUOTAS) or _OF_STORAGE_CLASSES in resource:
        return False
    return resource in _CORE or is_scalar(resource)


def is_scalar(resource: str) -> bool:
    """Return whether Kubernetes keeps a resource among its scalars."""
    kubernetes = resource.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in resource
    return kubernetes or is_extended(resource)


def is_extended(resource: str) -> bool:
    """Return whether Kubernetes calls a resource extended. Its own, Mid resources among them, are not."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def amounts_of(resources: Mapping[str, Any] | None) -> dict[str, int]:
    """A resource list as integers, rounded up; names that quotas cannot bound are left out.

    Raises:
        QuantityError: an amount is not a quantity.
    """
    return {name: units(name, quantity, INT64_MAX) for name, quantity in (resources or {}).items() if is_counted(name)}


def plus(left: Amounts, right: Amounts) -> dict[str, int]:
    """The sum, resource by resource."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def minus(left: Amounts, right: Amounts) -> dict[str, int]:
    """The difference, resource by resource."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) - amount
    return total


def larger(left: Amounts, right: Amounts) -> dict[str, int]:
    """The larger amount of each resource."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = max(total.get(name, amount), amount)
    return total


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
    return format_bytes(amount) if in_bytes(resource) else str(amount)


def in_bytes(resource: str) -> bool:
    """Return whether the base unit of a resource is the byte."""
    return resource in _IN_BYTES or resource.startswith("hugepages-")


def bound(resource: str, amount: int) -> str:
    """A bound as people read it: a quantity, or `unlimited`."""
    return "unlimited" if amount >= UNLIMITED else quantity(resource, amount)


# When usage is over a bound. Equal is not over.


def over_max_with(used: Amounts, maximum: Amounts, request: Amounts) -> list[str]:
    """The requested resources of which usage and a request together exceed a maximum that names them."""
    return [
        name for name in _requested(request) if name in maximum and used.get(name, 0) + request[name] > maximum[name]
    ]


def aggregated_over_min_with(used: Amounts, minimum: Amounts, request: Amounts) -> list[str]:
    """The requested resources of which all usage and a request exceed all that is guaranteed.

    A resource that no quota guarantees has no such bound.
    """
    return over_max_with(used, minimum, request)


def over_min_with(
    used: Amounts, minimum: Amounts, request: Amounts, guaranteed: Container[str] | None = None
) -> list[str]:
    """Return the requested resources of which usage and a request together exceed min.

    Resources that no quota guarantees do not count, unless the pod requests no others: then nothing is guaranteed to
    it.

    Args:
        used: the usage.
        minimum: the min.
        request: the request.
        guaranteed: the resources that any quota guarantees; None: all.
    """
    requested = [name for name in _requested(request) if name != "pods"]
    names = [name for name in requested if guaranteed is None or name in guaranteed] or requested
    if request.get("pods") and (guaranteed is None or "pods" in guaranteed):
        names = [*names, "pods"]
    return [name for name in names if used.get(name, 0) + request[name] > minimum.get(name, 0)]


def over_min(used: Amounts, minimum: Amounts, guaranteed: Container[str] | None = None) -> list[str]:
    """Return the resources of which usage exceeds min, of those that any quota guarantees (None: all).

    A number of pods counts only where the min names it: every pod is one, so it would borrow in all other quotas.
    """
    names = (name for name in (*CORE, *_scalars(used)) if guaranteed is None or name in guaranteed)
    names = (name for name in names if name != "pods" or name in minimum)
    return [name for name in names if used.get(name, 0) > minimum.get(name, 0)]


def _requested(request: Amounts) -> list[str]:
    return [name for name in (*CORE, *_scalars(request)) if request.get(name, 0) > 0]


def _scalars(amounts: Amounts) -> Iterator[str]:
    return (name for name in amounts if is_scalar(name))

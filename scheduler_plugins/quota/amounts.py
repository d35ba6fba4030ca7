"""Amounts of resources that quotas are about, and how two of them compare.

An amount is a mapping from resource names to integers: milli-cores for cpu, else base units (bytes, pieces). The core
resources (`CORE`) count as 0 where they are absent. All others are scalars: a scalar that is present with 0 is not the
same as one that is absent, since comparisons walk the scalars of their left side alone.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from scheduler_plugins.snapshot.units import INT64_MAX, units

Amounts: TypeAlias = Mapping[str, int]
"""Integers by resource name. [milli-cores for cpu, else base units]"""

NOTHING: Final[Amounts] = MappingProxyType({})
"""No resources."""
UNLIMITED: Final = INT64_MAX
"""The bound of what has none."""
CORE: Final = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that always count."""
_CORE: Final = frozenset(CORE)


def is_counted(resource: str) -> bool:
    """Whether quotas can bound a resource: core ones, and what Kubernetes calls scalars.

    Scalars are extended resources, huge pages and attachable volumes; not quota names such as requests.cpu.
    """
    return resource in _CORE or is_scalar(resource)


def is_scalar(resource: str) -> bool:
    """Whether Kubernetes keeps a resource among its scalars."""
    if resource.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "kubernetes.io/" in resource or ("/" in resource and not resource.startswith("requests."))


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

"""Findings about a quota beside its usage. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_plugins.quota.amounts import UNLIMITED, Amounts, bound, is_extended, quantity
from scheduler_plugins.quota.over_max import sentences
from scheduler_plugins.quota.quota import Quota

IN_FORCE: Final = "InForce"  # condition: whether this quota is the one that counts in its namespace
MIN_WITHIN_MAX: Final = "MinWithinMax"  # condition: whether its namespace may use all that it is guaranteed
MIN_WITHIN_CAPACITY: Final = "MinWithinCapacity"
"""Condition: whether the nodes have all that is guaranteed to all namespaces."""
USED_WITHIN_MAX: Final = "UsedWithinMax"
"""Condition: whether its namespace's bound pods are within max. They are not where max was lowered, another scheduler
placed them, or the extender was away."""
RESOURCES_COUNTED: Final = "ResourcesCounted"
"""Condition, only where it is False: whether pods are charged for all that the quota names."""
OURS: Final = (IN_FORCE, MIN_WITHIN_MAX, USED_WITHIN_MAX, MIN_WITHIN_CAPACITY, RESOURCES_COUNTED)
"""The conditions that are written here."""

WAY_OUT: Final = "name cpu in place of requests.cpu, and limit objects and limits with a ResourceQuota"
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition of a quota."""

    type: str  # Which
    good: bool  # whether all is well
    reason: str  # one CamelCase word for programs
    message: str  # a sentence for people, with the amounts
    warns: bool = False  # whether an Event reports it when it appears


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The inputs of all quotas' findings."""

    total_min: Amounts  # the sum of min of all quotas in force. [milli-cores for cpu, else base units]
    capacity: Amounts  # the allocatable of all nodes. [milli-cores for cpu, else base units]


def findings(
    quota: Quota, of_namespace: Sequence[Quota], surroundings: Surroundings, bound_pods: Amounts, uncounted: int = 0
) -> list[Finding]:
    """Yield all findings of a quota; of one that is not in force, only that and its own faults.

    Args:
        quota: the quota.
        of_namespace: all quotas of its namespace, the one in force first.
        surroundings: what all quotas are evaluated against.
        bound_pods: the namespace's charge for bound pods. [milli-cores for cpu, else base units]
        uncounted: pods of the namespace with claimed devices that are not charged. [pods]
    """
    result = [_in_force(quota, of_namespace), _min_within_max(quota), *_resources_counted(quota, uncounted)]
    if of_namespace[0].uid == quota.uid:
        result.append(_min_within_capacity(quota, surroundings))
        result.append(_used_within_max(quota, bound_pods))
    return result


def _in_force(quota: Quota, of_namespace: Sequence[Quota]) -> Finding:
    if len(of_namespace) == 1:
        return Finding(IN_FORCE, True, "OnlyQuota", "It is the only one of its namespace.")
    senior, others = of_namespace[0], [quota.name for quota in of_namespace[1:]]
    if senior.uid == quota.uid:
        message = f"The namespace has {len(of_namespace)} ElasticQuotas, of which this one is in force, as the oldest"
        return Finding(IN_FORCE, True, "SeveralQuotas", f"{message}; not in force: {_listed(others)}.", warns=True)
    message = f"{senior.key} is in force in this namespace, as the older one, or the first by name; keep only one."
    return Finding(IN_FORCE, False, "OtherQuotaInForce", message, warns=True)


def _min_within_max(quota: Quota) -> Finding:
    wrong = [
        f"{name}: min {quantity(name, amount)} is above max {bound(name, most)}"
        + (" (cpu, memory and ephemeral-storage count as 0 where max does not name them)" if not most else "")
        for name, amount in quota.min.items()
        if amount > (most := quota.max.get(name, UNLIMITED))
    ]
    return _finding(MIN_WITHIN_MAX, wrong, "Within", "MinAboveMax", "Its namespace may use all that it is guaranteed.")


def _resources_counted(quota: Quota, uncounted: int) -> list[Finding]:
    wrong = {}
    if quota.uncounted:
        names = _listed(quota.uncounted)
        wrong["NamesWithoutEffect"] = (
            f"{names}: no pod requests a resource of this name, so it limits nothing; {WAY_OUT}"
        )
    if uncounted and quota.names_devices:
        wrong["DevicesNotCounted"] = claimed_devices(uncounted)
    if not wrong:
        return []
    return [Finding(RESOURCES_COUNTED, False, next(iter(wrong)), f"{'; '.join(wrong.values())}.", warns=True)]


def claimed_devices(pods: int) -> str:
    """Return the sentence about pods with claimed devices that are not charged, without its end."""
    return f"devices that {pods} of its pods get by ResourceClaims are not counted; argument deviceClasses can map them"


def _used_within_max(quota: Quota, bound_pods: Amounts) -> Finding:
    good = "Its namespace's pods are within max."
    return _finding(USED_WITHIN_MAX, sentences(quota, bound_pods), "Within", "UsedAboveMax", good)


def _min_within_capacity(quota: Quota, surroundings: Surroundings) -> Finding:
    wrong = [
        f"{name}: all quotas together guarantee {quantity(name, total)}, the nodes have {quantity(name, has)}"
        for name, amount in quota.min.items()
        if amount > 0
        and (total := surroundings.total_min.get(name, 0)) > (has := surroundings.capacity.get(name, 0))
        and (has or not is_extended(name))  # Dynamic Resource Allocation may provide it
    ]
    good = "The nodes have what all quotas together guarantee."
    return _finding(MIN_WITHIN_CAPACITY, wrong, "Within", "MinAboveCapacity", good)


def _finding(kind: str, wrong: Sequence[str], good_reason: str, bad_reason: str, good: str) -> Finding:
    if not wrong:
        return Finding(kind, True, good_reason, good)
    return Finding(kind, False, bad_reason, f"{_listed(wrong, '; ')}.", warns=True)


def _listed(items: Sequence[str], between: str = ", ") -> str:
    more = [f"and {len(items) - _MOST_NAMED} more"] if len(items) > _MOST_NAMED else []
    return between.join([*items[:_MOST_NAMED], *more])

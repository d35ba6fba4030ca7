"""Resources outside of the model: whether a pod fits a node does not depend on them here."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from scheduler_plugins.quota.amounts import Amounts, is_extended


@dataclass(frozen=True, slots=True)
class IgnoredResources:
    """Extended resources that kube-scheduler's NodeResourcesFit ignores."""

    names: AbstractSet[str] = frozenset()  # their names
    groups: AbstractSet[str] = frozenset()  # the parts of their names before the slash

    def outside(self, resource: str, allocatable: Amounts) -> bool:
        """Return whether a resource is outside of the model of a node.

        An extended resource that the node does not state, or states as 0, may be provided by Dynamic Resource
        Allocation: only kube-scheduler knows.
        """
        if not is_extended(resource):
            return False
        return allocatable.get(resource, 0) <= 0 or resource in self.names or resource.partition("/")[0] in self.groups

"""A node as eviction sees it: what it has, and whom it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headroom.cluster.shape import check_node
from scheduler_plugins.quota.amounts import Amounts, amounts_of


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """One Node."""

    name: str
    """Its name."""
    labels: Mapping[str, str]
    """Its labels."""
    taints: Sequence[Mapping[str, Any]]
    """Its taints, Kubernetes JSON."""
    unschedulable: bool
    """Whether it is cordoned."""
    allocatable: Amounts
    """What it has to give to pods. [milli-cores for cpu, else base units]"""

    @classmethod
    def from_json(cls, node: Mapping[str, Any]) -> "QuotaNode":
        """Read a Node.

        Raises:
            QuantityError: an amount is not a quantity.
            CodecError: a field has another shape than it should.
        """
        check_node(node)
        metadata, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
        return cls(
            name=str(metadata["name"]),
            labels=metadata.get("labels") or {},
            taints=tuple(spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            allocatable=amounts_of(status.get("allocatable")),
        )

"""Nodes, PodDisruptionBudgets and Namespaces as quotas and preemption see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from headroom.cluster.shape import check_budget, check_namespace, check_node
from scheduler_plugins.quota.amounts import Amounts, amounts_of

NAMESPACES: Final = "/api/v1/namespaces"  # path of all namespaces

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """A Node."""

    name: str  # its name
    labels: Mapping[str, str]  # its labels
    taints: Sequence[Mapping[str, Any]]  # its taints, Kubernetes JSON
    unschedulable: bool  # whether it is cordoned
    allocatable: Amounts  # of its pods. [milli-cores for cpu, else base units]

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


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget."""

    uid: str  # of the object
    namespace: str  # of its pods
    name: str  # its name
    selector: Mapping[str, Any]
    """Which pods, Kubernetes JSON; to kube-scheduler one without any requirement is about none."""
    allowed: int  # how many may be disrupted now: `status.disruptionsAllowed`. [pods]
    disrupted: frozenset[str]  # names of pods with a counted disruption: `status.disruptedPods`
    selects_all: bool = False
    """True if its selector is there without any requirement: to the Eviction API it is about all pods with labels."""

    @classmethod
    def from_json(cls, budget: Mapping[str, Any]) -> "Budget":
        """Read a PodDisruptionBudget.

        Raises:
            CodecError: a field has another shape than it should.
        """
        check_budget(budget)
        metadata, spec, status = (budget.get(part) or {} for part in ("metadata", "spec", "status"))
        selector = spec.get("selector")
        return cls(
            uid=str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}"),
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
            selector=selector or {},
            allowed=int(status.get("disruptionsAllowed") or 0),
            disrupted=frozenset(status.get("disruptedPods") or ()),
            selects_all=selector is not None
            and not any(selector.get(part) for part in ("matchLabels", "matchExpressions")),
        )


class Namespaces:
    """Takes changes one by one."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def labels(self, namespace: str) -> Mapping[str, str]:
        return self._labels.get(namespace, _NONE)

    def put(self, namespace: Mapping[str, Any]) -> None:
        """A Namespace is there, or has changed.

        Raises:
            CodecError: a field has another shape than it should.
        """
        check_namespace(namespace)
        metadata = namespace["metadata"]
        self._labels[str(metadata["name"])] = metadata.get("labels") or _NONE

    def delete(self, name: str) -> None:
        self._labels.pop(name, None)

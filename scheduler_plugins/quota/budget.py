"""A PodDisruptionBudget: how many of some pods may be evicted now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headroom.cluster.shape import check_budget


@dataclass(frozen=True, slots=True)
class Budget:
    """One PodDisruptionBudget."""

    uid: str
    """Of the object."""
    namespace: str
    """Whose pods it is about."""
    name: str
    """Its name."""
    selector: Mapping[str, Any]
    """Which pods, Kubernetes JSON; to kube-scheduler one without any requirement is about none."""
    allowed: int
    """How many may be disrupted now: `status.disruptionsAllowed`. [pods]"""
    disrupted: frozenset[str]
    """Names of pods whose disruption is counted already: `status.disruptedPods`."""
    everybody: bool = False
    """Whether its selector is there without any requirement: to the Eviction API it is about all pods with labels."""

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
            everybody=selector is not None
            and not any(selector.get(part) for part in ("matchLabels", "matchExpressions")),
        )

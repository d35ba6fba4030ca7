"""A PodDisruptionBudget: how many of some pods may be evicted now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
    """Which pods, Kubernetes JSON; one without any requirement is about none."""
    allowed: int
    """How many may be disrupted now: `status.disruptionsAllowed`. [pods]"""
    disrupted: frozenset[str]
    """Names of pods whose disruption is counted already: `status.disruptedPods`."""

    @classmethod
    def from_json(cls, budget: Mapping[str, Any]) -> "Budget":
        """Read a PodDisruptionBudget."""
        metadata, spec, status = (budget.get(part) or {} for part in ("metadata", "spec", "status"))
        return cls(
            uid=str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}"),
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
            selector=spec.get("selector") or {},
            allowed=int(status.get("disruptionsAllowed") or 0),
            disrupted=frozenset(status.get("disruptedPods") or ()),
        )

"""A hold: the room that was freed for a pod, kept from others until the pod is bound or gone, or the hold expires.

It is an annotation of that pod, so that a restart or another leader finds it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds import names


@dataclass(frozen=True, slots=True)
class Hold:
    """What was freed for a pod, and until when it is kept."""

    node: str
    """Where the pod is to go."""
    until: float
    """When it expires. [unix s]"""
    victims: tuple[str, ...] = ()
    """Uids of the pods that were evicted for it, on that node or, with crossNode, elsewhere."""
    attempt: int = 1
    """How often room has been freed for this pod, this time included."""

    def as_text(self) -> str:
        """The annotation's value."""
        content = {"node": self.node, "until": self.until, "victims": list(self.victims), "attempt": self.attempt}
        return json.dumps(content)

    @classmethod
    def of_pod(cls, pod: Mapping[str, Any]) -> "Hold | None":
        """The hold of a pod; None where it has none that can be understood: anybody may write annotations."""
        text = ((pod.get("metadata") or {}).get("annotations") or {}).get(names.ANNOTATION_RECLAIM_HOLD)
        if not text:
            return None
        try:
            content = json.loads(text)
            victims = tuple(str(uid) for uid in content.get("victims") or ())
            return cls(str(content["node"]), float(content["until"]), victims, int(content.get("attempt", 1)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

"""A hold: resources reserved for a pod until the pod is bound or gone, or the hold expires.

It is an annotation of that pod, so that it survives a restart or a change of leader. Any creator of pods may write any
annotation, so one counts only where a condition in the pod's status has the same content: writing that takes the right
to pods/status.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from crds import names
from scheduler_plugins.snapshot.units import LARGEST

LONGEST_SECONDS: Final = 3 * 3600.0
"""The longest hold: of a grace period and of holdSeconds, an hour counts at most. [s]"""
REASON: Final = "Reclaiming"  # of the condition that vouches for a hold
_LONGEST_TEXT: Final = 65_536
_LATEST: Final = 2.0**40
_MOST_ATTEMPTS: Final = 1_000_000
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Hold:
    """The reservation, and its time limit."""

    node: str  # where the pod is to go
    until: float  # when it expires. [unix s]
    victims: tuple[str, ...] = ()
    """Uids of the pods that were evicted for it."""
    attempt: int = 1  # the number of reservations for this pod, this one included
    relief: Mapping[str, int] = field(default_factory=lambda: _NONE, hash=False)
    """The measured usage of those victims on the node: an average over minutes still contains it when
    they have ended, and is no reason to refuse the pod that they ended for. [milli-cores for cpu, else base units]"""

    def as_text(self) -> str:
        content = {"node": self.node, "until": self.until, "victims": list(self.victims), "attempt": self.attempt}
        return json.dumps({**content, "relief": dict(self.relief)} if self.relief else content)

    @property
    def annotations(self) -> dict[str, str]:
        return {names.ANNOTATION_RECLAIM_HOLD: self.as_text()}

    @property
    def condition(self) -> dict[str, Any]:
        return {"type": names.CONDITION_RESERVED, "status": "True", "reason": REASON, "message": self.as_text()}

    def lasts(self, now: float) -> bool:
        return now < self.until <= now + LONGEST_SECONDS

    @property
    def times(self) -> tuple[float, float]:
        return self.until - LONGEST_SECONDS, self.until

    @classmethod
    def of_pod(cls, pod: Mapping[str, Any]) -> "Hold | None":
        """The hold of a pod; None where it has none that can be understood and that its status vouches for."""
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        text = annotations.get(names.ANNOTATION_RECLAIM_HOLD)
        if not isinstance(text, str) or not text or len(text) > _LONGEST_TEXT:
            return None
        conditions = (pod.get("status") or {}).get("conditions") or ()
        if not any(
            condition.get("type") == names.CONDITION_RESERVED and condition.get("message") == text
            for condition in conditions
        ):
            return None
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return cls._understood(content) if isinstance(content, dict) else None

    @classmethod
    def _understood(cls, content: Mapping[str, Any]) -> "Hold | None":
        node, until, victims = content.get("node"), content.get("until"), content.get("victims") or []
        attempt, relief = content.get("attempt", 1), content.get("relief") or {}
        if not isinstance(node, str) or not node:
            return None
        if isinstance(until, bool) or not isinstance(until, int | float) or type(attempt) is not int:
            return None
        if not isinstance(victims, list) or not all(isinstance(uid, str) for uid in victims):
            return None
        if not 0 <= until <= _LATEST or not 1 <= attempt <= _MOST_ATTEMPTS:
            return None
        if not isinstance(relief, dict) or not all(
            type(amount) is int and 0 <= amount <= LARGEST for amount in relief.values()
        ):
            return None
        return cls(node, float(until), tuple(victims), attempt, MappingProxyType(relief) if relief else _NONE)

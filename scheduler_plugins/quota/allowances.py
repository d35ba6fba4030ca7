"""What kube-scheduler's own preemption was told lately: whom it may evict for a pod, by node."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_plugins.quota.pod import QuotaPod

SECONDS: Final = 10.0
"""How long it may take until the API shows what it made of that. [s]"""
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Allowance:
    """One answer."""

    pod: QuotaPod
    """The pod that needs room."""
    at: float
    """When. [unix s]"""
    victims: Mapping[str, Sequence[QuotaPod]]
    """Who may be evicted, by node."""
    why: Mapping[str, str]
    """Why they and not others, by node: one sentence with the numbers."""


class Allowances:
    """The last answers, by the pod's uid."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Allowance] = OrderedDict()

    def add(self, allowance: Allowance) -> None:
        """Note an answer."""
        self._of[allowance.pod.uid] = allowance
        self._of.move_to_end(allowance.pod.uid)
        while len(self._of) > _MOST:
            self._of.popitem(last=False)

    def recent(self, now: float) -> list[Allowance]:
        """The answers that kube-scheduler may still act on.

        Args:
            now: the present time. [unix s]
        """
        self._of = OrderedDict((uid, each) for uid, each in self._of.items() if now - each.at < SECONDS)
        return list(self._of.values())

    def has(self, uid: str, now: float) -> bool:
        """Whether kube-scheduler may be evicting for a pod itself.

        Args:
            uid: of the pod.
            now: the present time. [unix s]
        """
        known = self._of.get(uid)
        return known is not None and now - known.at < SECONDS

    def forget(self, uid: str) -> None:
        """What became of it is known."""
        self._of.pop(uid, None)

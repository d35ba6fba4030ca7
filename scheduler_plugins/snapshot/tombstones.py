"""Pods that are gone: kube-scheduler may still ask about one for a moment, and nobody would tell us a second time."""

from collections import OrderedDict
from typing import Final

REMEMBERED: Final = 10_000  # how many are remembered, the last ones. [pods]


class Tombstones:
    """The uids of the pods that were deleted last."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        """A pod is gone."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > REMEMBERED:
            self._uids.popitem(last=False)

    def discard(self, uid: str) -> None:
        """The pod is there after all."""
        self._uids.pop(uid, None)

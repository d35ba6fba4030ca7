"""The recent responses to kube-scheduler's own preemption: the allowed victims of a pod, by node."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scheduler_plugins.quota.pod import QuotaPod

SECONDS: Final = 10.0  # time until the API shows the evictions. [s]
LEAVING_SECONDS: Final = 150.0
"""Time for which evicted pods are awaited: a usual grace period, and the time of a reservation. [s]"""
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class PreemptionGrant:
    """An answer."""

    pod: QuotaPod  # the preempting pod
    at: float  # when. [unix s]
    victims: Mapping[str, Sequence[QuotaPod]]  # the allowed victims, by node
    why: Mapping[str, str]  # why they and not others, by node: one sentence with the numbers


class PreemptionGrants:
    """The last answers, by the pod's uid."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, PreemptionGrant] = OrderedDict()
        self._acted_on: OrderedDict[str, PreemptionGrant] = OrderedDict()

    def add(self, grant: PreemptionGrant) -> None:
        _put(self._of, grant)

    def recent(self, now: float) -> list[PreemptionGrant]:
        self._of = OrderedDict((uid, each) for uid, each in self._of.items() if now - each.at < SECONDS)
        return list(self._of.values())

    def has(self, uid: str, now: float) -> bool:
        grant = self._of.get(uid)
        return grant is not None and now - grant.at < SECONDS

    def acted_on(self, uid: str, node: str) -> None:
        """kube-scheduler has evicted those on a node: it may not act on the answer once more."""
        grant = self._of.pop(uid, None)
        if grant is not None:
            victims = grant.victims.get(node, ())
            _put(self._acted_on, replace(grant, victims={node: victims}, why={}))

    def terminating(self, uid: str, there: Mapping[str, QuotaPod], now: float) -> bool:
        """Return whether an allowed victim of a pod is terminating already.

        kube-scheduler itself forgets it where they are no less important: it then takes the pod's nomination away.
        """
        for known in (self._of.get(uid), self._acted_on.get(uid)):
            if known is not None and now - known.at < LEAVING_SECONDS:
                uids = (victim.uid for victims in known.victims.values() for victim in victims)
                if any(uid in there and there[uid].terminating for uid in uids):
                    return True
        return False


def _put(grants: OrderedDict[str, PreemptionGrant], grant: PreemptionGrant) -> None:
    grants[grant.pod.uid] = grant
    grants.move_to_end(grant.pod.uid)
    while len(grants) > _MOST:
        grants.popitem(last=False)

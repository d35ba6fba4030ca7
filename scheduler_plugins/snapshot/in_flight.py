"""Pods in flight, admitted and not observed as bound: each is charged to every node that it may be bound to."""

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from headroom.cluster.pod import is_terminal
from scheduler_plugins.snapshot.pod import PodRequest, Refusal


@dataclass(slots=True)  # one that is frozen takes five times as long to make
class Charge:
    """A pod's charge."""

    pod: PodRequest  # the pod
    names: Sequence[str]  # the nodes that carry its estimate
    since: float  # when it was admitted. [unix s]
    counted_from: float  # the same by the clock that charges expire by. [s]


class InFlight:
    """The charges, in the order they were made.

    Args:
        seconds: how long a charge lasts. [s]
        steady: a clock that never jumps; None: the times that are given. [s]
    """

    def __init__(self, seconds: float, steady: Callable[[], float] | None = None) -> None:
        self._seconds = seconds
        self._steady = steady
        self.charges: Final[dict[str, Charge]] = {}  # by uid

    def put(self, pod: PodRequest, names: Sequence[str], now: float) -> Charge:
        """Charge a pod that is not charged yet."""
        charge = Charge(pod, names, now, now if self._steady is None else self._steady())
        self.charges[pod.uid] = charge
        return charge

    def refused(self, pod: PodRequest) -> bool:
        """Return whether the pod states, later than its admission, that it could not be scheduled."""
        # The API keeps whole seconds.
        charge = self.charges.get(pod.uid)
        return charge is not None and pod.refused_at is not None and pod.refused_at >= int(charge.since)

    def expired(self, now: float) -> list[str]:
        """Return the uids of expired charges."""
        present = now if self._steady is None else self._steady()
        over = []
        for uid, charge in self.charges.items():
            # A charge in the future was made before the clock was set back: its age is unknown.
            if abs(present - charge.counted_from) < self._seconds:
                break
            over.append(uid)
        return over

    def on(self, name: str) -> list[Charge]:
        return [charge for charge in self.charges.values() if name in charge.names]


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
        self._uids.pop(uid, None)


LONGEST_SECONDS: Final = 600.0
"""The longest time for kube-scheduler to bind a pod, for example to make a volume: its bindTimeoutSeconds. [s]"""
UNCONFIRMED_SECONDS: Final = 30.0
"""Time after a start in which pods of an earlier run may still be bound: kube-scheduler binds 50 a second by
default, and chooses nodes for more. [s]"""
SETTLED_SECONDS: Final = 5.0
"""Time for kube-scheduler's binding requests once they are sent, the watch's delay included: they usually end
within one second, and the watch is `LATE_SECONDS` behind at most. [s]"""
LATE_SECONDS: Final = 2.0
"""The largest delay of the watch of pods, where a pod does not state when its refusal was written. [s]"""

_LOG: Final = logging.getLogger(__name__)


@runtime_checkable
class Reserving(Protocol):
    """A plugin, or its state, that reserves for admitted pods."""

    def reserve(self, pod: PodRequest, names: Sequence[str], now: float) -> None:
        """The extender admitted a pod."""

    def unreserve(self, uid: str) -> None:
        """The pod was observed as bound, refused or deleted, is requested again, or was silent for ten minutes."""


@runtime_checkable
class ReservesUnconfirmed(Reserving, Protocol):
    """A plugin that also reserves, after a start, for pods that an earlier run may have admitted."""

    def reserve_unconfirmed(self, pod: PodRequest, now: float) -> None:
        """A pod was pending in the first list. `reserve` and `unreserve` end its reservation."""


def binding_queue(pod: Mapping[str, Any]) -> str:
    """The name of the kube-scheduler that binds a pod as soon as it may send requests; "" if its binding may wait.

    It waits in Permit for a group, and in PreBind for volumes or devices, while others go before it.
    """
    spec = pod.get("spec") or {}
    volumes = any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in spec.get("volumes") or ())
    if volumes or any(spec.get(name) for name in ("resourceClaims", "schedulingGroup")):
        return ""
    return scheduler_name(pod)


def waits_for_node(pod: Mapping[str, Any]) -> bool:
    """Return whether kube-scheduler may look for a node for the pod."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    held = spec.get("nodeName") or spec.get("schedulingGates") or metadata.get("deletionTimestamp")
    return not held and not is_terminal(pod)


def scheduler_name(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("schedulerName") or "")


class Reservations:
    """The reserved pods. Unlike load, which is measured soon, a reservation lasts until the pod's next event.

    Which unconfirmed pods may still be bound after a restart follows from the order of kube-scheduler's requests
    (Kubernetes 1.36, pkg/scheduler/schedule_one.go). `ScheduleOne` takes one pod at a time. It starts a goroutine that
    binds an admitted pod, and itself patches the condition of a refused one. Both go through one client, whose rate
    limiter serves in the order of arrival: 50 requests a second after a burst of 100. With 150 answers a second for
    ten seconds 1,500 - 100 - 10 * 50 = 900 bindings wait, which take 18 s: no number of pods is small and never
    exceeded. But the first write after a response of this run, a binding or a refusal, has passed the limiter after all
    of them, at any rate. So `SETTLED_SECONDS` later only pods that wait for another reason are unconfirmed. A pod
    that is refused for unconfirmed ones alone causes that write.

    Args:
        reserving: the plugins to call.
        steady: a clock that never jumps; None: the times of the arguments. [s]
    """

    def __init__(self, reserving: Sequence[Reserving], steady: Callable[[], float] | None = None) -> None:
        self._reserving = reserving
        self._unconfirmed_ledgers = [ledger for ledger in reserving if isinstance(ledger, ReservesUnconfirmed)]
        self._reserved = InFlight(LONGEST_SECONDS, steady)
        self._unconfirmed = InFlight(UNCONFIRMED_SECONDS, steady)
        self._words: dict[str, Refusal | None] = {}
        self._steady = steady
        self._queues: dict[str, str] = {}  # of unconfirmed pods, by uid
        self._asked: dict[str, Refusal | None] = {}  # pods asked about since the start, with their former refusal
        self._served: dict[str, float] = {}
        """When the first write was seen that came after an answer of ours, by kube-scheduler. [s]"""

    def reserve(self, pod: PodRequest, names: Sequence[str], now: float) -> None:
        """Record that the extender admitted a pod."""
        if not self._reserving:
            return
        self._reserved.charges.pop(pod.uid, None)
        self._unconfirmed.charges.pop(pod.uid, None)
        self._reserved.put(pod, names, now)
        self._words[pod.uid] = pod.refusal
        _call_each(self._reserving, "reserve", pod.uid, pod, names, now)

    def reserve_unconfirmed(self, pod: PodRequest, now: float, queue: str = "") -> None:
        """Reserve for a pod that an earlier run may have admitted, unless this run has.

        Args:
            pod: the pod.
            now: the present time. [unix s]
            queue: what `binding_queue` returns for it.
        """
        if not self._unconfirmed_ledgers or pod.uid in self._reserved.charges or pod.uid in self._unconfirmed.charges:
            return
        self._unconfirmed.put(pod, (), now)
        self._queues[pod.uid] = queue
        self._words[pod.uid] = pod.refusal
        _call_each(self._unconfirmed_ledgers, "reserve_unconfirmed", pod.uid, pod, now)

    def unreserve(self, uid: str) -> None:
        """End the reservation of a pod, confirmed or not."""
        if uid not in self._words and not self._unconfirmed.charges:
            return
        former = self._words.pop(uid, None)
        if self._unconfirmed.charges:
            self._asked.setdefault(uid, former)
        unconfirmed = self._unconfirmed.charges.pop(uid, None)
        reserved = self._reserved.charges.pop(uid, None)
        if unconfirmed is None and reserved is None:
            return
        _call_each(self._reserving if reserved is not None else self._unconfirmed_ledgers, "unreserve", uid, uid)

    def refused(self, pod: PodRequest, now: float) -> bool:
        """Return whether kube-scheduler marked the pod unschedulable after our reservation.

        The API stores whole seconds, and a pod may be refused, requested again and admitted within one. By default it
        stays reserved: it is requested again soon. But where in-tree filters refuse every node from then on, it is
        not, and its condition keeps the time of its first refusal. So it is refused, too, if the condition has another
        message than before, written later: by the API server's time, else by ours.
        """
        reserved = self._reserved.charges.get(pod.uid) or self._unconfirmed.charges.get(pod.uid)
        if reserved is None or pod.refusal is None:
            return False
        former, self._words[pod.uid] = self._words.get(pod.uid), pod.refusal
        if pod.refused_at is not None and pod.refused_at > reserved.since:
            return True
        written = now - LATE_SECONDS if pod.refusal.written is None else pod.refusal.written
        return former is not None and former.words != pod.refusal.words and written > reserved.since

    def written(self, pod: PodRequest, scheduler: str, now: float) -> None:
        """Record a change of a pod first: kube-scheduler may have made it after a response of this run.

        A refusal is such a change if the pod was requested, and had another message then, or none.
        """
        if not self._unconfirmed.charges or scheduler in self._served:
            return
        bound = bool(pod.node_name) and pod.uid in self._reserved.charges
        if bound or (pod.refusal is not None and pod.refusal != self._asked.get(pod.uid, pod.refusal)):
            self._served[scheduler] = self._present(now)

    def expire(self, now: float) -> None:
        """Drop expired charges."""
        for uid in self._reserved.expired(now):
            self.unreserve(uid)
        if self._queues:
            self._expire_unconfirmed(now)

    def _expire_unconfirmed(self, now: float) -> None:
        present = self._present(now)
        settled = {queue for queue, since in self._served.items() if queue and present - since >= SETTLED_SECONDS}
        unconfirmed = [uid for uid in self._unconfirmed.charges if self._queues[uid] in settled] if settled else []
        for uid in (*self._unconfirmed.expired(now), *unconfirmed):
            self.unreserve(uid)
        self._served.update(dict.fromkeys(settled, math.inf))
        if not self._unconfirmed.charges:
            for kept in (self._queues, self._asked, self._served):
                kept.clear()

    def _present(self, now: float) -> float:
        return now if self._steady is None else self._steady()


def _call_each(plugins: Sequence[object], method: str, uid: str, *arguments: object) -> None:
    """Call a method of each plugin; log the failure of one: it must not end the watch of all pods."""
    for plugin in plugins:
        try:
            getattr(plugin, method)(*arguments)
        except Exception:  # noqa: BLE001 - as above
            _LOG.exception("A plugin could not %s pod %s", method, uid)

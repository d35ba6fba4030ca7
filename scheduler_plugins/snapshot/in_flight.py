"""Pods that were answered for but not seen bound: each is charged to every node that it may land on."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Protocol, runtime_checkable

from scheduler_plugins.snapshot.pod import PodRequest, Refusal


@dataclass(frozen=True, slots=True)
class Charge:
    """One pod's charge."""

    pod: PodRequest  # the pod
    names: tuple[str, ...]  # the nodes that carry its estimate
    since: float  # when it was answered for. [unix s]
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
        self._charges: dict[str, Charge] = {}

    @property
    def charges(self) -> Mapping[str, Charge]:
        """The charges by pod uid."""
        return self._charges

    def put(self, pod: PodRequest, names: Sequence[str], now: float) -> Charge:
        """Charge a pod that is not charged yet."""
        charge = Charge(pod, tuple(names), now, now if self._steady is None else self._steady())
        self._charges[pod.uid] = charge
        return charge

    def pop(self, uid: str) -> Charge | None:
        """Drop a pod's charge and return it; None if it has none."""
        return self._charges.pop(uid, None)

    def refused(self, pod: PodRequest) -> bool:
        """Whether the pod says, later than we answered for it, that it could not be scheduled."""
        # The API keeps whole seconds.
        charge = self._charges.get(pod.uid)
        return charge is not None and pod.refused_at is not None and pod.refused_at >= int(charge.since)

    def expired(self, now: float) -> list[str]:
        """The uids whose charge has lasted its time."""
        present = now if self._steady is None else self._steady()
        # A charge of the time to come was made before the clock was set back: nobody knows its age any more.
        over = takewhile(lambda item: abs(present - item[1].counted_from) >= self._seconds, self._charges.items())
        return [uid for uid, _ in over]

    def on(self, name: str) -> list[Charge]:
        """The charges that a node carries."""
        return [charge for charge in self._charges.values() if name in charge.names]


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


LONGEST_SECONDS: Final = 600.0
"""How long kube-scheduler may take to bind a pod, for instance while a volume is made: its bindTimeoutSeconds. [s]"""
DOUBTED_SECONDS: Final = 30.0
"""How long after a start pods may still be bound that an earlier run answered for: kube-scheduler binds 50 a second by
default, and chooses nodes for more. [s]"""
LATE_SECONDS: Final = 2.0
"""How far the watch of pods is behind at most, where a pod does not say when its refusal was written. [s]"""

_LOG: Final = logging.getLogger(__name__)


@runtime_checkable
class Reserving(Protocol):
    """A plugin, or what it keeps, that wants to know of every answer."""

    def reserve(self, pod: PodRequest, names: Sequence[str], now: float) -> None:
        """A pod was answered for."""

    def unreserve(self, uid: str) -> None:
        """The pod was seen bound, refused or gone, is asked about again, or was not heard of for ten minutes."""


@runtime_checkable
class ReservesUnconfirmed(Reserving, Protocol):
    """One that also wants to know, after a start, of which pods nobody knows whether they were answered for."""

    def reserve_unconfirmed(self, pod: PodRequest, now: float) -> None:
        """A pod was pending when the pods were first listed. `reserve` and `unreserve` end the doubt."""


class Reservations:
    """Who is reserved. Unlike load, which is measured soon, it lasts until something is heard of the pod.

    Args:
        reserving: who wants to know.
        steady: a clock that never jumps; None: the times that are given. [s]
    """

    def __init__(self, reserving: Sequence[Reserving], steady: Callable[[], float] | None = None) -> None:
        self._reserving = reserving
        self._doubting = [each for each in reserving if isinstance(each, ReservesUnconfirmed)]
        self._reserved = InFlight(LONGEST_SECONDS, steady)
        self._doubted = InFlight(DOUBTED_SECONDS, steady)
        self._words: dict[str, Refusal | None] = {}

    def reserve(self, pod: PodRequest, names: Sequence[str], now: float) -> None:
        """Tell that a pod was answered for."""
        if not self._reserving:
            return
        self._reserved.pop(pod.uid)
        self._doubted.pop(pod.uid)
        self._reserved.put(pod, names, now)
        self._words[pod.uid] = pod.refusal
        for plugin in self._reserving:
            with _survived("reserve", pod.uid):
                plugin.reserve(pod, names, now)

    def reserve_unconfirmed(self, pod: PodRequest, now: float) -> None:
        """Tell that nobody knows whether a pod was answered for before we started, unless it has been since."""
        if not self._doubting or pod.uid in self._reserved.charges or pod.uid in self._doubted.charges:
            return
        self._doubted.put(pod, (), now)
        self._words[pod.uid] = pod.refusal
        for plugin in self._doubting:
            with _survived("doubt", pod.uid):
                plugin.reserve_unconfirmed(pod, now)

    def unreserve(self, uid: str) -> None:
        """Tell that a pod was heard of, if it is reserved or in doubt."""
        doubted, reserved = self._doubted.pop(uid), self._reserved.pop(uid)
        self._words.pop(uid, None)
        if doubted is None and reserved is None:
            return
        for plugin in self._reserving if reserved is not None else self._doubting:
            with _survived("unreserve", uid):
                plugin.unreserve(uid)

    def refused(self, pod: PodRequest, now: float) -> bool:
        """Whether the pod says, surely later than we answered for it, that it could not be scheduled.

        The API keeps whole seconds, and a pod may be refused, asked about again and admitted within one. Whoever doubts
        keeps it reserved: it is asked about again soon. But where in-tree filters refuse every node from then on, it is
        not, and its condition keeps the time of its first refusal. So it is refused, too, if the condition says another
        thing than before, and that was written later: the API server says when, else when we hear of it does.
        """
        reserved = self._reserved.charges.get(pod.uid) or self._doubted.charges.get(pod.uid)
        if reserved is None or pod.refusal is None:
            return False
        former, self._words[pod.uid] = self._words.get(pod.uid), pod.refusal
        if pod.refused_at is not None and pod.refused_at > reserved.since:
            return True
        written = now - LATE_SECONDS if pod.refusal.written is None else pod.refusal.written
        return former is not None and former.words != pod.refusal.words and written > reserved.since

    def expire(self, now: float) -> None:
        """Drop what has lasted its time."""
        for uid in (*self._reserved.expired(now), *self._doubted.expired(now)):
            self.unreserve(uid)


@contextmanager
def _survived(what: str, uid: str) -> Iterator[None]:
    """Log what a plugin fails with: it may be anybody's, and must not end the watch of all pods."""
    try:
        yield
    except Exception:  # noqa: BLE001 - as said above
        _LOG.exception("A plugin could not %s pod %s", what, uid)

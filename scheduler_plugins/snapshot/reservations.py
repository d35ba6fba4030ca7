"""Plugins that keep an account of pods between our answer and what becomes of them (Reserve and Unreserve)."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, runtime_checkable

from scheduler_plugins.snapshot.in_flight import InFlight
from scheduler_plugins.snapshot.pod import PodRequest, Refusal

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
        ...

    def unreserve(self, uid: str) -> None:
        """The pod was seen bound, refused or gone, is asked about again, or was not heard of for ten minutes."""
        ...


@runtime_checkable
class ReservesUnconfirmed(Reserving, Protocol):
    """One that also wants to know, after a start, of which pods nobody knows whether they were answered for."""

    def reserve_unconfirmed(self, pod: PodRequest, now: float) -> None:
        """A pod was pending when the pods were first listed. `reserve` and `unreserve` end the doubt."""
        ...


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

"""The rules of all writes about quotas in a run, with killed, paused and slow writers. Pure: no I/O.

A history is the API server's accepted writes, in order: quotas, bindings, ends of pods, evictions, holds and the holder
of the lease. The model that checks it knows nothing of the extender's internals.

1. No binding brings a namespace above the `max` of its quota. A pod may be in flight for a while, so that the largest
   `max` counts that was in force since then. Only while the extender was away may kube-scheduler go on without it.
2. A victim is named by the hold in force of its preemptor, and is evicted once.
3. Only the lease's holder writes holds and evicts, and writes of two holders do not interleave.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Amounts: TypeAlias = Mapping[str, int]  # integers by resource name [milli-cores for cpu, else base units]

LONGEST_FLIGHT_SECONDS: Final = 600.0
"""The longest time until a pod is bound: kube-scheduler's bindTimeoutSeconds. [s]"""
LONGEST_ATTEMPT_SECONDS: Final = 8.0
"""The longest time until a pod is bound after an attempt that waited for an extender. [s]"""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A write that the API server accepted."""

    at: float  # when [s]


@dataclass(frozen=True, slots=True)
class QuotaWritten(_Taken):
    """A quota was created or changed; `max` None: it was deleted."""

    namespace: str  # its namespace
    max: Amounts | None  # its max; absent ones are unlimited


@dataclass(frozen=True, slots=True)
class Bound(_Taken):
    """A pod was bound to a node."""

    uid: str  # of the pod
    namespace: str  # its namespace
    charge: Amounts  # its charge
    created: float  # its creation; it was not admitted before [s]


@dataclass(frozen=True, slots=True)
class Ended(_Taken):
    """A pod has ended, or is gone."""

    uid: str  # of the pod


@dataclass(frozen=True, slots=True)
class LeaseTaken(_Taken):
    """A replica holds the lease from now on."""

    holder: str  # who; empty: it was given back


@dataclass(frozen=True, slots=True)
class HoldWritten(_Taken):
    """A hold with victims was written for a pod."""

    by: str  # who wrote it
    claimant: str  # uid of the preempting pod
    victims: frozenset[str]  # uids of the victims; none: the hold was withdrawn, or has ended


@dataclass(frozen=True, slots=True)
class Evicted(_Taken):
    """The API server took an eviction."""

    by: str  # its writer
    victim: str  # uid of the pod that leaves
    claimant: str  # uid of the pod for which it does


@dataclass(frozen=True, slots=True)
class Away:
    """An extender did not answer, where kube-scheduler goes on without it (`ignorable`): quotas do not hold then."""

    begin: float  # since when [s]
    end: float  # when it answered again [s]
    who: str  # the holder of the lease and its kube-scheduler


Event: TypeAlias = QuotaWritten | Bound | Ended | LeaseTaken | HoldWritten | Evicted


@dataclass(slots=True)
class _Model:
    flight: float
    delay: float
    away: Sequence[Away]
    maxima: dict[str, list[tuple[float, Amounts | None]]] = field(default_factory=dict)
    used: dict[str, dict[str, int]] = field(default_factory=dict)
    bound: dict[str, Bound] = field(default_factory=dict)
    holds: dict[str, frozenset[str]] = field(default_factory=dict)
    evicted: dict[str, str] = field(default_factory=dict)
    holder: str = ""
    former: str = ""

    def take(self, event: Event) -> Iterator[str]:
        """Return the faults of an event, which then counts."""
        match event:
            case QuotaWritten():
                self.maxima.setdefault(event.namespace, []).append((event.at, event.max))
            case Bound():
                yield from self._bind(event)
            case Ended():
                self._end(event.uid)
            case LeaseTaken():
                self.former, self.holder = self.holder, event.holder
            case HoldWritten():
                yield from self._written_by(event.at, event.by, f"a hold for {event.claimant}")
                self.holds[event.claimant] = event.victims
            case Evicted():
                yield from self._written_by(event.at, event.by, f"the eviction of {event.victim}")
                yield from self._evict(event)

    def _written_by(self, at: float, by: str, what: str) -> Iterator[str]:
        if by != self.holder:
            yield f"{at:g} s: {by} wrote {what} while {self.holder or 'nobody'} held the lease"

    def _bind(self, event: Bound) -> Iterator[str]:
        if event.uid in self.bound:
            yield f"{event.at:g} s: pod {event.uid} was bound twice"
            return
        self.bound[event.uid] = event
        used = self.used.setdefault(event.namespace, {})
        for name, amount in event.charge.items():
            used[name] = used.get(name, 0) + amount
            most = self._most(event, name)
            if amount and most is not None and used[name] > most and not self._unasked(event):
                yield f"{event.at:g} s: pod {event.uid} brought {event.namespace} to {used[name]} {name}, max is {most}"

    def _most(self, event: Bound, name: str) -> int | None:
        """The largest bound in force since the pod may have been let through; None: it was not limited all the time."""
        begin = max(event.at - self.flight, event.created)
        written = self.maxima.get(event.namespace, [])
        before = [most for when, most in written if when <= begin]
        bounds = [before[-1] if before else None, *(most for when, most in written if begin < when <= event.at)]
        named = [most[name] for most in bounds if most is not None and name in most]
        return max(named) if len(named) == len(bounds) else None

    def _unasked(self, event: Bound) -> bool:
        """Return whether the extender may have been away when the pod was let through."""
        begin = max(event.at - LONGEST_ATTEMPT_SECONDS, event.created)
        holders = [self.holder, self.former]
        return any(entry.who in holders and entry.begin <= event.at and begin <= entry.end for entry in self.away)

    def _end(self, uid: str) -> None:
        binding = self.bound.get(uid)
        if binding is not None:
            for name, amount in binding.charge.items():
                self.used[binding.namespace][name] -= amount

    def _evict(self, event: Evicted) -> Iterator[str]:
        if event.victim in self.evicted:
            before = self.evicted[event.victim]
            yield f"{event.at:g} s: {event.victim} was evicted for {event.claimant}, and for {before} before"
        if event.victim not in self.holds.get(event.claimant, frozenset()):
            yield f"{event.at:g} s: {event.victim} was evicted for {event.claimant}, but its hold does not name it"
        bound = self.bound.get(event.claimant)
        if bound is not None and event.at - bound.at > self.delay:
            yield f"{event.at:g} s: {event.victim} was evicted for {event.claimant}, which was bound already"
        self.evicted[event.victim] = event.claimant


def faults(
    history: Iterable[Event],
    flight: float = LONGEST_FLIGHT_SECONDS,
    delay: float = -1.0,
    away: Sequence[Away] = (),
) -> list[str]:
    """Everything in a history that must not be, one sentence each.

    Args:
        history: in the order in which the API server took it.
        flight: the longest time until a pod is bound. [s]
        delay: how late the evicting replica may observe a binding; below 0: at once. [s]
        away: when quotas did not hold, because no replica was available: pods bound then count, and are no fault.
    """
    model = _Model(flight, delay, away)
    return [fault for event in history for fault in model.take(event)]

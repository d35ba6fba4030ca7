"""Rate limits of writes to a node, and of events about it. Pure; the clock is an argument.

Without a limit the manager and another writer of the same amounts (a kubelet that rewrites its Node's status, another
manager) could overwrite each other forever. A node gets a burst of writes and then one from time to time. A decrease
of the last written amount is never delayed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from headroom.runtime.token_bucket import TokenBucket
from manager.inputs import Resource

Writes = Mapping[Resource, int | None]  # amounts to write; `None` removes a resource [milli-cores, bytes]
NOTICE_BURST: Final = 10
NOTICE_REFILL_SECONDS: Final = 60.0
_PODS_BURST: Final = 3
_PODS_REFILL_SECONDS: Final = 600.0
_CORRECTION_BURST: Final = 5
_CORRECTION_REFILL_SECONDS: Final = 60.0


class WriteKind(StrEnum):
    """The direction of a change."""

    FIRST = "first"  # nothing was written yet
    DECREASE = "less"  # a resource decreases, or is removed
    INCREASE = "more"  # a resource increases, or returns
    REPEAT = "again"  # the same amounts as last time: another writer has changed them


@dataclass(slots=True)
class ReportRateLimiter:
    """Rate limits of the events and of the condition writes about one node.

    A report that differs each time would otherwise cause a write each time. Intermediate states are skipped, never the
    last one: it is reported when there is a token again.
    """

    events: TokenBucket = field(default_factory=TokenBucket)
    conditions: TokenBucket = field(default_factory=TokenBucket)
    pods: TokenBucket = field(default_factory=TokenBucket)
    """Writes of the conditions in which only MidPodsLimited differs: the usage of a pod crosses its request often."""

    @staticmethod
    def wait(tokens: TokenBucket, now: float) -> float:
        """Return how long the next report must wait; 0.0 means now. [s]"""
        return tokens.wait(NOTICE_BURST, NOTICE_REFILL_SECONDS, now)

    @staticmethod
    def take(tokens: TokenBucket, now: float) -> None:
        tokens.take(NOTICE_REFILL_SECONDS, now)

    def take_conditions(self, now: float, *, pods_only: bool) -> float:
        """Take a token for a write of the conditions, and return 0.0; without one, how long to wait for it. [s]"""
        tokens, burst, refill_seconds = self.conditions, NOTICE_BURST, NOTICE_REFILL_SECONDS
        if pods_only:
            tokens, burst, refill_seconds = self.pods, _PODS_BURST, _PODS_REFILL_SECONDS
        wait = tokens.wait(burst, refill_seconds, now)
        if not wait:
            tokens.take(refill_seconds, now)
        return wait

    def take_event(self, now: float) -> bool:
        """Take a token of events, if there is one."""
        if self.wait(self.events, now):
            return False
        self.take(self.events, now)
        return True


@dataclass(slots=True)
class DriftCorrection:
    """Rate limit for correcting the NodeMetric of one node when another writer changes its fields.

    A new desired state, after a change of configuration, is never delayed.
    """

    reported: bool = False  # whether an event reported another writer
    _wanted: int = 0
    _tokens: TokenBucket = field(default_factory=TokenBucket)

    def wait(self, wanted: Mapping[str, Any], now: float) -> float:
        """Return how long to wait before this is applied; 0.0 means now. [s]"""
        if hash(str(wanted)) != self._wanted:
            return 0.0
        return self._tokens.wait(_CORRECTION_BURST, _CORRECTION_REFILL_SECONDS, now)

    def applied(self, wanted: Mapping[str, Any], now: float) -> None:
        """Record that this was applied."""
        fingerprint = hash(str(wanted))
        if fingerprint != self._wanted:
            self._wanted, self._tokens, self.reported = fingerprint, TokenBucket(), False
        self._tokens.take(_CORRECTION_REFILL_SECONDS, now)


@dataclass(slots=True)
class WriteRateLimiter:
    """The rate limiter of the Mid resources of one node."""

    written: dict[Resource, int | None] = field(default_factory=dict)  # the last written amount of each resource
    reported: bool = False  # whether an event reported another writer
    tokens: TokenBucket = field(default_factory=TokenBucket)

    def write_kind(self, writes: Writes) -> WriteKind:
        """Return the direction of these writes."""
        changes = [(number, self.written[resource]) for resource, number in writes.items() if resource in self.written]
        if not changes:
            return WriteKind.FIRST
        if any((new or 0) < (old or 0) for new, old in changes):
            return WriteKind.DECREASE
        return WriteKind.REPEAT if all(new == old for new, old in changes) else WriteKind.INCREASE

    def wait(self, writes: Writes, burst: int, refill_seconds: float, now: float) -> float:
        """Return how long to wait before these writes; 0.0 means now. [s]"""
        if self.write_kind(writes) in {WriteKind.FIRST, WriteKind.DECREASE}:
            return 0.0
        return self.tokens.wait(burst, refill_seconds, now)

    def record(self, writes: Writes, refill_seconds: float, now: float) -> None:
        self.tokens.take(refill_seconds, now)
        self.written.update(writes)

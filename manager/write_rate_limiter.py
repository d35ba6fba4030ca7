"""How often one node may be written to. Pure; the clock is an argument.

The write decision alone could write for ever where somebody else changes the same numbers all the time: a kubelet that
rewrites its Node's status, another manager. A node gets a few writes at once and then one from time to time. What makes
a node offer less than was last written is never held back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headroom.runtime.token_bucket import TokenBucket
from manager.inputs import Resource

Writes = Mapping[Resource, int | None]
"""Numbers to write; `None` removes a resource. [milli-cores, bytes]"""


class WriteKind(StrEnum):
    """What a write does to what was last written."""

    FIRST = "first"
    """Nothing was written yet."""
    DECREASE = "less"
    """A resource falls, or goes."""
    INCREASE = "more"
    """A resource rises, or comes back."""
    REPEAT = "again"
    """The same numbers as last time: somebody else has changed them."""


NOTICE_BURST: Final = 10
NOTICE_REFILL_SECONDS: Final = 60.0


@dataclass(slots=True)
class ReportRateLimiter:
    """What one node's state is told with: events, and conditions that are written.

    A report that says another thing each time would otherwise be a write each time. What is held back is the state at
    that moment, never the last one: that is told when there is a token again.
    """

    events: TokenBucket = field(default_factory=TokenBucket)
    """What events about it take."""
    conditions: TokenBucket = field(default_factory=TokenBucket)
    """What writes of its conditions take."""

    @staticmethod
    def wait(tokens: TokenBucket, now: float) -> float:
        """How long the next one must wait; 0.0 means now. [s]"""
        return tokens.wait(NOTICE_BURST, NOTICE_REFILL_SECONDS, now)

    @staticmethod
    def take(tokens: TokenBucket, now: float) -> None:
        """Count one."""
        tokens.take(NOTICE_REFILL_SECONDS, now)


@dataclass(slots=True)
class WriteRateLimiter:
    """The budget of one node."""

    written: dict[Resource, int | None] = field(default_factory=dict)
    """What was last written of each resource."""
    reported: bool = False
    """Whether people were told that somebody else changes the numbers."""
    tokens: TokenBucket = field(default_factory=TokenBucket)
    """What its writes take."""

    def write_kind(self, writes: Writes) -> WriteKind:
        """What these writes would do."""
        known = [(number, self.written[each]) for each, number in writes.items() if each in self.written]
        if not known:
            return WriteKind.FIRST
        if any((new or 0) < (old or 0) for new, old in known):
            return WriteKind.DECREASE
        return WriteKind.REPEAT if all(new == old for new, old in known) else WriteKind.INCREASE

    def wait(self, writes: Writes, burst: int, refill_seconds: float, now: float) -> float:
        """How long to wait before these writes; 0.0 means now. [s]

        Args:
            writes: what would be written.
            burst: how many writes may follow one another at once.
            refill_seconds: after how long one more may follow. [s]
            now: a clock that never jumps. [s]
        """
        if self.write_kind(writes) in {WriteKind.FIRST, WriteKind.DECREASE}:
            return 0.0
        return self.tokens.wait(burst, refill_seconds, now)

    def record(self, writes: Writes, refill_seconds: float, now: float) -> None:
        """Remember what was written."""
        self.tokens.take(refill_seconds, now)
        self.written.update(writes)

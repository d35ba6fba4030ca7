"""When to report: each node at its own phase of the interval, with backoff after failures. Pure."""

import hashlib
import random
from dataclasses import dataclass, field
from typing import Final

FIRST_BACKOFF_SECONDS: Final = 1.0
"""The wait after a first failure; it doubles with each further one. [s]"""
LONGEST_OBEYED_SECONDS: Final = 300.0
"""The longest Retry-After of a server that is respected. [s]"""
_MOST_DOUBLINGS: Final = 16


def phase_of(name: str) -> float:
    """A node's place in every interval, 0 to 1: the same for ever, and evenly spread over many names."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


def until_next(now: float, interval_seconds: float, phase: float) -> float:
    """How long until the node's next moment, but at least half an interval and less than one and a half. [s]

    A thousand nodes that start, or see the API server again, at the same moment are spread over the interval by this;
    a node that is on time stays so. With an interval of 60 s and phase 0.25, the moments are 15 s past each minute: at
    12:00:20 the wait is 55 s, at 12:00:50 it is 85 s.

    Args:
        now: wall clock. [seconds since 1970]
        interval_seconds: time between two reports. [s]
        phase: the node's, see `phase_of`.
    """
    earliest = now + interval_seconds / 2
    missing = (phase * interval_seconds - earliest) % interval_seconds
    return interval_seconds / 2 + missing


@dataclass(slots=True)
class Backoff:
    """Growing waits between tries that fail."""

    longest_seconds: float
    """The longest wait, unless the server requests a longer one. [s]"""
    jitter: float
    """Each wait is longer or shorter by up to this share."""
    rng: random.Random = field(default_factory=random.Random)
    """Source of the jitter."""
    failures: int = 0
    """Tries that failed since the last good one."""

    def failed(self, retry_after_seconds: float | None = None) -> float:
        """The wait after one more failure. [s]

        Args:
            retry_after_seconds: what the server requests; the next attempt is never earlier. [s]
        """
        wait = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(self.failures, _MOST_DOUBLINGS), self.longest_seconds)
        self.failures += 1
        retry_after = min(retry_after_seconds or 0.0, LONGEST_OBEYED_SECONDS)
        if retry_after > wait:
            return retry_after * (1.0 + self.jitter * self.rng.random())
        return max(wait * (1.0 + self.jitter * self.rng.uniform(-1.0, 1.0)), retry_after)

    def succeeded(self) -> None:
        """Begin anew."""
        self.failures = 0

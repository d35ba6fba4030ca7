"""A token bucket: a burst at once, then a steady rate. Pure; the clock is an argument."""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """Each action takes a token, and time returns them one by one."""

    _spent: float = 0.0
    _counted_at: float = 0.0

    def wait(self, burst: int, refill_seconds: float, now: float) -> float:
        """Return how long to wait for a token; 0.0 means now. [s]

        Args:
            burst: how many tokens there are when none was taken.
            refill_seconds: after how long one comes back. [s]
            now: a clock that never jumps. [s]
        """
        return max(self._gone(refill_seconds, now) + 1.0 - burst, 0.0) * refill_seconds

    def left(self, burst: int, refill_seconds: float, now: float) -> int:
        return max(math.floor(burst - self._gone(refill_seconds, now)), 0)

    def take(self, refill_seconds: float, now: float) -> None:
        self._spent, self._counted_at = self._gone(refill_seconds, now) + 1.0, now

    def rested(self, refill_seconds: float, now: float) -> bool:
        """Return whether all tokens are back: so long was it quiet."""
        return self._gone(refill_seconds, now) == 0.0

    def _gone(self, refill_seconds: float, now: float) -> float:
        return max(0.0, self._spent - (now - self._counted_at) / refill_seconds)

"""Growing waits between attempts that fail."""

import random
from dataclasses import dataclass
from typing import Final

LONGEST_RETRY_AFTER_SECONDS: Final = 300.0  # the longest Retry-After of a server that is respected [s]
_RETRY_AFTER_JITTER: Final = (1.0, 1.2)
_MOST_DOUBLINGS: Final = 60


@dataclass(slots=True)
class Backoff:
    """A first wait, twice as long after each further failure in a row, up to the longest."""

    first_seconds: float  # the wait after the first failure [s]
    longest_seconds: float  # the longest wait, unless the server requests a longer one [s]
    jitter: tuple[float, float] = (1.0, 1.0)
    """Each wait is multiplied by a random number between these, so that clients do not come back together."""
    failures: int = 0

    def after(self, failures: int) -> float:
        """The wait after so many failures in a row, without jitter: at least one. [s]"""
        return min(self.first_seconds * 2.0 ** min(max(failures - 1, 0), _MOST_DOUBLINGS), self.longest_seconds)

    def failed(self, retry_after_seconds: float | None = None) -> float:
        """Count a failure; the wait after it. [s]

        Args:
            retry_after_seconds: the delay that the server requests; the next attempt is never earlier. [s]
        """
        self.failures += 1
        requested = min(retry_after_seconds or 0.0, LONGEST_RETRY_AFTER_SECONDS)
        # Clients with the same Retry-After must not come back together, either.
        later = random.uniform(*_RETRY_AFTER_JITTER) if self.jitter != (1.0, 1.0) else 1.0  # noqa: S311 - spreads clients
        return max(self.after(self.failures) * random.uniform(*self.jitter), requested * later)  # noqa: S311

    def succeeded(self) -> None:
        self.failures = 0

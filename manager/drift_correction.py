"""Rate limit for correcting a NodeMetric whose fields another writer changes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headroom.runtime.token_bucket import TokenBucket

BURST: Final = 5
"""How many corrections may follow one another at once."""
REFILL_SECONDS: Final = 60.0
"""Then one more may follow after this long. [s]"""


@dataclass(slots=True)
class DriftCorrection:
    """Drift correction of one node. A new desired state, after a change of configuration, is never delayed."""

    reported: bool = False
    """Whether an event reported another writer."""
    _wanted: int = 0
    _tokens: TokenBucket = field(default_factory=TokenBucket)

    def wait(self, wanted: Mapping[str, Any], now: float) -> float:
        """How long to wait before this is applied; 0.0 means now. [s]"""
        if hash(str(wanted)) != self._wanted:
            return 0.0
        return self._tokens.wait(BURST, REFILL_SECONDS, now)

    def applied(self, wanted: Mapping[str, Any], now: float) -> None:
        """Record that this was applied."""
        fingerprint = hash(str(wanted))
        if fingerprint != self._wanted:
            self._wanted, self._tokens, self.reported = fingerprint, TokenBucket(), False
        self._tokens.take(REFILL_SECONDS, now)

"""How often a NodeMetric may be set right again, where somebody else writes the same fields. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headroom.runtime.token_bucket import TokenBucket

BURST: Final = 5
"""So many corrections may follow one another at once."""
REFILL_SECONDS: Final = 60.0
"""Then one more may follow after this long. [s]"""


@dataclass(slots=True)
class DriftCorrection:
    """Of one node. What is wanted anew, because the configuration changed, is never held back."""

    reported: bool = False
    """Whether people were told that somebody else writes too."""
    _wanted: int = 0
    _tokens: TokenBucket = field(default_factory=TokenBucket)

    def wait(self, wanted: Mapping[str, Any], now: float) -> float:
        """How long to wait before this is applied; 0.0 means now. [s]"""
        if hash(str(wanted)) != self._wanted:
            return 0.0
        return self._tokens.wait(BURST, REFILL_SECONDS, now)

    def applied(self, wanted: Mapping[str, Any], now: float) -> None:
        """Remember that this was applied."""
        fingerprint = hash(str(wanted))
        if fingerprint != self._wanted:
            self._wanted, self._tokens, self.reported = fingerprint, TokenBucket(), False
        self._tokens.take(REFILL_SECONDS, now)

"""How often a NodeMetric may be set right again, where somebody else writes the same fields. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

BURST: Final = 5
"""So many corrections may follow one another at once."""
REFILL_SECONDS: Final = 60.0
"""Then one more may follow after this long. [s]"""


@dataclass(slots=True)
class Corrections:
    """Of one node. What is wanted anew, because the configuration changed, is never held back."""

    told: bool = False
    """Whether people were told that somebody else writes too."""
    _wanted: int = 0
    _spent: float = 0.0
    _counted_at: float = 0.0

    def wait(self, wanted: Mapping[str, Any], now: float) -> float:
        """How long to wait before this is applied; 0.0 means now. [s]"""
        if hash(str(wanted)) != self._wanted:
            return 0.0
        return max(self._left(now) + 1.0 - BURST, 0.0) * REFILL_SECONDS

    def applied(self, wanted: Mapping[str, Any], now: float) -> None:
        """Remember that this was applied."""
        fingerprint = hash(str(wanted))
        if fingerprint != self._wanted:
            self._wanted, self._spent, self.told = fingerprint, 0.0, False
        self._spent, self._counted_at = self._left(now) + 1.0, now

    def _left(self, now: float) -> float:
        return max(0.0, self._spent - (now - self._counted_at) / REFILL_SECONDS)

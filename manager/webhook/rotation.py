"""Which certificate is due, and what is to be done about it. No I/O; the clock is an argument.

Trust is widened first (the API servers believe the old authority and the new one), then the certificate is switched,
and trust is narrowed when every replica must have switched, too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from manager.webhook.certificates import LIFETIME_SECONDS, Facts, Pair, UnusableError, facts, read

RENEW_BEFORE_SECONDS: Final = LIFETIME_SECONDS / 3
"""A certificate is replaced when it has no longer than this to live: time enough for a manager that is away. [s]"""
OVERLAP_SECONDS: Final = 3600.0
"""How long the old authority stays trusted beside the new one: far longer than a replica takes to notice. [s]"""
_SLACK_SECONDS: Final = 86400.0


class Step(Enum):
    """What the leader has to do with the Secret."""

    NOTHING = "nothing"
    ISSUE = "issue"
    """Make a new certificate."""
    NARROW = "narrow"
    """Trust no authority but that of the certificate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and with what."""

    step: Step
    """What to do."""
    reason: str = ""
    """Why, as the end of a sentence."""
    pair: Pair | None = None
    """What the Secret holds, where that can be served."""


def plan(secret: Mapping[str, Any] | None, names: Collection[str], now: float) -> Plan:
    """What the leader has to do.

    Args:
        secret: the Secret; `None` when there is none.
        names: what the certificate must be for.
        now: the time. [unix s]
    """
    if secret is None:
        return Plan(Step.ISSUE, "there is none yet")
    try:
        pair = read(secret.get("data"))
    except UnusableError as error:
        return Plan(Step.ISSUE, str(error))
    found = facts(pair)
    reason = _due(found, names, now)
    if reason:
        return Plan(Step.ISSUE, reason, pair)
    if found.authorities > 1 and now - found.issued > OVERLAP_SECONDS:
        return Plan(Step.NARROW, "every replica has the new certificate", pair)
    return Plan(Step.NOTHING, pair=pair)


def _due(found: Facts, names: Collection[str], now: float) -> str:
    """Why a certificate must be replaced; empty when it need not."""
    missing = sorted(set(names) - found.names)
    if not found.signed:
        return "no authority beside it has signed it"
    if missing:
        return f"it is not for {', '.join(missing)}"
    if found.starts > now:
        return "it is not valid yet"
    if found.ends - now < RENEW_BEFORE_SECONDS:
        return f"it ends in {_days(found.ends - now)}" if found.ends > now else "it has expired"
    if found.ends - now > LIFETIME_SECONDS + _SLACK_SECONDS:
        return f"it was made for {_days(found.ends - now)} by a clock that ran ahead, or by somebody else"
    return ""


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.0f} days"

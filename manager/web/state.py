"""The state of a node, as a word for lists and a sentence with the reason. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from crds.names import CONDITION_MID_DEFICIT, CONDITION_MID_PUBLISHED
from manager.calculators.base import EXPIRED
from manager.cluster import CachedNodeMetric
from manager.mid.explanation import amounts
from manager.mid.publish import HELD
from manager.reconcile.steps.conditions import SHADOW


class State(StrEnum):
    """The states of a node, the most urgent first."""

    NOT_READY = "NotReady"
    DEFICIT = "deficit"
    SILENT = "no report"
    LATE = "late"
    EXPIRED = "expired"
    RETURNING = "returning"
    LEARNING = "learning"
    PUBLISHING = "publishing"
    NOTHING = "nothing to publish"
    SHADOW = "shadow"
    OFF = "off"
    EXCLUDED = "excluded"
    NEW = "new"


MEANINGS: Final[Mapping[State, str]] = {
    State.NOT_READY: "the Node is NotReady: new pods are not placed here; see kubectl describe node",
    State.DEFICIT: "running Mid pods requested more than may be published now",
    State.SILENT: "its agent has never reported: see the agent's pod on this node",
    State.LATE: "reports are missing: see the agent's pod on this node",
    State.EXPIRED: "its last report is too old, so nothing is published: see the agent's pod on this node",
    State.RETURNING: "reports are back; Mid resources return when they have held for midIncreaseHoldSeconds",
    State.LEARNING: "the agent has too little history for a prediction, so Prod pods count at their requests",
    State.PUBLISHING: "the Node has Mid resources",
    State.NOTHING: "the formula yields 0: the explanation shows the operand that is zero",
    State.SHADOW: "mode is shadow: calculated and accounted, not published",
    State.OFF: "colocation is disabled here: measured and predicted, not published",
    State.EXCLUDED: "--exclude-nodes or its operating system excludes this node",
    State.NEW: "no manager has reconciled it yet",
}
"""The meaning of each state, and the way out."""

DEGRADED: Final = frozenset({State.NOT_READY, State.DEFICIT, State.SILENT, State.LATE, State.EXPIRED})
"""States that need attention."""
WAITING: Final = frozenset({State.RETURNING, State.LEARNING, State.NEW})  # states that pass by themselves

_OFF: Final = "ColocationDisabled"


def assess(
    known: CachedNodeMetric | None, age: float | None, *, excluded: bool, publishes: bool, ready: bool
) -> tuple[State, str]:
    """Return the state of a node and its reason, given its cached NodeMetric and the age of its report. [s]"""
    if excluded or not ready or known is None or known.report is None or age is None:
        return _plain(State.EXCLUDED if excluded else State.SILENT if ready else State.NOT_READY)
    conditions = known.conditions
    published, deficit = conditions.get(CONDITION_MID_PUBLISHED), conditions.get(CONDITION_MID_DEFICIT)
    reason = published.reason if published else ""
    if deficit is not None and deficit.status == "True":
        return _plain(State.DEFICIT)
    if reason in EXPIRED:
        return (
            State.EXPIRED,
            f"no report for {amounts.age(age)}: nothing is published; see the agent's pod on this node",
        )
    if age > known.prediction_summary.silent_after:
        return State.LATE, f"no report for {amounts.age(age)}: see the agent's pod on this node"
    if not known.report.collecting:
        return State.LATE, "the agent reports that it cannot measure this node: see condition Collecting"
    return _of_condition(known, reason, published=published is not None, publishes=publishes)


def _of_condition(known: CachedNodeMetric, reason: str, *, published: bool, publishes: bool) -> tuple[State, str]:
    fixed = {_OFF: State.OFF, SHADOW: State.SHADOW, HELD: State.RETURNING}
    if reason in fixed:
        return _plain(fixed[reason])
    if publishes:
        return _plain(State.PUBLISHING)
    if not published:
        return _plain(State.NEW)
    if not known.report or not known.report.prediction_ready:
        why = f" ({known.prediction_summary.reason})" if known.prediction_summary.reason else ""
        return State.LEARNING, f"{MEANINGS[State.LEARNING]}{why}"
    return _plain(State.NOTHING)


def _plain(state: State) -> tuple[State, str]:
    return state, MEANINGS[state]

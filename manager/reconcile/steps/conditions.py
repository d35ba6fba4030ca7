"""Two conditions on the NodeMetric: whether the Node offers what the formula allows, and whether too much was bought.

They are applied under our name, so the agent's conditions beside them are never touched; and only when a status or a
reason changes, so their numbers are those of that moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from crds import names
from headroom.kube import ApiError, paths
from manager import node_metric
from manager.calculators.base import Result
from manager.cluster import CachedCondition
from manager.context import Context, Run
from manager.definition import DefinitionFields
from manager.inputs import Amounts
from manager.mid.publish import HELD
from manager.reconcile.steps.step import ReconcileResult
from manager.server_side_apply import apply
from manager.write_rate_limiter import ReportRateLimiter

Json = dict[str, Any]

SHADOW: Final = "Shadow"
"""Reason for publishing nothing: that is what `mode: shadow` asks for."""
_FIELD: Final = "status.conditions"
_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConditionState:
    """The state of one condition."""

    type: str
    """What it is about."""
    holds: bool
    """Whether it is true."""
    reason: str
    """One CamelCase word for programs."""
    message: str
    """A sentence for people, with the way out."""

    @property
    def status(self) -> str:
        """True or False, as Kubernetes writes it."""
        return str(self.holds)


def published(result: Result, *, shadow: bool, held: bool = False) -> ConditionState:
    """Whether the Node offers what the formula allows.

    Args:
        result: what it says.
        shadow: whether nothing is written to the Node.
        held: whether what may be sold waits, because reports were too old before.
    """
    name = names.CONDITION_MID_PUBLISHED
    kept = f" The Node goes on offering the {_words(result.desired)} that running Mid pods bought." * bool(
        result.desired
    )
    if result.degraded is not None:
        return ConditionState(name, False, result.degraded.reason, f"{_sentence(result.degraded.message)}{kept}")
    if shadow:
        message = (
            f"mode is shadow: {_words(result.calculated)} could be sold, and nothing is written to the Node; "
            "`kubectl headroom shadow` shows the account. Set mode to active to sell them."
        )
        return ConditionState(name, False, SHADOW, f"{_sentence(message)}{kept}")
    if held:
        message = (
            f"reports have come back: {_words(result.calculated)} could be sold, and are offered when that has held "
            "midIncreaseHoldSeconds."
        )
        return ConditionState(name, False, HELD, _sentence(message))
    could = f"{_words(result.calculated)} could be sold when this began"
    message = f"{could}; `kubectl headroom explain node` says how much it is now."
    return ConditionState(name, True, "Published", message)


def deficit(result: Result) -> ConditionState:
    """Whether running Mid pods bought more than may be sold."""
    name = names.CONDITION_MID_DEFICIT
    if not result.deficit:
        return ConditionState(name, False, "NoDeficit", "Running Mid pods bought no more than may be sold.")
    message = (
        f"Running Mid pods bought {_words(result.requested)}, {_words(result.deficit)} more than may be sold. "
        "No further ones are placed here; it ends when some of them end, when Prod pods use less, or by eviction "
        "(midEviction in the colocation config)."
    )
    return ConditionState(name, True, "Deficit", message)


def _words(amounts: Amounts | None) -> str:
    found = amounts or Amounts()
    return f"{found.cpu}m CPU and {found.memory // _MEBIBYTE}Mi memory"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def as_json(
    states: Sequence[ConditionState],
    known: Mapping[str, CachedCondition],
    seen: Mapping[str, CachedCondition],
    now: float,
) -> list[Json] | None:
    """The conditions to apply; `None` when all are there with the same status and reason.

    Args:
        states: what is the case.
        known: our conditions as they stand.
        seen: as they last were, also those that are not there any more; one whose status stays keeps its time.
        now: the time. [unix s]
    """
    before = {each.type: known.get(each.type) for each in states}
    if all((old := before[each.type]) and (old.status, old.reason) == (each.status, each.reason) for each in states):
        return None
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = []
    for each in states:
        old = seen.get(each.type)
        since = old.since if old and old.status == each.status and old.since else moment
        found.append(
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": since,
            }
        )
    return found


@dataclass(frozen=True, slots=True)
class NodeMetricConditions:
    """Keeps `MidPublished` and `MidDeficit` right."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Apply both conditions if one has changed."""
        context = run.context
        known = context.cluster.node_metrics.get(reconciled.name)
        if known is None:
            return None
        held = context.node_state(reconciled.name).publish_state.withdrawn
        states = (
            published(reconciled.result, shadow=reconciled.inputs.strategy.shadow, held=held),
            deficit(reconciled.result),
        )
        conditions = as_json(states, known.conditions, known.last_conditions, context.wall())
        if conditions is None or context.state_of(DefinitionFields).omitted(_FIELD, context.steady()):
            return None
        limiter = context.node_state(reconciled.name).state_of(ReportRateLimiter)
        wait = limiter.wait(limiter.conditions, context.steady())
        if wait:
            return wait
        limiter.take(limiter.conditions, context.steady())
        body = {**node_metric.identity(reconciled.name), "status": {"conditions": conditions}}
        try:
            answer = await apply(run, paths.status(node_metric.path(reconciled.name)), body)
        except ApiError as error:
            if not error.not_found:
                raise
            return None  # it was deleted meanwhile; the next look makes it again
        if answer is None:
            return None
        context.metrics.writes.labels("conditions", "patched").inc()
        # One whose deletion was told before the answer came is not brought back.
        if reconciled.name in context.cluster.node_metrics and context.cluster.put_written_node_metric(
            answer, context.steady()
        ):
            run.queue.add(reconciled.name)
        return None

    def forget(self, context: Context, name: str) -> None:
        """What the conditions say is on the NodeMetric."""

"""Two conditions on the NodeMetric: MidPublished and MidDeficit.

They are applied under the manager's field manager, so the agent's conditions are never touched; and only when a status
or a reason changes, so their numbers are those of that moment.
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
from manager.handlers.node_metric import apply
from manager.inputs import Amounts, Resource
from manager.mid.eviction import text
from manager.mid.publish import HELD
from manager.node_metric import UnknownFields
from manager.reconcile.steps.step import ReconcileResult
from manager.write_rate_limiter import ReportRateLimiter

Json = dict[str, Any]

SHADOW: Final = "Shadow"  # reason for publishing nothing: `mode: shadow`
_FIELD: Final = "status.conditions"


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A condition as it should be; the message is a sentence for people, with the remedy."""

    type: str
    holds: bool
    reason: str
    message: str

    @property
    def status(self) -> str:
        return str(self.holds)


def published(result: Result, *, shadow: bool, held: bool = False) -> ConditionState:
    """Return whether the Node has the Mid resources that the formula allows."""
    name = names.CONDITION_MID_PUBLISHED
    remaining = f" The Node keeps the {_words(result.desired)} that running Mid pods requested." * bool(result.desired)
    if result.degraded is not None:
        return ConditionState(name, False, result.degraded.reason, f"{_sentence(result.degraded.message)}{remaining}")
    if shadow:
        message = (
            f"mode is shadow: {_words(result.calculated)} could be published, and nothing is written to the Node; "
            "`kubectl headroom shadow` shows the account. Set mode to active to publish them."
        )
        return ConditionState(name, False, SHADOW, f"{_sentence(message)}{remaining}")
    if held:
        message = (
            f"reports are back: {_words(result.calculated)} could be published, and are once that has held "
            "midIncreaseHoldSeconds."
        )
        return ConditionState(name, False, HELD, _sentence(message))
    could = f"{_words(result.calculated)} could be published when this began"
    message = f"{could}; `kubectl headroom explain node` shows the current amount."
    return ConditionState(name, True, "Published", message)


def deficit(result: Result) -> ConditionState:
    """Return whether running Mid pods requested more than may be published."""
    name = names.CONDITION_MID_DEFICIT
    if not result.deficit:
        return ConditionState(name, False, "NoDeficit", "Running Mid pods request no more than may be published.")
    message = (
        f"Running Mid pods requested {text.amounts(result.requested, which=result.deficit)}, "
        f"{text.amounts(result.deficit)} more than may be published. "
        "No further ones are placed here; it ends when some of them end, when Prod pods use less, or by eviction "
        "(midEviction in the colocation config)."
    )
    return ConditionState(name, True, "Deficit", message)


def _words(amounts: Amounts | None) -> str:
    return " and ".join(text.amount((amounts or Amounts())[resource], resource) for resource in Resource)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def as_json(
    states: Sequence[ConditionState],
    known: Mapping[str, CachedCondition],
    last: Mapping[str, CachedCondition],
    now: float,
) -> list[Json] | None:
    """The conditions to apply; `None` when all are there with the same status and reason.

    Args:
        states: the conditions as they should be.
        known: our present conditions.
        last: our last conditions, also removed ones; a condition with the same status keeps its time.
        now: the time. [unix s]
    """
    current = [(old.status, old.reason) if (old := known.get(state.type)) else None for state in states]
    if current == [(state.status, state.reason) for state in states]:
        return None
    moment, result = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), []
    for state in states:
        before = last.get(state.type)
        since = before.since if before and before.status == state.status and before.since else moment
        stated = {"type": state.type, "status": state.status, "reason": state.reason, "message": state.message}
        result.append({**stated, "lastTransitionTime": since})
    return result


@dataclass(frozen=True, slots=True)
class NodeMetricConditions:
    """Writes `MidPublished` and `MidDeficit`."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Apply both conditions if one has changed."""
        context, name = run.context, reconciled.name
        known, state = context.cluster.node_metrics.get(name), context.node_state(name)
        if known is None:
            return None
        held, shadow = state.publish_state.withdrawn, reconciled.inputs.strategy.shadow
        states = (published(reconciled.result, shadow=shadow, held=held), deficit(reconciled.result))
        conditions = as_json(states, known.conditions, known.last_conditions, context.wall())
        if conditions is None or context.state_of(UnknownFields).below(_FIELD, context.steady()):
            return None
        limiter = state.state_of(ReportRateLimiter)
        wait = limiter.wait(limiter.conditions, context.steady())
        if wait:
            return wait
        limiter.take(limiter.conditions, context.steady())
        body = {**node_metric.identity(name), "status": {"conditions": conditions}}
        try:
            answer = await apply(run, paths.status(node_metric.path(name)), body)
        except ApiError as error:
            if not error.not_found:
                raise
            return None  # it was deleted meanwhile; the next reconciliation creates it again
        if answer is not None:
            context.metrics.writes.labels("conditions", "patched").inc()
            run.cache_response(name, answer)
        return None

    def forget(self, context: Context, name: str) -> None:
        """Nothing to drop: conditions are on the NodeMetric."""

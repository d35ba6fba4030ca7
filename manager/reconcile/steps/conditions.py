"""The conditions on the NodeMetric: MidPublished, MidDeficit, MidPodsLimited and, under `hotNodes`, NodeHot.

They are applied under the manager's field manager, so the agent's conditions are never touched; and only when a status,
a reason or a named pod changes, so their numbers are those of that moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from crds import names
from headroom.kube import ApiError, paths
from manager import node_metric
from manager.calculators.base import Result
from manager.cluster import CachedCondition, pod_keys
from manager.context import Context, Run
from manager.handlers.node_metric import apply
from manager.hot_nodes.decision import NodeHeat, Reason
from manager.hot_nodes.text import sentence
from manager.inputs import Amounts, Resource
from manager.mid.eviction import text
from manager.mid.pod_limits import PodLimits
from manager.mid.publish import HELD
from manager.node_metric import UnknownFields
from manager.reconcile.steps.step import ReconcileResult
from manager.write_rate_limiter import ReportRateLimiter

Json = dict[str, Any]

SHADOW: Final = "Shadow"  # reason for publishing nothing: `mode: shadow`
_FIELD: Final = "status.conditions"
_MOST_NAMES: Final = 10  # pods of each kind in a message


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A condition as it should be; the message is a sentence for people, with the remedy."""

    type: str
    holds: bool
    reason: str
    message: str
    pods: frozenset[str] = frozenset()  # the pods that the message names

    @property
    def status(self) -> str:
        return str(self.holds)

    def is_in(self, known: Mapping[str, CachedCondition]) -> bool:
        """Return whether the condition is there with the same status, reason and pods."""
        old = known.get(self.type)
        return old is not None and (old.status, old.reason, old.pods) == (self.status, self.reason, self.pods)


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


def pods_limited(limits: PodLimits) -> ConditionState:
    """Return whether the running Mid pods have native limits, and used at most their requests."""
    name = names.CONDITION_MID_PODS_LIMITED
    sentences, reasons = [], []
    if limits.unlimited:
        reasons.append("WithoutLimits")
        sentences.append(
            f"{len(limits.unlimited)} without native limits, which kubelet lets use all that is idle: "
            f"{_listed(limits.unlimited_texts())}."
        )
    if limits.beyond:
        reasons.append("BeyondRequests")
        sentences.append(f"{len(limits.beyond)} that used more than requested: {_listed(limits.beyond_texts())}.")
    if reasons:
        message = f"Mid pods: {' '.join(sentences)}"
        return ConditionState(name, False, "And".join(reasons), message, pod_keys(message))
    message = "Each running Mid pod has native limits, and used at most its requests in the last report."
    return ConditionState(name, True, "Limited", message)


def hot(heat: NodeHeat) -> tuple[ConditionState, ...]:
    """Return whether the node is hot; nothing where `hotNodes` is off."""
    reason = heat.decision.reason
    if reason is Reason.OFF:
        return ()
    return (ConditionState(names.CONDITION_NODE_HOT, reason.hot, reason.value, sentence(reason, heat.load)),)


def _listed(texts: Sequence[str]) -> str:
    rest = len(texts) - _MOST_NAMES
    return ", ".join(texts[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _words(amounts: Amounts | None) -> str:
    return " and ".join(text.amount((amounts or Amounts())[resource], resource) for resource in Resource)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def as_json(states: Sequence[ConditionState], last: Mapping[str, CachedCondition], now: float) -> list[Json]:
    """The conditions to apply.

    Args:
        states: the conditions as they should be.
        last: our last conditions, also removed ones; a condition with the same status keeps its time.
        now: the time. [unix s]
    """
    moment, result = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), []
    for state in states:
        before = last.get(state.type)
        since = before.since if before and before.status == state.status and before.since else moment
        stated = {"type": state.type, "status": state.status, "reason": state.reason, "message": state.message}
        result.append({**stated, "lastTransitionTime": since})
    return result


@dataclass(frozen=True, slots=True)
class NodeMetricConditions:
    """Writes the conditions of the manager."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Apply all conditions if one has changed."""
        context, name = run.context, reconciled.name
        known, state = context.cluster.node_metrics.get(name), context.node_state(name)
        if known is None:
            return None
        held, shadow = state.publish_state.withdrawn, reconciled.inputs.strategy.shadow
        states = (
            published(reconciled.result, shadow=shadow, held=held),
            deficit(reconciled.result),
            pods_limited(reconciled.pod_limits),
            *hot(state.state_of(NodeHeat)),
        )
        changed = {wanted.type for wanted in states if not wanted.is_in(known.conditions)}
        changed |= known.conditions.keys() - {wanted.type for wanted in states}
        if not changed or context.state_of(UnknownFields).below(_FIELD, context.steady()):
            return None
        limiter = state.state_of(ReportRateLimiter)
        wait = limiter.take_conditions(context.steady(), pods_only=changed == {names.CONDITION_MID_PODS_LIMITED})
        if wait:
            return wait
        conditions = as_json(states, known.last_conditions, context.wall())
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

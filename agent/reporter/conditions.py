"""The conditions of a NodeMetric: what keeps this node from being measured or predicted, and what can be done. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.pods import PodRef
from agent.prediction.readiness import Readiness
from agent.reporter.times import timestamp
from agent.reporter.usage import Usages
from agent.samples import CPU, MEMORY, Missing
from crds.meta import Condition
from crds.names import CONDITION_COLLECTING, CONDITION_PREDICTION_READY

MEASURING: Final = "Measuring"
"""The node and its pods are measured."""
NODE_NOT_MEASURED: Final = "NodeNotMeasured"
"""The node's own usage is not known."""
STORE_FAILING: Final = "StoreFailing"
"""What is measured cannot be kept."""
MEMORY_CONTROLLER_MISSING: Final = "MemoryControllerMissing"
"""The kernel does not account for the memory of pods."""
PODS_NOT_MEASURED: Final = "PodsNotMeasured"
"""Some pods, or all, are not measured."""
PODS_UNKNOWN: Final = "PodsUnknown"
"""Which pods run here could not be learned."""
PODS_UNLISTED: Final = "PodsUnlisted"
"""Pods run here that are on no list."""
STEP_FAILING: Final = "StepFailing"
"""A part of collecting or learning fails that none of the others names."""

STORE_STEPS: Final = ("database", "store", "maintain", "save", "size")
"""Steps of a tick that only fail when the database does."""
NO_MEMORY_CONTROLLER: Final = "no-memory-controller"
"""Why a pod's memory is missing where the kernel lacks the controller (`agent.collectors.pod`)."""
MOST_NAMES: Final = 10
"""At most so many pods are named."""
_UNLISTED_SECONDS: Final = 60.0
"""A pod that is not listed for less is on its way onto the list, or out. [s]"""


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """What went wrong lately, beside what the usages and the prediction say themselves."""

    failing: Mapping[str, str] = field(default_factory=dict)
    """Steps of a tick whose last run failed, and why."""
    missing: Sequence[Missing] = ()
    """What the last tick should have had, and has not."""
    pods_unknown: str = ""
    """Why it is not known which pods run here; empty when it is."""
    problems: Sequence[str] = ()
    """Sentences about what else is wrong: the spec, the cluster's definition, a list of pods that is not current."""


@dataclass(frozen=True, slots=True)
class ConditionContext:
    """The conditions as reported before, and the observed generation."""

    previous: Sequence[Condition] = ()
    """The conditions as last reported: one whose status stays keeps its time."""
    generation: int | None = None
    """Version of the NodeMetric's spec that is obeyed."""


@dataclass(frozen=True, slots=True)
class ConditionState:
    """The state of one condition."""

    ok: bool
    """Whether all is well enough to go on."""
    reason: str
    """One CamelCase word for programs."""
    message: str
    """A sentence for people."""


def conditions(
    now: float,
    usages: Usages,
    readiness: Readiness,
    present: Sequence[PodRef],
    collection: CollectionStatus,
    context: ConditionContext,
) -> tuple[Condition, ...]:
    """`Collecting` and `PredictionReady`.

    Args:
        now: the time. [seconds since 1970]
        usages: what was used lately.
        readiness: whether the prediction can be relied upon.
        present: the pods on this node, without terminal ones.
        collection: what went wrong lately.
        context: what was reported before.
    """
    ready = ConditionState(readiness.ready, readiness.reason, readiness.message)
    return (
        condition(now, CONDITION_COLLECTING, _collecting(now, usages, present, collection), context),
        condition(now, CONDITION_PREDICTION_READY, ready, context),
    )


def condition(now: float, name: str, state: ConditionState, context: ConditionContext) -> Condition:
    """A condition; its time is kept from the previous one of that name when the status did not change."""
    status = "True" if state.ok else "False"
    before = next((one for one in context.previous if one.type == name and one.status == status), None)
    since = before.last_transition_time if before is not None else None
    return Condition(name, status, state.reason, state.message, since or timestamp(now), context.generation)


def _collecting(now: float, usages: Usages, present: Sequence[PodRef], collection: CollectionStatus) -> ConditionState:
    """The worst of what is wrong gives the reason; everything else that is wrong is added to the message."""
    found = [
        *_node(usages),
        *_store(collection.failing),
        *_memory_controller(collection.missing),
        *_pods_unknown(collection.pods_unknown),
        *_pods(usages, present, collection.missing),
        *_unlisted(now, present),
        *_steps(collection.failing),
    ]
    if not found:
        count = sum(one.running for one in present)
        found = [
            ConditionState(
                ok=True, reason=MEASURING, message=f"The node and all of its {count} running pods are measured."
            )
        ]
    sentences = [*(one.message for one in found), *collection.problems]
    return ConditionState(all(one.ok for one in found), found[0].reason, " ".join(sentences))


def _node(usages: Usages) -> list[ConditionState]:
    lacking = [resource for resource in (CPU, MEMORY) if resource not in usages.node]
    if not lacking:
        return []
    message = f"The node's {' and '.join(lacking)} could not be measured lately; the agent's log says why."
    return [ConditionState(ok=False, reason=NODE_NOT_MEASURED, message=message)]


def _store(failing: Mapping[str, str]) -> list[ConditionState]:
    why = next((failing[step] for step in STORE_STEPS if step in failing), None)
    if why is None:
        return []
    message = (
        f"The database does not work ({why}): measuring and predicting go on from memory, and what is learned "
        "meanwhile is lost when the agent restarts. Free space on its disk, or make its folder writable."
    )
    return [ConditionState(ok=False, reason=STORE_FAILING, message=message)]


def _memory_controller(missing: Sequence[Missing]) -> list[ConditionState]:
    if not any(one.reason == NO_MEMORY_CONTROLLER for one in missing):
        return []
    message = (
        "The memory of pods cannot be measured: the kernel has no memory cgroup controller. "
        "Boot the node with cgroup_enable=memory."
    )
    return [ConditionState(ok=False, reason=MEMORY_CONTROLLER_MISSING, message=message)]


def _pods_unknown(why: str) -> list[ConditionState]:
    message = f"{why[:1].upper()}{why[1:]}. Until then nothing is reclaimable."
    return [ConditionState(ok=False, reason=PODS_UNKNOWN, message=message)] if why else []


def _pods(usages: Usages, present: Sequence[PodRef], missing: Sequence[Missing]) -> list[ConditionState]:
    running = [pod for pod in present if pod.running]
    unmeasured = sorted((pod.title, pod.uid) for pod in running if pod.uid not in usages.pods)
    if not unmeasured:
        return []
    reasons = {one.entity: one.reason for one in reversed(missing)}
    named = [f"{name} ({reasons[uid]})" if uid in reasons else name for name, uid in unmeasured[:MOST_NAMES]]
    names = ", ".join(named) + (" …" if len(unmeasured) > MOST_NAMES else "")
    message = f"{len(unmeasured)} of {len(running)} pods have no CPU or no memory measured lately: {names}."
    return [ConditionState(ok=len(unmeasured) < len(running), reason=PODS_NOT_MEASURED, message=message)]


def _unlisted(now: float, present: Sequence[PodRef]) -> list[ConditionState]:
    uids = sorted(pod.uid for pod in present if not pod.listed and not 0.0 <= now - pod.created < _UNLISTED_SECONDS)
    if not uids:
        return []
    named = ", ".join(uids[:MOST_NAMES]) + (" …" if len(uids) > MOST_NAMES else "")
    message = (
        f"{len(uids)} pods have a cgroup and are not listed on this node (uid {named}): force-deleted ones, or static "
        "ones whose mirror is refused. They count as Prod without requests until they end or are listed."
    )
    return [ConditionState(ok=True, reason=PODS_UNLISTED, message=message)]


def _steps(failing: Mapping[str, str]) -> list[ConditionState]:
    others = {step: why for step, why in sorted(failing.items()) if step not in STORE_STEPS}
    message = " ".join(f"{step} fails: {why}." for step, why in others.items())
    return [ConditionState(ok=True, reason=STEP_FAILING, message=message)] if others else []

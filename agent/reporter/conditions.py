"""The conditions of a NodeMetric: what keeps this node from being measured or predicted, and what can be done. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from agent.pods import PodRef
from agent.prediction.readiness import Readiness
from agent.reporter.usage import Usages
from agent.samples import CPU, MEMORY, Missing
from crds.meta import Condition
from crds.names import CONDITION_COLLECTING, CONDITION_PREDICTION_READY

STORE_STEPS: Final = ("database", "store", "maintain", "save", "size")
"""Steps of a tick that only fail when the database does."""
SAMPLE_STEPS: Final = ("database", "store")  # those of them without which samples are not written
NO_MEMORY_CONTROLLER: Final = "no-memory-controller"
"""The reason for missing memory of a pod where the kernel lacks the controller (`agent.collectors.pod`)."""
MOST_NAMES: Final = 10  # at most so many pods are named
_UNLISTED_SECONDS: Final = 60.0  # A pod may be missing from the list for less while it starts or ends. [s]


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """Recent failures, beyond those in the usages and the prediction."""

    failing: Mapping[str, str] = field(default_factory=dict)  # failed steps of a tick and their reasons
    missing: Sequence[Missing] = ()  # the missing values of the last tick
    pods_unknown: str = ""  # why it is not known which pods run here; empty when it is
    cgroups_seen: str = ""  # the upper levels of the tree of cgroups, if it has no cgroup of any pod; else empty
    problems: Sequence[str] = ()
    """Sentences about what else is wrong: the spec, the cluster's definition, a list of pods that is not current."""
    held_back: Sequence[str] = ()  # pods with a memory usage below their need


class ConditionState(NamedTuple):
    """The state of one condition: a CamelCase word for programs and a sentence for people."""

    ok: bool
    reason: str
    message: str


def conditions(
    now: float,
    usages: Usages,
    readiness: Readiness,
    present: Sequence[PodRef],
    collection: CollectionStatus,
    previous: Sequence[Condition] = (),
    generation: int | None = None,
) -> tuple[Condition, ...]:
    """`Collecting` and `PredictionReady`.

    The worst fault of collecting gives the reason; all others are added to the message.

    `present` are the pods on this node, without terminal ones; `previous` are the conditions of the last report: one
    with the same status keeps its time; `generation` is that of the spec.
    """
    result = list(_problems(now, usages, present, collection))
    if not result:
        count = sum(collector.running for collector in present)
        message = f"The node and all of its {count} running pods are measured."
        result = [ConditionState(ok=True, reason="Measuring", message=message)]
    sentences = [*(state.message for state in result), *collection.problems]
    collecting = ConditionState(all(state.ok for state in result), result[0].reason, " ".join(sentences))
    ready = ConditionState(readiness.ready, readiness.reason, readiness.message)
    return (
        condition(now, CONDITION_COLLECTING, collecting, previous, generation),
        condition(now, CONDITION_PREDICTION_READY, ready, previous, generation),
    )


def condition(
    now: float, name: str, state: ConditionState, previous: Sequence[Condition] = (), generation: int | None = None
) -> Condition:
    """Return a condition; its time is that of the previous one of this name and status, if there is one."""
    status = "True" if state.ok else "False"
    before = next((condition for condition in previous if condition.type == name and condition.status == status), None)
    since = before.last_transition_time if before is not None else None
    return Condition(name, status, state.reason, state.message, since or timestamp(now), generation)


def timestamp(seconds: float) -> str:
    """A time [seconds since 1970] in whole seconds, as Kubernetes writes it: "2026-07-24T12:00:00Z"."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def store_problem(failing: Mapping[str, str]) -> str:
    """Return why the database fails, which data is in memory only and the way out; empty while it works."""
    step = next((step for step in STORE_STEPS if step in failing), None)
    if step is None:
        return ""
    held = "new samples and histories" if step in SAMPLE_STEPS else "histories"
    return (
        f"The database does not work ({failing[step]}). The agent goes on measuring and predicting; it keeps {held} "
        "in memory only, and loses that when it restarts. Free space on its disk, or make its folder writable."
    )


def _problems(
    now: float, usages: Usages, present: Sequence[PodRef], collection: CollectionStatus
) -> Iterator[ConditionState]:
    """Return the faults, the worst first."""
    failing, missing = collection.failing, collection.missing
    if lacking := [resource for resource in (CPU, MEMORY) if resource not in usages.node]:
        message = f"The node's {' and '.join(lacking)} could not be measured lately; the agent's log has the reason."
        yield ConditionState(ok=False, reason="NodeNotMeasured", message=message)
    if message := store_problem(failing):
        yield ConditionState(ok=False, reason="StoreFailing", message=message)
    if any(gap.reason == NO_MEMORY_CONTROLLER for gap in missing):
        message = (
            "The memory of pods cannot be measured: the kernel has no memory cgroup controller. "
            "Boot the node with cgroup_enable=memory."
        )
        yield ConditionState(ok=False, reason="MemoryControllerMissing", message=message)
    if why := collection.pods_unknown:
        message = f"{why[:1].upper()}{why[1:]}. Until then nothing is reclaimable."
        yield ConditionState(ok=False, reason="PodsUnknown", message=message)
    if collection.cgroups_seen and any(pod.running and pod.listed for pod in present):
        message = (
            "No cgroup of a pod was found: there is no kubepods or kubepods.slice with pods, or the agent sees another "
            f"machine's cgroups. The tree begins with {collection.cgroups_seen}. Until then nothing is reclaimable."
        )
        yield ConditionState(ok=False, reason="PodCgroupsNotFound", message=message)
    yield from _pods(now, usages, present, missing)
    if names := collection.held_back:
        message = (
            f"Memory usage of {len(names)} pods is below their need, because they exceed memory.high or are in swap: "
            f"{_some(names)}. They count at their request or highest usage. Raise their memory limits."
        )
        yield ConditionState(ok=True, reason="MemoryHeldBack", message=message)
    details = " ".join(f"{step} fails: {why}." for step, why in sorted(failing.items()) if step not in STORE_STEPS)
    if details:
        yield ConditionState(ok=True, reason="StepFailing", message=details)


def _pods(
    now: float, usages: Usages, present: Sequence[PodRef], missing: Sequence[Missing]
) -> Iterator[ConditionState]:
    running = [pod for pod in present if pod.running]
    if unmeasured := sorted((pod.title, pod.uid) for pod in running if pod.uid not in usages.pods):
        reasons = {gap.entity: gap.reason for gap in reversed(missing)}
        names = _some([f"{name} ({reasons[uid]})" if uid in reasons else name for name, uid in unmeasured])
        message = f"{len(unmeasured)} of {len(running)} pods have no CPU or no memory measured lately: {names}."
        yield ConditionState(ok=len(unmeasured) < len(running), reason="PodsNotMeasured", message=message)
    uids = sorted(pod.uid for pod in present if not pod.listed and not 0.0 <= now - pod.created < _UNLISTED_SECONDS)
    if uids:
        message = (
            f"{len(uids)} pods have a cgroup and are not listed on this node (uid {_some(uids)}): force-deleted ones, "
            "or static ones with a refused mirror. They count as Prod without requests until they end or are listed."
        )
        yield ConditionState(ok=True, reason="PodsUnlisted", message=message)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")

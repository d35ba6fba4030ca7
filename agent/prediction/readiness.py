"""The readiness of a prediction: the reason, and a sentence with the way out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from agent.numerics.arrays import BoolArray
from agent.pods import PodRef
from agent.prediction.policy import Policy
from agent.prediction.stated_risk import ViolationRate
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.series_index import CLASS_NAMES
from agent.trainer.trainer import Trainer
from crds.duration import format_duration

READY: Final = "Ready"  # Prod pods are predicted from history
NO_PROD_PODS: Final = "NoProdPods"  # there is nothing to reclaim
COLLECTING_HISTORY: Final = "CollectingHistory"  # no Prod pod has been observed for long enough
POLICY_REJECTED: Final = "PolicyRejected"  # the requested policy cannot be followed; another one is in force
NO_MEASUREMENTS: Final = "NoMeasurements"  # the node itself, or the system, was not measured yet


class Readiness(NamedTuple):
    """The condition `PredictionReady`: whether Reclaimable rests on enough history, a reason, a message."""

    ready: bool
    reason: str
    message: str


def evaluate_readiness(
    trainer: Trainer,
    pods: Sequence[PodRef],
    warm: BoolArray,
    evaluated: Collection[str],
    policy: Policy,
    failures: Sequence[str] = (),
    by_history: int = 0,
) -> Readiness:
    """The condition `PredictionReady`.

    `pods` exclude terminal ones; `warm` has shape (P,); `evaluated` are the resources for which Reclaimable could be
    calculated; `by_history` is the number of cold pods that count at the usage of their workload on other nodes.
    """
    missing = _missing_evidence(trainer, evaluated)
    if missing is not None:
        return missing
    if failures:
        message = f"{'; '.join(failures)}. Until it works, or another model is chosen, nothing is reclaimable."
        return Readiness(ready=False, reason="ModelFailed", message=message)
    prod = [(pod, bool(is_warm)) for pod, is_warm in zip(pods, warm, strict=True) if CLASS_NAMES[pod.band] == "prod"]
    cold = [pod for pod, is_warm in prod if not is_warm]
    if cold and len(cold) == len(prod) and not by_history:
        return Readiness(ready=False, reason=COLLECTING_HISTORY, message=_collecting(trainer, cold, policy))
    if policy.problem:
        message = f"{policy.problem}. Model {policy.policy.model} stays in force."
        return Readiness(ready=True, reason=POLICY_REJECTED, message=message)
    if not prod:
        message = "No Prod pod runs here, so there is nothing to reclaim."
        return Readiness(ready=True, reason=NO_PROD_PODS, message=message)
    reduced = f", {by_history} count at the usage of their workload on other nodes" if by_history else ""
    cold_pods = f"{reduced}, the others count at their request" if len(cold) > by_history else reduced
    message = f"{len(prod) - len(cold)} of {len(prod)} Prod pods are predicted from history{cold_pods}."
    return Readiness(ready=True, reason=READY, message=message)


def with_accuracy(readiness: Readiness, rates: Mapping[str, ViolationRate]) -> Readiness:
    """Return it with the measured accuracy in its message, where Prod pods are predicted from history."""
    if not rates or readiness.reason != READY:
        return readiness
    texts = "; ".join(f"{resource}: {rate.text}" for resource, rate in rates.items())
    return readiness._replace(message=f"{readiness.message} Usage exceeded predictions: {texts}.")


def _missing_evidence(trainer: Trainer, evaluated: Collection[str]) -> Readiness | None:
    """The reason why a resource could not be evaluated, if there is one."""
    unknown = [metric for metric in trainer.histories if metric not in evaluated]
    if unmeasured := [metric for metric in trainer.histories if not _measured(trainer, metric, NODE)]:
        reason = NO_MEASUREMENTS
        message = f"The node's {' and '.join(unmeasured)} was not measured yet; see the condition Collecting."
    elif not unknown:
        return None
    elif unknown == [MEMORY] and not _measured(trainer, MEMORY, SYS):
        reason = "MemoryControllerMissing"
        message = (
            "Memory of pods cannot be read, so no memory is reclaimable: boot the node with the memory cgroup "
            "controller (cgroup_enable=memory), or see the agent's log if it is there."
        )
    elif not _measured(trainer, CPU, SYS):
        reason = NO_MEASUREMENTS
        message = "System usage was not derived yet: every pod must be measured at least once; see the agent's log."
    else:
        reason = "NodeUnknown"
        message = f"The Node object states no allocatable {' and '.join(unknown)}, or was not seen yet."
    return Readiness(ready=False, reason=reason, message=message)


def _collecting(trainer: Trainer, cold: Sequence[PodRef], policy: Policy) -> str:
    closest = max(cold, key=lambda pod: (_observed(trainer, pod), pod.name))
    period = format_duration(policy.cold_start_seconds)
    message = (
        f"None of {len(cold)} Prod pods was observed for {period} (coldStartPeriodSeconds); the closest, "
        f"{closest.title}, for {format_duration(int(_observed(trainer, closest)))}. "
        "Until then they count at their request."
    )
    return f"{message} Also: {policy.problem}." if policy.problem else message


def _observed(trainer: Trainer, pod: PodRef) -> float:
    row = trainer.row(pod.uid)
    return 0.0 if row is None else min(float(history.observed[row]) for history in trainer.histories.values())


def _measured(trainer: Trainer, metric: str, entity: str) -> bool:
    row = trainer.row(entity)
    return row is not None and bool(trainer.histories[metric].moments.counts[row] > 0.0)

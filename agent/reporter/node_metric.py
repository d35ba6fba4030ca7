"""Numbers -> the status of a NodeMetric. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agent.numerics.aggregate import WindowStatistics, is_cold, whole
from agent.pods import PodRef, Resources
from agent.prediction import UNITS, ClassNumbers, NodePrediction
from agent.reporter.usage import Amounts, Usages, Window
from agent.samples import CPU, MEMORY
from crds.codec import to_json
from crds.duration import format_duration
from crds.meta import Condition
from crds.node_metric import (
    AGGREGATIONS,
    CLASSES,
    AggregatedUsage,
    ClassPrediction,
    Evidence,
    NodeMetricStatus,
    NodeUsage,
    PodMetric,
    PolicyInForce,
    PredictedPods,
    Prediction,
    ProdMetric,
    ResourceMap,
)
from crds.predict_policy import PredictPolicy
from crds.quantity import format_bytes, format_milli_cores

COLLECTING: Final = "Collecting"
"""Condition: whether the node and its pods are measured."""
PREDICTION_READY: Final = "PredictionReady"
"""Condition: whether what is reported as reclaimable rests on evidence."""
MOST_COLD_NAMES: Final = 10
"""At most so many cold pods are named."""
_NOTHING: Final = ClassNumbers({}, {}, {}, 0, 0)


def build_status(
    now: float,
    usages: Usages,
    prediction: NodePrediction,
    pods: Sequence[PodRef],
    *,
    previous: Sequence[Condition] = (),
    problems: Sequence[str] = (),
) -> NodeMetricStatus:
    """The full report.

    Args:
        now: the time. [seconds since 1970]
        usages: what was used lately.
        prediction: what is expected.
        pods: the pods on this node; terminal ones are left out.
        previous: the conditions as last reported: one whose status stays keeps its time.
        problems: further sentences about what is wrong, for the condition Collecting.
    """
    present = [pod for pod in pods if not pod.terminal]
    fast = prediction_status(now, usages, prediction)
    return NodeMetricStatus(
        update_time=timestamp(now),
        node_metric=NodeUsage(
            node_usage=resource_map(usages.node),
            system_usage=resource_map(usages.system),
            aggregated_node_usages=tuple(aggregated(window) for window in usages.node_windows),
            aggregated_system_usages=tuple(aggregated(window) for window in usages.system_windows),
        ),
        pods_metric=tuple(
            pod_metric(pod, usages.pods[pod.uid])
            for pod in sorted(present, key=lambda pod: (pod.namespace, pod.name))
            if pod.uid in usages.pods
        ),
        prod_reclaimable_metric=fast.prod_reclaimable_metric,
        prod_peak_metric=fast.prod_peak_metric,
        prediction=fast.prediction,
        conditions=_conditions(now, usages, prediction, present, previous, problems),
    )


def prediction_status(now: float, usages: Usages, prediction: NodePrediction) -> NodeMetricStatus:
    """The fast report: what a prediction says, and nothing else.

    A resource that cannot be judged is absent. When none can, `prodReclaimableMetric` is there but empty and
    `prodPeakMetric` is absent, as in Koordinator.
    """
    return NodeMetricStatus(
        prod_reclaimable_metric=ProdMetric(_resource_map(prediction.reclaimable))
        if prediction.reclaimable
        else ProdMetric(),
        prod_peak_metric=ProdMetric(_resource_map(prediction.prod_peak)) if prediction.prod_peak else None,
        prediction=Prediction(
            time=timestamp(now),
            policy=policy_in_force(prediction.policy),
            classes=tuple(
                _class(name, usages.classes.get(name, {}), prediction.classes.get(name, _NOTHING)) for name in CLASSES
            ),
            pods=PredictedPods(
                warm=prediction.warm, cold=len(prediction.cold), cold_names=prediction.cold[:MOST_COLD_NAMES]
            ),
        ),
    )


def resource_map(amounts: Amounts) -> ResourceMap:
    """Measured amounts as quantities, cut off to whole milli-cores and bytes: 1.9996 cores -> "1999m".

    Args:
        amounts: cpu in cores, memory in bytes; what is absent stays absent.
    """
    return ResourceMap(quantities({name: whole(value, UNITS[name]) for name, value in amounts.items()}) or None)


def quantities(amounts: Resources) -> dict[str, str]:
    """Amounts as quantities: milli-cores and bytes."""
    found = {}
    if CPU in amounts:
        found[CPU] = format_milli_cores(amounts[CPU])
    if MEMORY in amounts:
        found[MEMORY] = format_bytes(amounts[MEMORY])
    return found


def aggregated(window: Window) -> AggregatedUsage:
    """One percentile window. While it is cold (its CPU samples span less than half of it) every statistic is empty."""
    cpu = window.statistics.get(CPU)
    cold = cpu is None or is_cold(cpu.span_seconds, window.seconds)
    return AggregatedUsage(
        usage={
            name: ResourceMap() if cold else resource_map(_statistic(window.statistics, name)) for name in AGGREGATIONS
        },
        duration=format_duration(window.seconds),
    )


def pod_metric(pod: PodRef, amounts: Amounts) -> PodMetric:
    """Usage of one pod, with the band and QoS class that it has by label, number or default."""
    return PodMetric(
        name=pod.name,
        namespace=pod.namespace,
        pod_usage=resource_map(amounts),
        priority=pod.priority_label or None,
        qos=str(pod.qos) or None,
    )


def policy_in_force(policy: PredictPolicy) -> PolicyInForce:
    """The part of a policy that says which model predicts."""
    return PolicyInForce(
        model=policy.model,
        parameters=policy.parameters,
        of=None if policy.of is None else tuple(to_json(choice) for choice in policy.of),
        cpu=None if policy.cpu is None else to_json(policy.cpu),
        memory=None if policy.memory is None else to_json(policy.memory),
    )


def timestamp(now: float) -> str:
    """A time as Kubernetes writes it, whole seconds: "2026-07-24T12:00:00Z"."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(
    now: float, name: str, *, ready: bool, reason: str, message: str, previous: Sequence[Condition] = ()
) -> Condition:
    """A condition; its time is kept from the previous one of that name when the status did not change."""
    status = "True" if ready else "False"
    before = next((one for one in previous if one.type == name and one.status == status), None)
    since = before.last_transition_time if before is not None else None
    return Condition(name, status, reason, message, since or timestamp(now))


def _resource_map(amounts: Resources) -> ResourceMap:
    return ResourceMap(quantities(amounts))


def _statistic(statistics: Mapping[str, WindowStatistics], name: str) -> dict[str, float]:
    field = "average" if name == "avg" else name
    return {resource: float(getattr(found, field)) for resource, found in statistics.items()}


def _class(name: str, usage: Amounts, numbers: ClassNumbers) -> ClassPrediction:
    parts: dict[str, Any] = {
        "mean": quantities(numbers.mean) or None,
        "stdev": quantities(numbers.stdev) or None,
        "peak": quantities(numbers.peak) or None,
    }
    return ClassPrediction(
        name=name,
        usage=resource_map(usage).resources,
        evidence=Evidence(numbers.samples, numbers.span_seconds),
        **parts,
    )


def _conditions(
    now: float,
    usages: Usages,
    prediction: NodePrediction,
    present: Sequence[PodRef],
    previous: Sequence[Condition],
    problems: Sequence[str],
) -> tuple[Condition, ...]:
    ready = prediction.readiness
    return (
        _collecting(now, usages, present, previous, problems),
        condition(
            now, PREDICTION_READY, ready=ready.ready, reason=ready.reason, message=ready.message, previous=previous
        ),
    )


def _collecting(
    now: float, usages: Usages, present: Sequence[PodRef], previous: Sequence[Condition], problems: Sequence[str]
) -> Condition:
    lacking = [resource for resource in UNITS if resource not in usages.node]
    unmeasured = sorted(f"{pod.namespace}/{pod.name}" for pod in present if pod.uid not in usages.pods)
    if lacking:
        reason = "NodeNotMeasured"
        message = f"The node's {' and '.join(lacking)} could not be measured lately; the agent's log says why."
    elif unmeasured:
        reason = "PodsNotMeasured"
        names = ", ".join(unmeasured[:MOST_COLD_NAMES]) + (" …" if len(unmeasured) > MOST_COLD_NAMES else "")
        message = f"{len(unmeasured)} of {len(present)} pods have no CPU or no memory measured lately: {names}."
    else:
        reason, message = "Measuring", f"The node and all of its {len(present)} pods are measured."
    text = " ".join([message, *problems])
    return condition(now, COLLECTING, ready=not lacking, reason=reason, message=text, previous=previous)

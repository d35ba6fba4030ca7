"""Numbers -> the status of a NodeMetric. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agent.numerics.aggregate import WindowStatistics, is_cold, whole
from agent.pods import PodRef, Resources
from agent.prediction.node import UNITS, ClassNumbers, NodePrediction
from agent.prediction.reclaimable import ReclaimableTerms
from agent.reporter.conditions import timestamp
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
    ExclusiveCpus,
    NodeMetricStatus,
    NodeUsage,
    PodMetric,
    PolicyInForce,
    PredictedPods,
    Prediction,
    ProdMetric,
    ReclaimableInputs,
    ResourceMap,
    Summary,
)
from crds.predict_policy import PredictPolicy
from crds.quantity import format_bytes, format_milli_cores, short_bytes, short_milli_cores
from headroom.cluster.cpu_list import format_cpus

MOST_COLD_NAMES: Final = 10  # at most so many cold pods are named
NO_EXTENSIONS: Final[Mapping[str, Mapping[str, Any]]] = {}  # no further fields of any pod
_TEXTS: Final = {CPU: format_milli_cores, MEMORY: format_bytes}
_NOTHING: Final = ClassNumbers({}, {}, {}, 0, 0)


def build_status(
    usages: Usages,
    prediction: NodePrediction,
    pods: Sequence[PodRef],
    *,
    as_of: float | None,
    predicted_as_of: float | None,
    conditions: Sequence[Condition] = (),
    extensions: Mapping[str, Mapping[str, Any]] = NO_EXTENSIONS,
    exclusive: Collection[int] = (),
) -> NodeMetricStatus:
    """The full report.

    `exclusive` are the CPUs that only some containers may use.
    `as_of` is when the node was last measured, `predicted_as_of` up to when the prediction knows what happened.
    [seconds since 1970]
    """
    fast = fast_status(usages, prediction, predicted_as_of=predicted_as_of, conditions=conditions, exclusive=exclusive)
    return replace(
        fast,
        update_time=None if as_of is None else timestamp(as_of),
        node_metric=NodeUsage(
            node_usage=resource_map(usages.node),
            system_usage=resource_map(usages.system),
            aggregated_node_usages=tuple(aggregated(window) for window in usages.node_windows),
            aggregated_system_usages=tuple(aggregated(window) for window in usages.system_windows),
        ),
        pods_metric=tuple(
            pod_metric(pod, usages.pods[pod.uid], extensions.get(pod.uid))
            for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name))
            if pod.uid in usages.pods and not pod.terminal
        ),
    )


def fast_status(
    usages: Usages,
    prediction: NodePrediction,
    *,
    predicted_as_of: float | None,
    conditions: Sequence[Condition] = (),
    exclusive: Collection[int] = (),
) -> NodeMetricStatus:
    """The fast report: the prediction and the conditions, and nothing else.

    A resource that cannot be evaluated is absent. When none can, `prodReclaimableMetric` is there but empty and
    `prodPeakMetric` is absent, as in Koordinator.
    """
    return NodeMetricStatus(
        prod_reclaimable_metric=_prod_metric(prediction.reclaimable) or ProdMetric(),
        prod_peak_metric=_prod_metric(prediction.prod_peak),
        prediction=Prediction(
            time=None if predicted_as_of is None else timestamp(predicted_as_of),
            policy=policy_in_force(prediction.policy),
            classes=tuple(
                _class(name, usages.classes.get(name, {}), prediction.classes.get(name, _NOTHING)) for name in CLASSES
            ),
            pods=PredictedPods(
                warm=prediction.warm,
                cold=len(prediction.cold),
                cold_names=prediction.cold[:MOST_COLD_NAMES],
                by_history=sum(prediction.by_history.values()) or None,
                by_history_workloads=tuple(sorted(prediction.by_history))[:MOST_COLD_NAMES] or None,
                held_back_names=prediction.held_back[:MOST_COLD_NAMES] or None,
            ),
            reclaimable=_bounds({name: terms for name, terms in prediction.terms.items() if not terms.by_model}),
            summary=summary(usages, prediction),
            exclusive_cpus=_exclusive_cpus(exclusive, usages.exclusive),
        ),
        conditions=tuple(conditions),
    )


def resource_map(amounts: Amounts) -> ResourceMap:
    """Measured amounts (cores, bytes) as quantities, cut off to milli-cores and bytes: 1.9996 cores -> "1999m"."""
    return ResourceMap(quantities({name: whole(value, UNITS[name]) for name, value in amounts.items()}) or None)


def quantities(amounts: Resources) -> dict[str, str]:
    """Amounts as quantities: milli-cores and bytes."""
    return {name: text(amounts[name]) for name, text in _TEXTS.items() if name in amounts}


def summary(usages: Usages, prediction: NodePrediction) -> Summary:
    """Return the report for people: memory has two or three digits; CPU and memory share a text."""
    used = usages.node.get(MEMORY)
    return Summary(
        memory=None if used is None else short_bytes(whole(used, UNITS[MEMORY])),
        prod_peak=_pair(prediction.prod_peak),
        reclaimable=_pair(prediction.reclaimable),
    )


def _pair(amounts: Resources | None) -> str | None:
    """CPU and memory, as in "5000m/19Gi"; a dash for what cannot be evaluated, nothing where neither can."""
    if not amounts:
        return None
    cpu, memory = amounts.get(CPU), amounts.get(MEMORY)
    return f"{'-' if cpu is None else short_milli_cores(cpu)}/{'-' if memory is None else short_bytes(memory)}"


def aggregated(window: Window) -> AggregatedUsage:
    """A percentile window. While it is cold (its CPU samples span less than half of it) every statistic is empty."""
    cpu = window.statistics.get(CPU)
    cold = cpu is None or is_cold(cpu.span_seconds, window.seconds)
    result = {
        name: ResourceMap() if cold else resource_map(_statistic(window.statistics, name)) for name in AGGREGATIONS
    }
    return AggregatedUsage(usage=result, duration=format_duration(window.seconds))


def pod_metric(pod: PodRef, amounts: Amounts, extensions: Mapping[str, Any] | None = None) -> PodMetric:
    """Usage of one pod, with the band and QoS class that it has by label, number or default."""
    return PodMetric(
        name=pod.name,
        namespace=pod.namespace,
        pod_usage=resource_map(amounts),
        priority=pod.priority_label or None,
        qos=str(pod.qos) or None,
        extensions=extensions,
    )


def policy_in_force(policy: PredictPolicy) -> PolicyInForce:
    """The part of a policy that selects the model."""
    return PolicyInForce(
        model=policy.model,
        parameters=policy.parameters,
        of=None if policy.of is None else tuple(to_json(choice) for choice in policy.of),
        cpu=None if policy.cpu is None else to_json(policy.cpu),
        memory=None if policy.memory is None else to_json(policy.memory),
    )


def _exclusive_cpus(cpus: Collection[int], usage: Amounts) -> ExclusiveCpus | None:
    """Return the exclusive CPUs and their usage, which is at most all of them; None where there are none."""
    used = {name: min(cores, float(len(cpus))) for name, cores in usage.items()}
    return ExclusiveCpus(format_cpus(cpus), resource_map(used).resources) if cpus else None


def _bounds(terms: Mapping[str, ReclaimableTerms]) -> ReclaimableInputs | None:
    """Return the inputs of Reclaimable; none where a model has a rule of its own."""
    if not terms:
        return None
    fields = ("requested", "prod_peak", "system_extra", "slack")
    return ReclaimableInputs(
        *(quantities({name: whole(getattr(term, field), 1) for name, term in terms.items()}) for field in fields)
    )


def _prod_metric(amounts: Resources) -> ProdMetric | None:
    return ProdMetric(ResourceMap(quantities(amounts))) if amounts else None


def _statistic(statistics: Mapping[str, WindowStatistics], name: str) -> dict[str, float]:
    field = "average" if name == "avg" else name
    return {resource: float(getattr(result, field)) for resource, result in statistics.items()}


def _class(name: str, usage: Amounts, numbers: ClassNumbers) -> ClassPrediction:
    return ClassPrediction(
        name=name,
        usage=resource_map(usage).resources,
        mean=quantities(numbers.mean) or None,
        stdev=quantities(numbers.stdev) or None,
        peak=quantities(numbers.peak) or None,
        evidence=Evidence(numbers.samples, numbers.span_seconds),
    )

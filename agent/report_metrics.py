"""What /metrics shows of reports, models and accuracy. A number that is not known any more is not shown any more."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from prometheus_client import Gauge

from agent.metrics import Metrics
from agent.numerics.arrays import FloatArray
from agent.pods import Resources
from agent.prediction.accuracy import Accuracy
from agent.prediction.node import PROD, UNITS, NodePrediction, NodeResources
from agent.reporter.pressure import Pressure
from agent.reporter.usage import Amounts, Usages
from agent.samples import CPU, MEMORY
from agent.trainer.trainer import Trainer
from agent.tsdb.tsdb import StoreSize
from crds.predict_policy import Resource, effective
from crds.priority import PriorityBand

_UNIT_NAMES: Final[Mapping[str, str]] = {CPU: "core", MEMORY: "byte"}
_RESOURCES: Final[tuple[Resource, ...]] = ("cpu", "memory")
_STATS: Final = {"min": 0.0, "median": 0.5, "max": 1.0}


def show_report(metrics: Metrics, usages: Usages, prediction: NodePrediction, node: NodeResources) -> None:
    """Show what a full report says, in cores and bytes."""
    _fresh(metrics.usage, metrics.peak, metrics.reclaimable, metrics.node_cpu, metrics.node_memory)
    for name, amounts in usages.classes.items():
        for resource, value in amounts.items():
            metrics.usage.labels(name, resource).set(value)
    for name, numbers in prediction.classes.items():
        for resource, peak in _in_units(numbers.peak).items():
            metrics.peak.labels(name, resource).set(peak)
    for resource, amount in _in_units(prediction.reclaimable).items():
        metrics.reclaimable.labels(resource).set(amount)
    metrics.pods.labels("warm").set(prediction.warm)
    metrics.pods.labels("cold").set(len(prediction.cold))
    for resource, gauge in ((CPU, metrics.node_cpu), (MEMORY, metrics.node_memory)):
        if resource in usages.node:
            gauge.labels(metrics.node).set(usages.node[resource])
    _amounts(metrics.node_usage, metrics.node, usages.node)
    _amounts(metrics.system_usage, metrics.node, usages.system)
    _amounts(metrics.allocatable, metrics.node, _in_units(node.allocatable))
    _show_predicted(metrics, prediction)


def show_pressure(metrics: Metrics, pressure: Pressure) -> None:
    """Show how long tasks waited; of the pods the worst alone, because a label per pod would be a series per pod."""
    _fresh(metrics.node_pressure, metrics.pod_pressure, metrics.pod_throttled)
    for (resource, kind), share in pressure.node.items():
        metrics.node_pressure.labels(metrics.node, resource, kind).set(share)
    for resource, shares in pressure.pods.items():
        if shares:
            metrics.pod_pressure.labels(metrics.node, resource).set(max(shares.values()))
    if pressure.throttled:
        metrics.pod_throttled.labels(metrics.node).set(max(pressure.throttled.values()))


def show_store(metrics: Metrics, size: StoreSize) -> None:
    """Show how large the store is, and what it lost."""
    metrics.store_bytes.set(size.file_bytes)
    metrics.store_used.set(size.used_bytes)
    metrics.store_series.set(size.series)
    metrics.store_head.set(size.head_ticks)
    metrics.store_unwritten.set(size.unwritten_ticks)
    metrics.store_set_aside.set(size.set_aside)
    metrics.store_damaged.set(size.damaged_chunks)
    metrics.store_dropped.set(size.dropped_blocks)


def show_training(metrics: Metrics, trainer: Trainer) -> None:
    """Show how many models there are, how much they have seen, and how long ago they learned."""
    _fresh(metrics.models, metrics.model_samples, metrics.model_observed, metrics.model_age)
    now = trainer.trained_until or 0.0
    for kind, rows in trainer.rows_by_kind().items():
        histories = trainer.histories.values()
        samples: FloatArray = np.min([history.moments.counts[rows] for history in histories], axis=0)
        observed: FloatArray = np.min([history.observed[rows] for history in histories], axis=0)
        last: FloatArray = np.max([history.last[rows] for history in histories], axis=0)
        metrics.models.labels(kind).set(rows.size)
        metrics.model_samples.labels(kind).set(float(samples.sum()))
        for stat, share in _STATS.items():
            metrics.model_observed.labels(kind, stat).set(float(np.quantile(observed, share)))
        learned = last[np.isfinite(last)]
        if learned.size:
            metrics.model_age.labels(kind).set(max(now - float(learned.min()), 0.0))


def show_accuracy(metrics: Metrics, accuracy: Accuracy) -> None:
    """Show how good the predictions were; what cannot be judged yet is not shown."""
    _fresh(metrics.judged, metrics.exceeded, metrics.mean_excess, metrics.worst_excess)
    for resource, horizon, score in accuracy.scores():
        labels = PROD, resource, horizon
        metrics.judged.labels(*labels).set(score.judged)
        metrics.exceeded.labels(*labels).set(score.exceeded / score.judged)
        metrics.mean_excess.labels(*labels).set(score.mean_excess)
        metrics.worst_excess.labels(*labels).set(score.worst_excess)


def _show_predicted(metrics: Metrics, prediction: NodePrediction) -> None:
    gauges = metrics.predicted_reclaimable, metrics.predicted_peak, metrics.priority_reclaimable
    _fresh(*gauges)
    reclaimable, peaks = _in_units(prediction.reclaimable), _in_units(prediction.prod_peak)
    band = str(PriorityBand.PROD)
    for resource in _RESOURCES:
        model, unit = effective(prediction.policy, resource).model, _UNIT_NAMES[resource]
        if resource in reclaimable:
            metrics.predicted_reclaimable.labels(metrics.node, model, resource, unit).set(reclaimable[resource])
            metrics.priority_reclaimable.labels(metrics.node, band, resource, unit).set(reclaimable[resource])
        if resource in peaks:
            metrics.predicted_peak.labels(metrics.node, model, resource, unit).set(peaks[resource])
    failed = any(resource not in reclaimable for resource in _RESOURCES)
    metrics.reclaimable_status.labels(metrics.node, band).set(float(failed))


def _amounts(gauge: Gauge, node: str, amounts: Amounts) -> None:
    _fresh(gauge)
    for resource, value in amounts.items():
        gauge.labels(node, resource, _UNIT_NAMES[resource]).set(value)


def _in_units(amounts: Resources) -> dict[str, float]:
    return {resource: amount / UNITS[resource] for resource, amount in amounts.items()}


def _fresh(*gauges: Gauge) -> None:
    for gauge in gauges:
        gauge.clear()

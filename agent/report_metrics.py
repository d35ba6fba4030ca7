"""Metrics of reports, models and accuracy. A number that becomes unknown is removed."""

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
from agent.reporter.usage import Usages
from agent.samples import CPU, MEMORY
from agent.trainer.trainer import Trainer
from agent.tsdb.tsdb import StoreSize
from crds.predict_policy import Resource, effective
from crds.priority import PriorityBand

_UNIT_NAMES: Final[Mapping[str, str]] = {CPU: "core", MEMORY: "byte"}
_RESOURCES: Final[tuple[Resource, ...]] = ("cpu", "memory")
_BAND: Final = str(PriorityBand.PROD)
_STATS: Final = {"min": 0.0, "median": 0.5, "max": 1.0}


def show_report(metrics: Metrics, usages: Usages, prediction: NodePrediction, node: NodeResources) -> None:
    """Show the values of a full report, in cores and bytes."""
    name, reclaimable = (metrics.node,), _in_units(prediction.reclaimable)
    peaks = {of: _in_units(numbers.peak) for of, numbers in prediction.classes.items()}
    _show(metrics.usage, {(of, resource): used for of, one in usages.classes.items() for resource, used in one.items()})
    _show(metrics.peak, {(of, resource): peak for of, one in peaks.items() for resource, peak in one.items()})
    _show(metrics.reclaimable, {(resource,): amount for resource, amount in reclaimable.items()})
    metrics.pods.labels("warm").set(prediction.warm)
    metrics.pods.labels("cold").set(len(prediction.cold))
    for resource, gauge in ((CPU, metrics.node_cpu), (MEMORY, metrics.node_memory)):
        _show(gauge, {name: usages.node[resource]} if resource in usages.node else {})
    allocatable = _in_units(node.allocatable)
    for gauge, amounts in (
        (metrics.node_usage, usages.node),
        (metrics.system_usage, usages.system),
        (metrics.allocatable, allocatable),
    ):
        _show(gauge, {(*name, resource, _UNIT_NAMES[resource]): amount for resource, amount in amounts.items()})
    models = {str(resource): effective(prediction.policy, resource).model for resource in _RESOURCES}
    for gauge, amounts, by in (
        (metrics.predicted_reclaimable, reclaimable, models),
        (metrics.predicted_peak, _in_units(prediction.prod_peak), models),
        (metrics.priority_reclaimable, reclaimable, {str(resource): _BAND for resource in _RESOURCES}),
    ):
        _show(gauge, {(*name, by[one], one, _UNIT_NAMES[one]): amount for one, amount in amounts.items()})
    failed = any(resource not in reclaimable for resource in _RESOURCES)
    metrics.reclaimable_status.labels(metrics.node, _BAND).set(float(failed))


def show_pressure(metrics: Metrics, pressure: Pressure) -> None:
    """Show how long tasks waited; of the pods the worst alone, because a label per pod would be a series per pod."""
    name, pods = metrics.node, pressure.pods
    _show(metrics.node_pressure, {(name, *key): share for key, share in pressure.node.items()})
    _show(metrics.pod_pressure, {(name, one): max(shares.values()) for one, shares in pods.items() if shares})
    _show(metrics.pod_throttled, {(name,): max(pressure.throttled.values())} if pressure.throttled else {})


def show_store(metrics: Metrics, size: StoreSize) -> None:
    """Set the metrics of the store's size and losses."""
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
    for gauge in (metrics.models, metrics.model_samples, metrics.model_observed, metrics.model_age):
        gauge.clear()
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
    """Show how good the predictions were; what cannot be evaluated yet is not shown."""
    scores = {(PROD, resource, horizon): score for resource, horizon, score in accuracy.scores()}
    rates = {(PROD, resource, rate.horizon): rate for resource, rate in accuracy.violation_rates().items()}
    targets = {labels: rate.risk.target_percent for labels, rate in rates.items()}
    _show(metrics.target, {labels: percent / 100 for labels, percent in targets.items() if percent is not None})
    _show(metrics.violations, {labels: rate.percent / 100 for labels, rate in rates.items()})
    _show(metrics.violations_seconds, {labels: rate.seconds for labels, rate in rates.items()})
    _show(metrics.evaluated, {labels: one.evaluated for labels, one in scores.items()})
    _show(metrics.exceeded, {labels: one.exceeded / one.evaluated for labels, one in scores.items()})
    _show(metrics.mean_excess, {labels: one.mean_excess for labels, one in scores.items()})
    _show(metrics.worst_excess, {labels: one.worst_excess for labels, one in scores.items()})


def _in_units(amounts: Resources) -> dict[str, float]:
    return {resource: amount / UNITS[resource] for resource, amount in amounts.items()}


def _show(gauge: Gauge, values: Mapping[tuple[str, ...], float]) -> None:
    """Set these values by label, and remove all others."""
    gauge.clear()
    for labels, value in values.items():
        gauge.labels(*labels).set(value)

"""The agent's own metrics. Knows numbers and names only; docs/metrics.md explains each.

What koordlet exports too keeps its name and labels, with our prefix in place of ``koordlet_``.
"""

import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_NAMESPACE = "headroom_agent"
_STEP_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_AMOUNT = ("node", "resource", "unit")
_PREDICTED = ("node", "predictor", "resource", "unit")
_EVALUATED = ("class", "resource", "horizon")

disable_created_metrics()  # type: ignore[no-untyped-call] # unused, and doubles the page


class DetectedInfo(Collector):
    """The detected facts, as the labels of a metric that is always 1; read at each scrape."""

    def __init__(self) -> None:
        self.source: Callable[[], Mapping[str, str]] = dict  # returns the labels; without any there is no metric

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metric of the moment."""
        labels = self.source()
        family = GaugeMetricFamily(f"{_NAMESPACE}_detected", "Facts detected on this machine.", labels=list(labels))
        if labels:
            family.add_metric(list(labels.values()), 1.0)
        yield family


class Metrics:
    """All metrics of the agent, in a registry of their own."""

    def __init__(self, node: str = "") -> None:
        self.node = node
        self.registry = CollectorRegistry()
        self._collecting()
        self._training()
        self._reporting()
        self._pressure()
        self._accuracy()
        self._koordlet()

    def _collecting(self) -> None:
        self.detected = DetectedInfo()
        self.registry.register(self.detected)
        self.step_seconds = self._histogram("step_seconds", "Time of one step of a tick.", "step")
        self.tick_seconds = self._histogram("tick_seconds", "Time of one whole tick.")
        self.ticks_late = self._counter("ticks_late", "Ticks left out because an earlier one took too long.")
        self.clock_jumps = self._counter("clock_jumps", "The machine slept, or its wall clock was set.", "kind")
        self.samples = self._counter("samples", "Samples collected.")
        self.gaps = self._counter("gaps", "Values that a tick should have had and has not.", "metric", "reason")
        self.failures = self._counter("failures", "Steps that failed, by kind of error.", "step", "error")
        self.refused_inputs = self._counter("refused_inputs", "Objects of the cluster that could not be used.", "what")
        self.store_bytes = self._gauge("store_bytes", "Size of the database on disk, its log included.")
        self.store_used = self._gauge("store_used_bytes", "Part of the database file that holds data.")
        self.store_series = self._gauge("store_series", "Series in the database.")
        self.store_head = self._gauge("store_head_ticks", "Ticks that are not compressed yet.")
        self.store_unwritten = self._gauge("store_unwritten_ticks", "Ticks that are in memory alone.")
        self.store_set_aside = self._gauge("store_files_set_aside", "Files set aside since the start.")
        self.store_damaged = self._gauge("store_damaged_chunks", "Chunks that could not be read since the start.")
        self.store_dropped = self._gauge("store_dropped_blocks", "Blocks dropped early since the start, to free space.")
        self.pods = self._gauge("pods", "Pods on this node; warm ones are predicted from their history.", "state")

    def _training(self) -> None:
        self.training_seconds = self._histogram("training_seconds", "Time of one training round.")
        self.training_time = self._gauge("last_training_timestamp_seconds", "When the last training round was.")
        self.models = self._gauge("models", "Entities with a model, by kind.", "kind")
        self.model_samples = self._gauge("model_samples", "Training samples behind all models of a kind.", "kind")
        self.model_observed = self._gauge(
            "model_observed_seconds", "Observed time behind the models of a kind.", "kind", "stat"
        )
        self.model_age = self._gauge(
            "model_age_seconds", "Time since the model that is furthest behind last learned.", "kind"
        )
        self.checkpoint_seconds = self._histogram("checkpoint_seconds", "Time to save a checkpoint.")
        self.checkpoint_bytes = self._gauge("checkpoint_bytes", "Size of the checkpoint.")
        self.checkpoint_time = self._gauge("last_checkpoint_timestamp_seconds", "When it was last saved.")
        self.checkpoint_failures = self._counter("checkpoint_failures", "Checkpoints that could not be saved.")

    def _reporting(self) -> None:
        self.reports = self._counter("reports", "Reports to the API server.", "kind", "result")
        self.report_bytes = self._counter("report_bytes", "Size of the reports that were taken.", "kind")
        self.report_time = self._gauge("last_report_timestamp_seconds", "When a report was last taken.", "kind")
        self.report_lag = self._gauge("report_lag_seconds", "How long a full report has been overdue.")
        self.report_dropped = self._gauge("report_dropped_fields", "Fields that the cluster's NodeMetric drops.")
        self.usage = self._gauge("usage", "Mean usage in the report window [cores, bytes].", "class", "resource")
        self.peak = self._gauge("peak", "Predicted peak, margin included [cores, bytes].", "class", "resource")
        self.reclaimable = self._gauge("reclaimable", "Prod requests that may be reclaimed [cores, bytes].", "resource")

    def _pressure(self) -> None:
        self.node_pressure = self._gauge(
            "node_pressure_ratio", "Share of time in which tasks of the node waited.", "node", "resource", "kind"
        )
        self.pod_pressure = self._gauge(
            "pod_pressure_max_ratio", "The same of the pod that waited most.", "node", "resource"
        )
        self.pod_throttled = self._gauge(
            "pod_cpu_throttled_max_ratio", "Share of quota periods in which the worst pod was held back.", "node"
        )

    def _accuracy(self) -> None:
        self.evaluated = self._gauge("prediction_evaluated", "Predictions evaluated in the last 24 hours.", *_EVALUATED)
        self.exceeded = self._gauge("prediction_exceeded_ratio", "Share of them that usage exceeded.", *_EVALUATED)
        self.mean_excess = self._gauge("prediction_excess_mean_ratio", "By how much, on average.", *_EVALUATED)
        self.worst_excess = self._gauge("prediction_excess_max_ratio", "By how much, at most.", *_EVALUATED)
        self.target = self._gauge("prediction_target_ratio", "The same that the policy aims at.", *_EVALUATED)
        self.violations = self._gauge(
            "prediction_violations_ratio", "Share of the last 14 days' predictions that usage exceeded.", *_EVALUATED
        )
        self.violations_seconds = self._gauge(
            "prediction_violations_evaluated_seconds", "The time of these predictions.", *_EVALUATED
        )

    def _koordlet(self) -> None:
        self.start_time = self._gauge("start_time", "When the agent started [seconds since 1970].", "node")
        self.start_time.labels(self.node).set(time.time())
        self.node_cpu = self._gauge("node_used_cpu_cores", "CPU that the node uses.", "node")
        self.node_memory = self._gauge("node_used_memory_bytes", "Memory that the node uses.", "node")
        self.allocatable = self._gauge("node_resource_allocatable", "What pods may request on the node.", *_AMOUNT)
        self.node_usage = self._gauge("node_metric_node_usage", "Node usage as reported.", *_AMOUNT)
        self.system_usage = self._gauge("node_metric_system_usage", "System usage as reported.", *_AMOUNT)
        self.predicted_reclaimable = self._gauge(
            "node_predicted_resource_reclaimable", "What can be reclaimed by the model.", *_PREDICTED
        )
        self.predicted_peak = self._gauge(
            "node_predicted_resource_peak", "Peak of Prod and the system that the model expects.", *_PREDICTED
        )
        self.priority_reclaimable = self._gauge(
            "node_priority_resource_reclaimable",
            "What a priority band requested and will not use.",
            "node",
            "priority",
            "resource",
            "unit",
        )
        self.reclaimable_status = self._gauge(
            "node_resource_priority_reclaimable_status",
            "0 when that could be calculated, 1 when not.",
            "node",
            "priority",
        )

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, namespace=_NAMESPACE, registry=self.registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(name, what, labels, namespace=_NAMESPACE, registry=self.registry)

    def _histogram(self, name: str, what: str, *labels: str) -> Histogram:
        return Histogram(name, what, labels, namespace=_NAMESPACE, registry=self.registry, buckets=_STEP_BUCKETS)

    def render(self) -> bytes:
        return generate_latest(self.registry)

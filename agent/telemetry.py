"""The agent's own metrics. Knows numbers and names, nothing of what they mean."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

_NAMESPACE = "headroom_agent"
_STEP_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

disable_created_metrics()  # type: ignore[no-untyped-call] # when a counter began tells nobody anything, and doubles the page


class Metrics:
    """All metrics of the agent, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.step_seconds = self._histogram("step_seconds", "Time of one step of a tick.", "step")
        self.tick_seconds = self._histogram("tick_seconds", "Time of one whole tick.")
        self.ticks_late = self._counter("ticks_late", "Ticks left out because an earlier one took too long.")
        self.samples = self._counter("samples", "Samples collected.")
        self.gaps = self._counter("gaps", "Values that a tick should have had and has not.", "metric", "reason")
        self.failures = self._counter("failures", "Steps that failed, by kind of error.", "step", "error")
        self.reports = self._counter("reports", "Reports to the API server.", "kind", "result")
        self.report_time = self._gauge("last_report_timestamp_seconds", "When a report was last taken.", "kind")
        self.store_bytes = self._gauge("store_bytes", "Size of the database on disk, its log included.")
        self.store_series = self._gauge("store_series", "Series in the database.")
        self.pods = self._gauge("pods", "Pods on this node; warm ones are predicted from their history.", "state")
        self.usage = self._gauge("usage", "Mean usage in the report window [cores, bytes].", "class", "resource")
        self.peak = self._gauge("peak", "Predicted peak, margin included [cores, bytes].", "class", "resource")
        self.reclaimable = self._gauge("reclaimable", "Prod requests that may be resold [cores, bytes].", "resource")

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, namespace=_NAMESPACE, registry=self.registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(name, what, labels, namespace=_NAMESPACE, registry=self.registry)

    def _histogram(self, name: str, what: str, *labels: str) -> Histogram:
        return Histogram(name, what, labels, namespace=_NAMESPACE, registry=self.registry, buckets=_STEP_BUCKETS)

    def exposition(self) -> bytes:
        """The metrics as text."""
        return generate_latest(self.registry)

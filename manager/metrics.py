"""The manager's own /metrics and health pages."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from headroom.runtime import http
from headroom.runtime.health import Health
from manager.calculators.base import Result
from manager.http import HttpServer
from manager.inputs import Amounts, Resource
from manager.mid.pod_limits import PodLimits

PREFIX: Final = "headroom_manager"  # the prefix of all metric names

_Metrics = TypeVar("_Metrics")


class ManagerMetrics:
    """Counters and gauges of the manager."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        what, which = "[milli-cores, bytes]", ["node", "resource"]
        self._per_node = {
            "calculated": self._gauge("mid_calculated", f"Amount that the formula allows to publish {what}", which),
            "published": self._gauge("mid_published", f"Amount that the Node should have {what}", which),
            "requested": self._gauge("mid_requested", f"What running Mid pods requested {what}", which),
            "deficit": self._gauge("mid_deficit", f"Requested beyond what may be published {what}", which),
            "beyond": self._gauge("mid_usage_beyond_requests", f"Usage of Mid pods beyond requests {what}", which),
        }
        self._pods = {
            "unlimited": self._gauge("mid_pods_without_limits", "Running Mid pods without native limits", ["node"]),
            "beyond": self._gauge("mid_pods_beyond_requests", "Mid pods that use more than they requested", ["node"]),
        }
        self._degraded = self._gauge("mid_degraded", "1 when nothing is published for a reason", ["node", "reason"])
        self._reason: dict[str, str] = {}
        self.leading = self._gauge("leading", "1 while this replica writes")
        self.node_metric_defined = self._gauge("nodemetric_defined", "1 while the API server knows NodeMetric")
        self.config_valid = self._gauge("config_valid", "1 when the ConfigMap is in force")
        self.config_entries_disabled = self._gauge("config_entry_errors", "Faults in nodeConfigs entries")
        self.queue = self._gauge("queue_nodes", "Nodes that wait to be reconciled")
        self.workloads_dropped = self._gauge("workload_histories_dropped", "Reported workloads that could not be used")
        self.known = self._gauge("known_objects", "Cached objects", ["kind"])
        writes = "Writes to the API server"
        self.writes = Counter(f"{PREFIX}_writes", writes, ["what", "result"], registry=self.registry)
        seconds = "Time to reconcile one node, writes included"
        self.reconcile_seconds = Histogram(f"{PREFIX}_reconcile_seconds", seconds, registry=self.registry)
        self._groups: dict[Any, Any] = {}

    def of(self, kind: Callable[[CollectorRegistry], _Metrics]) -> _Metrics:
        """Metrics of one part of the manager: one object of its class, made at first use."""
        if kind not in self._groups:
            self._groups[kind] = kind(self.registry)
        result: _Metrics = self._groups[kind]
        return result

    def _gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def show(self, node: str, result: Result, limits: PodLimits) -> None:
        """Set the metrics of a node."""
        amounts = {
            "calculated": result.calculated,
            "published": result.desired or Amounts(),
            "requested": result.requested,
            "deficit": result.deficit,
            "beyond": limits.total_beyond,
        }
        for name, gauge in self._per_node.items():
            for resource in Resource:
                gauge.labels(node, resource.value).set(amounts[name][resource])
        self._pods["unlimited"].labels(node).set(len(limits.unlimited))
        self._pods["beyond"].labels(node).set(len(limits.beyond))
        reason, before = result.degraded.reason if result.degraded else "", self._reason.get(node, "")
        if before != reason and before:
            self._degraded.remove(node, before)
        if reason:
            self._degraded.labels(node, reason).set(1)
        self._reason[node] = reason

    def forget(self, node: str) -> None:
        """Drop the metrics of a node."""
        if node not in self._reason:
            return
        for resource in Resource:
            for gauge in self._per_node.values():
                gauge.remove(node, resource.value)
        for gauge in self._pods.values():
            gauge.remove(node)
        reason = self._reason.pop(node)
        if reason:
            self._degraded.remove(node, reason)


class MetricsServer(HttpServer):
    """Serves /metrics, /healthz, /readyz and /livez; /healthz and /readyz list their checks with `?verbose`.

    Raises:
        ListenError: the address is not free, or not one.
    """

    def __init__(self, address: str, metrics: ManagerMetrics, health: Callable[[], Health]) -> None:
        def livez(_request: http.Request) -> http.Reply:
            well, text = health().reply(ready=False, verbose=False)
            return http.Reply.text(text, 200 if well else 503)

        page = http.MetricsPage(lambda: generate_latest(metrics.registry))
        super().__init__(address, {**http.health_pages(health, livez=livez), ("GET", "/metrics"): page})

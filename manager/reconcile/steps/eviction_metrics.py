"""Metrics of eviction."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from manager.inputs import Amounts, Resource
from manager.metrics import PREFIX


class EvictionMetrics:
    """Evictions, pods that would be evicted, pods that were skipped and why, and how long nodes were short."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.evictions = Counter(
            f"{PREFIX}_mid_evictions", "Evictions of Mid pods that were requested", ["result"], registry=registry
        )
        skipped = "Mid pods that were next in order, but were not evicted"
        self.skipped = Counter(f"{PREFIX}_mid_evictions_skipped", skipped, ["reason"], registry=registry)
        """Each pod and reason counts once for as long as it lasts."""
        would = "Mid pods that would be evicted if mode were on"
        self._would = Gauge(f"{PREFIX}_mid_would_evict", would, ["node"], registry=registry)
        short = "Time during which a fresh report proved that Mid pods hold more than may be published"
        labels = ["node", "resource"]
        self._deficit_seconds = Counter(f"{PREFIX}_mid_deficit_seconds", short, labels, registry=registry)
        self._nodes: set[str] = set()

    def would_evict(self, node: str, count: int) -> None:
        """Set how many pods a dry run names."""
        if count or node in self._nodes:
            self._nodes.add(node)
            self._would.labels(node).set(count)

    def short_for(self, node: str, deficit: Amounts, seconds: float) -> None:
        """Count a time in which a node had this deficit. [s]"""
        for resource in Resource:
            if deficit[resource]:
                self._nodes.add(node)
                self._deficit_seconds.labels(node, resource.value).inc(max(seconds, 0.0))

    def forget(self, node: str) -> None:
        """Drop the metrics of a node."""
        if node in self._nodes:
            self._nodes.discard(node)
            self._would.remove(node)
            for resource in Resource:
                self._deficit_seconds.remove(node, resource.value)

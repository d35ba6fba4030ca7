"""The extender's own metrics at /metrics."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from scheduler_plugins.extender.slow_requests import SlowRequests

_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_MOST_REASONS: Final = 50

_Part = TypeVar("_Part")


class Telemetry:
    """The metrics. Each extender has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()  # where the metrics are registered
        self._requests = Histogram(
            "headroom_scheduler_request_seconds",
            "Time from a request's body to its answer, by verb and outcome (answered, refused_all, bad_request, error)",
            ["verb", "outcome"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._plugins = Histogram(
            "headroom_scheduler_plugin_seconds",
            "Time in a plugin, by plugin and step.",
            ["plugin", "step"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._plugin_errors = Counter(
            "headroom_scheduler_plugin_errors_total",
            "Calls of a plugin that failed.",
            ["plugin", "step"],
            registry=self.registry,
        )
        self._refusals = Counter(
            "headroom_scheduler_refused_pods_total",
            "Pods that were refused on every node, by reason; rare reasons may be counted as other.",
            ["reason"],
            registry=self.registry,
        )
        self._reasons: set[str] = set()
        # Looking a series up costs more than noting a value, and this is done for every pod.
        self._request_series = cache(self._requests.labels)
        self._plugin_series = cache(self._plugins.labels)
        self._parts: dict[Any, Any] = {}
        self.slow = SlowRequests(self.registry)  # requests that kube-scheduler did not wait for

    def part(self, kind: Callable[[CollectorRegistry], _Part]) -> _Part:
        """Return the metrics of a part of the extender: one object, registered at the first call."""
        part = self._parts.get(kind)
        if part is None:
            part = self._parts[kind] = kind(self.registry)
        result: _Part = part
        return result

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        Gauge(f"headroom_scheduler_{name}", text, registry=self.registry).set_function(value)

    def watch_each(self, name: str, text: str, label: str, values: Mapping[str, Callable[[], float]]) -> None:
        """Register a gauge with one label that is read at each scrape."""
        gauge = Gauge(f"headroom_scheduler_{name}", text, [label], registry=self.registry)
        for key, value in values.items():
            gauge.labels(key).set_function(value)

    def observe_plugin(self, plugin: str, step: str, seconds: float, failed: bool) -> None:  # noqa: FBT001 - an Observer
        """Note a call of a plugin."""
        self._plugin_series(plugin, step).observe(seconds)
        if failed:
            self._plugin_errors.labels(plugin, step).inc()

    def refused(self, reasons: AbstractSet[str]) -> None:
        """Note a pod that found every node refused."""
        for reason in reasons:
            # Any plugin may add reasons: their number is bounded here.
            if reason in self._reasons or len(self._reasons) < _MOST_REASONS:
                self._reasons.add(reason)
                self._refusals.labels(reason).inc()
            else:
                self._refusals.labels("other").inc()

    @contextmanager
    def request(self, verb: str, received: float) -> Iterator[list[str]]:
        """Time a request; the caller puts its outcome into the list, which starts as an error."""
        started, outcome = perf_counter(), ["error"]
        try:
            yield outcome
        finally:
            self._request_series(verb, outcome[-1]).observe(perf_counter() - started)
            self.slow.observe(verb, received or started)

    def text(self) -> bytes:
        return generate_latest(self.registry)

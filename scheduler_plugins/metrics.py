"""The extender's own metrics at /metrics."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from time import perf_counter
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scheduler_plugins.extender.slow_requests import SlowRequests

_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_LABELS: Final = tuple(map(floatToGoString, (*_BUCKETS, float("inf"))))
PLUGINS_SAMPLED: Final = 0.1  # the part of the pods for which plugins are timed, as in kube-scheduler
_BATCH: Final = 256  # durations that are counted together
_MOST_REASONS: Final = 50

_Part = TypeVar("_Part")


class _Durations(Collector):
    """A histogram of durations. An observation takes a tenth of the time of one of prometheus_client's."""

    def __init__(self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._series: dict[tuple[str, ...], list[float]] = {}  # observations by bucket, and at the end their sum
        self._new: list[tuple[tuple[str, ...], float]] = []  # labels and seconds that are not counted yet
        registry.register(self)

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Note a duration. Many are counted together, so that a request does not visit all series."""
        self._new.append((labels, seconds))
        if len(self._new) >= _BATCH:
            self._count()

    def _count(self) -> None:
        for labels, seconds in self._new:
            series = self._series.get(labels)
            if series is None:
                series = self._series[labels] = [0.0] * (len(_LABELS) + 1)
            series[bisect_left(_BUCKETS, seconds)] += 1
            series[-1] += seconds
        self._new.clear()

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Yield the histogram without its series."""
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the histogram."""
        self._count()
        for family in self.describe():
            for labels, series in self._series.items():
                family.add_metric(labels, list(zip(_LABELS, accumulate(series), strict=False)), series[-1])
            yield family


class Telemetry:
    """The metrics. Each extender has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()  # where the metrics are registered
        self._requests = _Durations(
            "headroom_scheduler_request_seconds",
            "Time from a request's body to its answer, by verb and outcome (answered, refused_all, bad_request, error)",
            ["verb", "outcome"],
            self.registry,
        )
        self._plugins = _Durations(
            "headroom_scheduler_plugin_seconds",
            "Time in a plugin, by plugin and step, for a tenth of the pods.",
            ["plugin", "step"],
            self.registry,
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

    def observe_plugin(self, plugin: str, step: str, seconds: float | None) -> None:
        """Note a call of a plugin, which took so long, or failed (None)."""
        if seconds is None:
            self._plugin_errors.labels(plugin, step).inc()
        else:
            self._plugins.observe((plugin, step), seconds)

    def refused(self, reasons: AbstractSet[str]) -> None:
        """Note a pod that found every node refused."""
        for reason in reasons:
            # Any plugin may add reasons: their number is bounded here.
            if reason in self._reasons or len(self._reasons) < _MOST_REASONS:
                self._reasons.add(reason)
                self._refusals.labels(reason).inc()
            else:
                self._refusals.labels("other").inc()

    def answered(self, verb: str, outcome: str, started: float, received: float) -> None:
        """Note a request: its outcome, and when its body and its first bytes were there. [s, perf_counter]"""
        self._requests.observe((verb, outcome), perf_counter() - started)
        self.slow.observe(verb, received or started)

    def text(self) -> bytes:
        return generate_latest(self.registry)

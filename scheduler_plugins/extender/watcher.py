"""GET /watcher[?host=NAME] and /watcher/health: NodeMetrics in load-watcher's protocol, so that Trimaran reads them."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import msgspec

from crds.duration import format_duration
from headroom.runtime.http import JSON, CoalescedRender, Pages, Reply, Request
from scheduler_plugins.providers.provider import AVERAGE, CPU, LATEST, MEMORY, STDEV, metric
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.report import LONGEST, NodeReport
from scheduler_plugins.snapshot.units import Usage

PREFERRED: Final = 900.0  # load-watcher's first choice of a window. [s]
_SHORTER: Final[Mapping[float, float]] = {900.0: 600.0, 600.0: 300.0}
"""The substitute for a window that is missing, by one step alone, as in load-watcher. [s]"""
EXPIRES_SECONDS: Final = 180.0
"""A node with an older report is omitted: upstream's plugins know no age, only absence. [s]"""
_TYPES: Final[Mapping[str, str]] = {"cpu": CPU, "memory": MEMORY}
_OPERATORS: Final[Mapping[str, str]] = {"avg": AVERAGE, "stdev": STDEV}
_AT_ONCE: Final = 200  # after so many nodes others get their turn: some milliseconds. [nodes]


@dataclass(frozen=True, slots=True)
class _Known:
    """The metrics of a node's report, cached with that report."""

    report: NodeReport
    allocatable: Mapping[str, int]
    metrics: Sequence[Mapping[str, Any]]
    window: float


class WatcherPages:
    """The pages."""

    def __init__(self, cache: ClusterCache, clock: Callable[[], float], healthy: Callable[[], bool]) -> None:
        self._cache, self._clock, self._healthy = cache, clock, healthy
        self._known: dict[str, _Known] = {}
        self._paced = CoalescedRender(self._made)  # any client in the pod network may send requests

    def pages(self) -> Pages:
        return {("GET", "/watcher"): self.watcher, ("GET", "/watcher/health"): self.health}

    async def watcher(self, request: Request) -> Reply:
        """All nodes, or one: 404 when that one is not known, 500 without a word while nothing is known."""
        result = await self._paced()
        if result is None:
            return Reply(b"", 500)
        document, written = result
        host = request.query.get("host")
        if not host:
            return Reply(written)
        nodes = document["data"]["NodeMetricsMap"]
        if host not in nodes:
            return Reply.text(f"No metrics found for host {host}", 404)
        return Reply(msgspec.json.encode({**document, "data": {"NodeMetricsMap": {host: nodes[host]}}}))

    def health(self, _request: Request) -> Reply:
        """200, or 503 while the cluster is unknown or the API server is silent."""
        return Reply(b"", 200 if self._healthy() else 503, JSON)

    async def _made(self) -> tuple[Mapping[str, Any], bytes] | None:
        document = await self.document()
        return None if document is None else (document, msgspec.json.encode(document))

    async def document(self) -> Mapping[str, Any] | None:
        """Return the metrics of all nodes in load-watcher's form; None without any."""
        now, result = self._clock(), dict[str, _Known]()
        for count, name in enumerate(tuple(self._cache.nodes)):
            if known := self._of_node(name, now):
                result[name] = known
            if count % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        self._known = result
        if not result:
            return None
        windows = Counter(known.window for known in result.values() if known.window)
        window = max(windows, key=lambda length: (windows[length], length), default=PREFERRED)
        end = max(min(known.report.update_time or now, now) for known in result.values())
        return wire_format("Headroom", now, window, end, {name: known.metrics for name, known in result.items()})

    def _of_node(self, name: str, now: float) -> _Known | None:
        ledger, allocatable = self._cache.ledger(name), self._cache.own_allocatable(name)
        report = ledger.report if ledger else None
        if not report or not report.update_time or not allocatable or now - report.update_time > EXPIRES_SECONDS:
            return None
        cached = self._known.get(name)
        if cached is None or cached.report is not report or cached.allocatable is not allocatable:
            cached = _Known(report, allocatable, *_metrics(report, self._cache.rules.resources, allocatable))
        return cached if cached.metrics else None


def wire_format(
    source: str, now: float, window: float, end: float, nodes: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Mapping[str, Any]:
    """load-watcher's document of the metrics of nodes over a window. [s, unix s]"""
    last = math.floor(end)
    metrics = {
        name: {"metrics": list(each), "tags": {}, "metadata": {"dataCenter": ""}} for name, each in nodes.items()
    }
    return {
        "timestamp": math.floor(now),
        "window": {"duration": short_duration(window), "start": last - round(window), "end": last},
        "source": source,
        "data": {"NodeMetricsMap": metrics},
    }


def _metrics(
    report: NodeReport, resources: Sequence[str], allocatable: Mapping[str, int]
) -> tuple[Sequence[Mapping[str, Any]], float]:
    """Return a node's metrics in percent of its allocatable, and their window (0: plain usage)."""
    window = window_of(length for kind, length in report.aggregated if kind == "avg" and length > LONGEST)
    average = report.node_usage if window is None else report.aggregated["avg", window]
    # No node runs without memory; one without CPU time is idle.
    whole = {
        resource: allocatable[resource]
        for resource, amount in zip(resources, average or (), strict=False)
        if amount is not None and allocatable.get(resource, 0) > 0 and (amount > 0 or resource == "cpu")
    }

    def shares(usage: Usage | None, operator: str, rollup: str) -> list[Mapping[str, Any]]:
        return [
            metric(_TYPES[name], operator, 100 * max(amount, 0) / whole[name], name="NodeMetric", rollup=rollup)
            for name, amount in zip(resources, usage or (), strict=False)
            if amount is not None and name in whole and name in _TYPES
        ]

    if window is None:
        return shares(average, LATEST, ""), 0.0
    rollup = short_duration(window)
    result = [shares(report.aggregated.get((kind, window)), name, rollup) for kind, name in _OPERATORS.items()]
    return [*chain.from_iterable(result)], window


def latest(lengths: Collection[float], requested: float = PREFERRED) -> float | None:
    """Return the window for the requested one: itself, else the next shorter one; None without either."""
    return next((length for length in (requested, _SHORTER.get(requested)) if length in lengths), None)


def window_of(lengths: Iterable[float]) -> float | None:
    """The window to take of those that a node reports: as `latest`, else the one that is closest to 15m.

    Agents report the windows of their NodeMetric, and a number of another window is better than none.
    """
    unique = set(lengths)
    return latest(unique) or min(unique, key=lambda length: (abs(math.log(length / PREFERRED)), length), default=None)


def short_duration(seconds: float) -> str:
    """A duration without the zeros that Go writes: 900 -> "15m"."""
    text = format_duration(seconds)
    if text.endswith("m0s"):
        text = text.removesuffix("0s")
    return text.removesuffix("0m") if text.endswith("h0m") else text

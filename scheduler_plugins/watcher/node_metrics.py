"""NodeMetrics as load-watcher's metrics: average and deviation of a window, in percent of what a node can allocate."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.report import LONGEST, NodeReport
from scheduler_plugins.snapshot.units import Usage
from scheduler_plugins.watcher.document import PREFERRED, Document, Metric, short_duration, window_of

SOURCE: Final = "Headroom"
NAME: Final = "NodeMetric"
EXPIRES_SECONDS: Final = 180.0
"""A node whose last report is older is left out: upstream's plugins know no age, only absence. [s]"""
_TYPES: Final[Mapping[str, str]] = {"cpu": "CPU", "memory": "Memory"}
_AVERAGE: Final = "avg"
_OPERATORS: Final[Mapping[str, str]] = {_AVERAGE: "AVG", "stdev": "STD"}
_LATEST: Final = "Latest"
_AT_ONCE: Final = 200
"""After so many nodes others get their turn: some milliseconds. [nodes]"""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was made of a node's report, for as long as it is that one."""

    report: NodeReport
    allocatable: Mapping[str, int]
    metrics: Sequence[Metric]
    window: float


class NodeMetricsSource:
    """Makes the document from the cache.

    Args:
        cache: the cluster.
        expires: the age from which a report counts no more. [s]
    """

    def __init__(self, cache: ClusterCache, expires: float = EXPIRES_SECONDS) -> None:
        self._cache = cache
        self._expires = expires
        self._known: dict[str, _Known] = {}

    async def document(self, now: float) -> Document | None:
        """What is known of all nodes; None while nothing is."""
        found: dict[str, _Known] = {}
        for count, name in enumerate(tuple(self._cache.nodes)):
            known = self._of_node(name, now)
            if known is not None:
                found[name] = known
            if count % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        self._known = found
        if not found:
            return None
        windows = Counter(known.window for known in found.values() if known.window)
        return Document(
            source=SOURCE,
            timestamp=now,
            window_seconds=max(windows, key=lambda length: (windows[length], length), default=PREFERRED),
            window_end=max(min(known.report.update_time or now, now) for known in found.values()),
            nodes={name: known.metrics for name, known in found.items()},
        )

    def _of_node(self, name: str, now: float) -> _Known | None:
        ledger, allocatable = self._cache.ledger(name), self._cache.own_allocatable(name)
        report = ledger.report if ledger else None
        if report is None or report.update_time is None or not allocatable or now - report.update_time > self._expires:
            return None
        known = self._known.get(name)
        if known is None or known.report is not report or known.allocatable is not allocatable:
            metrics, window = metrics_of(report, self._cache.rules.resources, allocatable)
            known = _Known(report, allocatable, metrics, window)
        return known if known.metrics else None


def metrics_of(
    report: NodeReport, resources: Sequence[str], allocatable: Mapping[str, int]
) -> tuple[list[Metric], float]:
    """A node's metrics, and the window that they are of (0: they are plain usage).

    Args:
        report: its report.
        resources: what the report's vectors are of.
        allocatable: what the node can allocate. [milli-cores for cpu, else base units]
    """
    window = window_of(length for kind, length in report.aggregated if kind == _AVERAGE and length > LONGEST)
    average = report.node_usage if window is None else report.aggregated[_AVERAGE, window]
    # No node runs without memory; one without CPU time is idle.
    whole = {
        resource: allocatable[resource]
        for resource, amount in zip(resources, average or (), strict=False)
        if amount is not None and allocatable.get(resource, 0) > 0 and (amount > 0 or resource == "cpu")
    }
    if window is None:
        return _shares(average, resources, whole, _LATEST, ""), 0.0
    rollup = short_duration(window)
    metrics: list[Metric] = []
    for kind, operator in _OPERATORS.items():
        metrics += _shares(report.aggregated.get((kind, window)), resources, whole, operator, rollup)
    return metrics, window


def _shares(
    usage: Usage | None, resources: Sequence[str], whole: Mapping[str, int], operator: str, rollup: str
) -> list[Metric]:
    return [
        {
            "name": NAME,
            "type": _TYPES[resource],
            "operator": operator,
            "rollup": rollup,
            "value": 100 * max(amount, 0) / whole[resource],
        }
        for resource, amount in zip(resources, usage or (), strict=False)
        if amount is not None and resource in _TYPES and resource in whole
    ]

"""Samples every node's state into the in-memory history, on every replica."""

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from manager.cluster import ClusterState
from manager.context import Context
from manager.inputs import Measured, PodInputs, Resource, total
from manager.inputs.node_metric import NodeReport, age_seconds
from manager.inputs.reading import Reader, get_path
from manager.mid.node_filter import NodeFilter
from manager.mid.publish import published_amounts
from manager.web.history import WIDTH, Floats, History, Series, at, nothing
from manager.web.state import State, assess

PAUSE_SECONDS: Final = 0.25  # between two handfuls of nodes [s]
READY: Final = "ready"  # the word for a prediction that counts
HANDFUL: Final = 25  # Nodes that are sampled without a break: one or two milliseconds of the event loop
_HANDFULS_A_ROUND: Final = 200
"""A round is over within a minute, whatever the size of the cluster, so that no minute of the history is empty."""
_GIB: Final = float(2**30)
_MILLI: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Row:
    """The last sample of a node."""

    name: str
    uid: str
    seen: float  # when [unix s]
    state: State
    reason: str  # why, a sentence
    prediction: str  # "ready", or one word for why it is not; empty without a report
    warm: int | None  # Pods predicted from history
    cold: int | None  # Pods counted at their request
    age: float | None  # age of the report then [s]
    point: tuple[float, ...]  # its numbers, as `history.Series` has them; nan is not known. [cores, GiB]

    def number(self, series: Series, resource: str) -> float | None:
        """A number, or None where it is not known. [cores, GiB]"""
        result = self.point[at(series, resource)]
        return None if math.isnan(result) else result

    def age_at(self, now: float) -> float | None:
        """Age of the report at a moment [unix s], if none has come since. [s]"""
        return None if self.age is None else self.age + max(now - self.seen, 0.0)


@dataclass(slots=True)
class Recorder:
    """The history of all nodes. The event loop writes, other threads read."""

    history: History = field(default_factory=History)  # numbers over time
    rows: dict[str, Row] = field(default_factory=dict)  # Node name -> the last look
    _fixed: dict[str, tuple[Any, Mapping[Series, Measured]]] = field(default_factory=dict)

    def sample(self, cluster: ClusterState, name: str, exclusion: NodeFilter, wall: float, steady: float) -> None:
        """Sample a node, unless it is gone, by two clocks. [unix s, s]"""
        node = cluster.nodes.get(name)
        if node is None:
            return
        uid, before = str(node["metadata"]["uid"]), self.rows.get(name)
        if before is not None and before.uid != uid:
            self.history.forget(name)
        cached = cluster.node_metrics.get(name)
        if cached is not None and cached.managed_fields.belongs_to_other_node(uid):
            cached = None
        summary, age, word = cached.prediction_summary if cached else None, None, ""
        amounts = dict(self._of_node(name, node))
        if cluster.pods_synced:
            amounts.update(_of_pods(cluster.pods_on(name)))
        if cached is not None and cached.report is not None:
            observed_at = cached.observed_at.shifted(wall - steady)
            age = age_seconds(cached.report.update_time, observed_at.report, wall)
            word = READY if cached.report.prediction_ready else cached.prediction_summary.reason or "not ready"
            if age is not None and age <= cached.prediction_summary.silent_after:
                amounts.update(_of_report(cached.report))
        excluded = exclusion.excludes(node["metadata"]["labels"])
        publishes = any(amounts[Series.MID][resource] for resource in Resource)
        state, reason = assess(cached, age, excluded=excluded, publishes=publishes, ready=node["ready"])
        warm, cold = (summary.warm, summary.cold) if summary else (None, None)
        point = _point(amounts)
        self.rows[name] = Row(name, uid, wall, state, reason, word, warm, cold, age, point)
        self.history.put(name, np.array(point, np.float32), wall)

    def finish(self, cluster: ClusterState, wall: float) -> None:
        """End a round: nodes that are gone are forgotten, and the sums of the others are remembered."""
        for name in self.rows.keys() - cluster.nodes.keys():
            del self.rows[name]
            self._fixed.pop(name, None)
        self.history.keep(cluster.nodes)
        self.history.put_sum(sums(self.rows.values()), wall)

    def _of_node(self, name: str, node: Mapping[str, Any]) -> Mapping[Series, Measured]:
        """Return the amounts on the Node; read again after a change, because quantities are slow to parse."""
        fixed = self._fixed.get(name)
        if fixed is not None and fixed[0] is node:
            return fixed[1]
        published = published_amounts(node)
        result = {
            Series.ALLOCATABLE: Reader().measured(get_path(node, "status", "allocatable"), "allocatable"),
            Series.MID: Measured(*(max(published[resource].amount or 0, 0) for resource in Resource)),
        }
        self._fixed[name] = (node, result)
        return result


def _of_pods(pods: Iterable[PodInputs]) -> dict[Series, Measured]:
    listed = list(pods)
    requested = total(pod.requests for pod in listed if pod.above_mid)
    allocated = total(pod.mid_requests for pod in listed if pod.holds_mid)
    return {
        Series.PROD_REQUESTED: Measured(requested.cpu, requested.memory),
        Series.MID_REQUESTED: Measured(allocated.cpu, allocated.memory),
    }


def _of_report(report: NodeReport) -> dict[Series, Measured]:
    pairs = [(report.prod_usage[resource], report.system_usage[resource]) for resource in Resource]
    both = Measured(*(None if prod is None or system is None else prod + system for prod, system in pairs))
    return {Series.USAGE: report.node_usage, Series.PROD_USAGE: both, Series.PROD_PEAK: report.prod_peak}


def _point(amounts: Mapping[Series, Measured]) -> tuple[float, ...]:
    point = [math.nan] * WIDTH
    for series, measured in amounts.items():
        if measured.cpu is not None:
            point[at(series, "cpu")] = measured.cpu / _MILLI
        if measured.memory is not None:
            point[at(series, "memory")] = measured.memory / _GIB
    return tuple(point)


def sums(rows: Iterable[Row]) -> Floats:
    """The sum of the numbers that are known; nan where none is."""
    points = [row.point for row in rows]
    if not points:
        return nothing()
    table = np.array(points)
    measured = ~np.isnan(table)
    total = np.where(measured, table, 0.0).sum(axis=0).astype(np.float32)
    result: Floats = np.where(measured.any(axis=0), total, np.float32(np.nan))
    return result


async def record(context: Context, pause_seconds: float = PAUSE_SECONDS) -> None:
    """Sample all nodes, round by round, until cancelled, with this pause between two batches. [s]"""
    recorder, cluster = context.state_of(Recorder), context.cluster
    while True:
        names = list(cluster.nodes)
        handful = max(HANDFUL, -(-len(names) // _HANDFULS_A_ROUND))
        for first in range(0, len(names), handful):
            for name in names[first : first + handful]:
                recorder.sample(cluster, name, context.settings.exclude_nodes, context.wall(), context.steady())
            if first + handful < len(names):
                await asyncio.sleep(pause_seconds)
        recorder.finish(cluster, context.wall())
        await asyncio.sleep(pause_seconds)

"""Machines with their pods, as many at a time as memory allows: histories and statistics for the models."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from agent.api import MINIMUM_EFFECTIVE_SAMPLES, FloatArray, IntArray, WorkloadHistoryRule
from kubectl_headroom.backtest.cluster_history import ClusterHistory
from kubectl_headroom.backtest.history import PodColumns, PodHistory
from kubectl_headroom.backtest.history_inheritance import sources
from kubectl_headroom.backtest.placement import Placement
from kubectl_headroom.backtest.replay import Row, StatisticsReplay
from kubectl_headroom.backtest.rolling_window import ahead_max
from kubectl_headroom.backtest.trace import PodLifetime, Trace
from kubectl_headroom.backtest.view import SegmentView

WorkloadHistory = Literal["cluster", "node", "none"]
"""The machines with the history of its workload that a new pod knows: all of them, its own, or none."""
GROUP_VALUES: Final = 2**23  # as many averages, of pods and machines, are held together
_SEGMENT_VALUES: Final = 2**20
_ROW_VALUES: Final = 256  # the histogram of a pod takes as much, however short its lifetime
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Segment:
    """A time during which the same pods are on a machine, and the same of them warm."""

    start: int
    end: int
    view: SegmentView | None  # the warm pods; None when there is none
    cold: IntArray  # the places of the other pods

    def forget(self) -> None:
        """Free the results of pods that end with it."""
        for pod in () if self.view is None else self.view.pods:
            if pod.end <= self.end:
                pod.forget()


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of one placement."""

    name: str
    trace: Trace  # the trace of its pods
    lifetimes: tuple[PodLifetime, ...]  # its pods, P of them
    pods: tuple[PodHistory, ...]
    columns: PodColumns
    series: int  # the row of all of them together
    statistics: StatisticsReplay
    history: ClusterHistory | None  # the workloads on all machines; None if new pods know nothing of them

    @property
    def _times(self) -> tuple[IntArray, IntArray]:
        """First step of each pod and the step after its last one, shape (P,) each."""
        times = np.array([(lifetime.start, lifetime.end) for lifetime in self.lifetimes], dtype=np.intp).reshape(-1, 2)
        return times[:, 0], times[:, 1]

    @property
    def _pod_limits(self) -> FloatArray:
        return self.trace.limits[[lifetime.series for lifetime in self.lifetimes]]

    def limits(self, start: int, end: int) -> FloatArray:
        """Return the sum of the limits of the present pods at each step, shape (N,). [cores or bytes]"""
        result = np.zeros(end - start)
        for lifetime, limit in zip(self.lifetimes, self._pod_limits.tolist(), strict=True):
            result[max(lifetime.start - start, 0) : max(lifetime.end - start, 0)] += limit
        return result

    def oracle(self, start: int, end: int, horizon_steps: int) -> FloatArray:
        """The highest that the pods there at a step use together, from then to the end of the horizon, shape (N,).

        A pod that ends earlier uses nothing from then on; a later pod does not count. [cores or bytes]
        """
        result = np.zeros(end - start)
        starts, ends = self._times
        for low, high in _between(np.concatenate([starts, ends]), start, end):
            used = np.zeros(high + horizon_steps - low)
            for place in np.flatnonzero((starts <= low) & (low < ends)).tolist():
                self.pods[place].add_to(used, low)
                if ends[place] <= high:
                    self.pods[place].forget()
            result[low - start : high - start] = ahead_max(used, horizon_steps + 1)[: high - low]
        return result

    def segments(self, cold_seconds: float, start: int, end: int) -> Iterator[Segment]:
        """The time from a step to before another, cut where pods come, go or get warm: observed for cold_seconds."""
        starts, ends = self._times
        warm_from = np.array([self._warm_from(pod, cold_seconds) for pod in self.pods], dtype=np.intp)
        for low, high in _between(np.concatenate([starts, ends, warm_from]), start, end):
            here = (starts <= low) & (low < ends)
            warm = np.flatnonzero(here & (warm_from <= low))
            cold = np.flatnonzero(here & (warm_from > low))
            if not warm.size:
                yield Segment(low, high, None, cold)
                continue
            length = max(_SEGMENT_VALUES // warm.size, 1)
            for first in range(low, high, length):
                after = min(first + length, high)
                yield Segment(first, after, self._view(warm, first, after), cold)

    def cold(self, segment: Segment, rule: WorkloadHistoryRule | None) -> FloatArray:
        """The sum for the cold pods of a segment, shape (N,): each counts at its limit or at its workload's history.

        It counts at least at its own highest average. [cores or bytes]
        """
        limits, steps = self._pod_limits[segment.cold], segment.end - segment.start
        if self.history is None or rule is None or not segment.cold.size:
            return np.full(steps, limits.sum())
        workloads = [self.lifetimes[place].workload for place in segment.cold.tolist()]
        highest = np.stack(
            [self.history.highest(workload, rule, segment.start, segment.end) for workload in workloads], axis=-1
        )
        used = self.columns.values(
            "ever", lambda pod, _row: pod.highest_ever(), segment.cold, segment.start, segment.end
        )
        counted: FloatArray = np.minimum(np.maximum(rule.margin * highest, used), limits).sum(axis=-1)
        return counted

    def _view(self, warm: IntArray, start: int, end: int) -> SegmentView:
        places = warm.tolist()
        return SegmentView(
            resource=self.trace.resource,
            step_seconds=self.trace.step_seconds,
            start=start,
            end=end,
            pods=[self.pods[place] for place in places],
            places=warm,
            columns=self.columns,
            series=self.series,
            requests=self._pod_limits[warm],
            statistics=self.statistics,
        )

    def _warm_from(self, pod: PodHistory, cold_seconds: float) -> int:
        """The first step at which a pod is warm, as `ResourceHistory.warm` defines it; the end when it never is."""
        observed = pod.observed()
        warm = (observed * self.trace.step_seconds >= cold_seconds - _ROUNDING) & (observed > MINIMUM_EFFECTIVE_SAMPLES)
        return pod.start + int(warm.argmax()) if warm.any() else pod.end


def machines(
    trace: Trace,
    placements: Sequence[Placement],
    *,
    workload_history: WorkloadHistory,
    learning: Callable[[float], None] = lambda _share: None,
) -> Iterator[Machine]:
    """The machines of the placements, one after the other.

    Args:
        trace: of their pods.
        placements: where those are.
        workload_history: where the workload's history that a new pod knows comes from.
        learning: called now and then, while moments or histograms are learned, with the share that is done, 0..1.
    """
    inherits = workload_history != "none"
    group = _Group(trace, learning, workload_history=inherits)
    for placement in placements:
        history = ClusterHistory(trace, placement) if workload_history == "cluster" else None
        by_machine: list[list[PodLifetime]] = [[] for _ in placement.machines]
        for lifetime in placement.lifetimes:
            by_machine[lifetime.machine].append(lifetime)
        for name, lifetimes in zip(placement.machines, by_machine, strict=True):
            if group.values >= GROUP_VALUES:
                yield from group.machines()
                group = _Group(trace, learning, workload_history=inherits)
            group.add(name, lifetimes, history)
    yield from group.machines()


class _Group:
    """Machines whose pods learn together. A series on several of them, from and to the same step, counts once."""

    def __init__(self, trace: Trace, learning: Callable[[float], None], *, workload_history: bool) -> None:
        self.values = 0  # averages of all rows
        self._trace, self._learning, self._workload_history = trace, learning, workload_history
        self._rows: list[Row] = []
        self._known: dict[PodLifetime, int] = {}
        self._machines: list[
            tuple[str, list[PodLifetime], list[int], list[int | None], int, ClusterHistory | None]
        ] = []

    def add(self, name: str, lifetimes: list[PodLifetime], history: ClusterHistory | None) -> None:
        """Add a machine."""
        usages = [self._usage(lifetime) for lifetime in lifetimes]
        inherited = self._sources(lifetimes, usages)
        rows: list[int] = []
        for lifetime, values, source in zip(lifetimes, usages, inherited, strict=True):
            alone = PodLifetime(lifetime.series, 0, lifetime.start, lifetime.end)
            row = self._known.get(alone) if source is None else None
            if row is None:
                row = self._add(Row(lifetime.start, values, None if source is None else rows[source]))
                if source is None:
                    self._known[alone] = row
            rows.append(row)
        series = self._add(self._together(lifetimes, usages))
        self._machines.append((name, lifetimes, rows, inherited, series, history))

    def machines(self) -> Iterator[Machine]:
        """The machines added."""
        statistics = StatisticsReplay(self._trace.resource, self._trace.step_seconds, self._rows, self._learning)
        for name, lifetimes, rows, inherited, series, history in self._machines:
            values = [self._rows[row].values for row in rows]
            pods = tuple(histories(lifetimes, values, inherited))
            columns = PodColumns(self._trace.steps, pods, rows)
            yield Machine(name, self._trace, tuple(lifetimes), pods, columns, series, statistics, history)

    def _add(self, row: Row) -> int:
        self._rows.append(row)
        self.values += max(len(row.values), _ROW_VALUES)
        return len(self._rows) - 1

    def _usage(self, lifetime: PodLifetime) -> FloatArray:
        return np.ascontiguousarray(self._trace.usage[lifetime.start : lifetime.end, lifetime.series])

    def _sources(self, lifetimes: list[PodLifetime], own: list[FloatArray]) -> list[int | None]:
        if not self._workload_history:
            return [None] * len(lifetimes)
        counts = [np.append(0, np.cumsum(~np.isnan(values))) for values in own]

        def observed(place: int, step: int) -> int:
            return int(counts[place][min(max(step - lifetimes[place].start, 0), len(own[place]))])

        return sources(lifetimes, observed, self._trace.step_seconds)

    def _together(self, lifetimes: list[PodLifetime], own: list[FloatArray]) -> Row:
        """All pods of a machine: unknown where one of them is, nothing while there is none."""
        sums, there = np.zeros(self._trace.steps), np.zeros(self._trace.steps, dtype=np.bool_)
        for lifetime, values in zip(lifetimes, own, strict=True):
            sums[lifetime.start : lifetime.end] += values
            there[lifetime.start : lifetime.end] = True
        return Row(0, np.where(there, sums, np.nan))


def histories(
    lifetimes: Sequence[PodLifetime], own: Sequence[FloatArray], inherited: Sequence[int | None]
) -> Iterator[PodHistory]:
    """The history of each lifetime: its own averages, and before them those of the lifetime that it inherits from."""
    made: list[PodHistory] = []
    lines: dict[int, _HistoryChain] = {}
    last: dict[str | None, int] = {}
    for lifetime in lifetimes:
        last[lifetime.workload] = max(last.get(lifetime.workload, 0), lifetime.end)
    for place, (lifetime, values, source) in enumerate(zip(lifetimes, own, inherited, strict=True)):
        if source is None:
            made.append(PodHistory(values, lifetime.start, lifetime.start))
            continue
        line = lines.get(source)
        if line is None or line.last != source or lifetimes[source].end > lifetime.start:
            line = _HistoryChain(made[source], max(made[source].end, last[lifetime.workload]))
        made.append(line.extend(place, lifetime, values))
        lines[place] = line
    yield from made


class _HistoryChain:
    """Pods that inherit from one another, one after the other: they share the memory of their past."""

    def __init__(self, first: PodHistory, end: int) -> None:
        self.last = -1  # the place of the last one
        self._origin = first.origin
        self._values = np.full(end - first.origin, np.nan)
        self._values[: len(first.values)] = first.values

    def extend(self, place: int, lifetime: PodLifetime, values: FloatArray) -> PodHistory:
        """Append the next pod."""
        self.last = place
        begin = lifetime.start - self._origin
        self._values[begin:] = np.nan  # of one that continues, only earlier values count
        self._values[begin : begin + len(values)] = values
        return PodHistory(self._values[: begin + len(values)], self._origin, lifetime.start)


def _between(cuts: IntArray, start: int, end: int) -> Iterator[tuple[int, int]]:
    inside = np.unique(np.concatenate([[start, end], cuts[(cuts > start) & (cuts < end)]]))
    yield from zip(inside[:-1].tolist(), inside[1:].tolist(), strict=True)

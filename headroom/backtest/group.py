"""Machines with their pods, as many at a time as memory allows: histories and statistics for the models."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray
from agent.numerics.history import MINIMUM_EFFECTIVE_SAMPLES
from headroom.backtest.columns import Lanes
from headroom.backtest.history import PodHistory
from headroom.backtest.history_inheritance import sources
from headroom.backtest.placement import Placement
from headroom.backtest.replay import Row, Stepping
from headroom.backtest.rolling_window import ahead_max
from headroom.backtest.trace import Stay, Trace
from headroom.backtest.view import SegmentView

GROUP_VALUES: Final = 2**23
"""As many averages, of pods and machines, are held together."""
_SEGMENT_VALUES: Final = 2**20
_ROW_VALUES: Final = 256  # the histogram of a pod takes as much, however short its stay
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Segment:
    """A time during which the same pods are on a machine, and the same of them warm."""

    start: int
    """First step."""
    end: int
    """The step after the last one."""
    view: SegmentView | None
    """The warm pods; None when there is none."""
    cold: float
    """Sum of the limits of the others. [cores or bytes]"""

    def forget(self) -> None:
        """Free what was computed of pods that are not there any more afterwards."""
        for pod in () if self.view is None else self.view.pods:
            if pod.end <= self.end:
                pod.forget()


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of one placement."""

    name: str
    """Its name."""
    trace: Trace
    """Whose series its pods are."""
    stays: tuple[Stay, ...]
    """Its pods, P of them."""
    pods: tuple[PodHistory, ...]
    """What is known of each."""
    lanes: Lanes
    """What each answers."""
    series: int
    """The row of all of them together."""
    statistics: Stepping
    """Moments and histograms."""

    @property
    def starts(self) -> IntArray:
        """First step of each pod, shape (P,)."""
        return np.array([stay.start for stay in self.stays], dtype=np.intp)

    @property
    def ends(self) -> IntArray:
        """The step after the last one of each pod, shape (P,)."""
        return np.array([stay.end for stay in self.stays], dtype=np.intp)

    @property
    def pod_limits(self) -> FloatArray:
        """The limit of each pod, shape (P,). [cores or bytes]"""
        return self.trace.limits[[stay.series for stay in self.stays]]

    def limits(self, start: int, end: int) -> FloatArray:
        """Sum of the limits of what is there at each step, shape (N,). [cores or bytes]"""
        found = np.zeros(end - start)
        for stay, limit in zip(self.stays, self.pod_limits.tolist(), strict=True):
            found[max(stay.start - start, 0) : max(stay.end - start, 0)] += limit
        return found

    def oracle(self, start: int, end: int, horizon_steps: int) -> FloatArray:
        """The highest that the pods there at a step use together, from then to the end of the horizon, shape (N,).

        A pod that leaves before uses nothing from then on; who comes later does not count. [cores or bytes]
        """
        found = np.zeros(end - start)
        starts, ends = self.starts, self.ends
        for low, high in _between(np.concatenate([starts, ends]), start, end):
            used = np.zeros(high + horizon_steps - low)
            for place in np.flatnonzero((starts <= low) & (low < ends)).tolist():
                self.pods[place].add_to(used, low)
                if ends[place] <= high:
                    self.pods[place].forget()
            found[low - start : high - start] = ahead_max(used, horizon_steps + 1)[: high - low]
        return found

    def segments(self, cold_seconds: float, start: int, end: int) -> Iterator[Segment]:
        """The time from a step to before another, cut where pods come, go or get warm.

        Args:
            cold_seconds: a pod is cold until it was observed this long. [s]
            start: first step.
            end: the step after the last one.
        """
        starts, ends, limits = self.starts, self.ends, self.pod_limits
        warm_from = np.array([self._warm_from(pod, cold_seconds) for pod in self.pods], dtype=np.intp)
        for low, high in _between(np.concatenate([starts, ends, warm_from]), start, end):
            here = (starts <= low) & (low < ends)
            warm = np.flatnonzero(here & (warm_from <= low))
            cold = float(limits[here & (warm_from > low)].sum())
            if not warm.size:
                yield Segment(low, high, None, cold)
                continue
            length = max(_SEGMENT_VALUES // warm.size, 1)
            for first in range(low, high, length):
                after = min(first + length, high)
                yield Segment(first, after, self._view(warm, first, after), cold)

    def _view(self, warm: IntArray, start: int, end: int) -> SegmentView:
        places = warm.tolist()
        return SegmentView(
            resource=self.trace.resource,
            step_seconds=self.trace.step_seconds,
            start=start,
            end=end,
            pods=[self.pods[place] for place in places],
            places=warm,
            lanes=self.lanes,
            series=self.series,
            requests=self.pod_limits[warm],
            statistics=self.statistics,
        )

    def _warm_from(self, pod: PodHistory, cold_seconds: float) -> int:
        """The first step at which a pod is warm, as `ResourceHistory.warm` says it; the end when it never is."""
        seen = pod.observed()
        warm = (seen * self.trace.step_seconds >= cold_seconds - _ROUNDING) & (seen > MINIMUM_EFFECTIVE_SAMPLES)
        return pod.start + int(warm.argmax()) if warm.any() else pod.end


def machines(
    trace: Trace,
    placements: Sequence[Placement],
    *,
    workload_history: bool,
    learning: Callable[[float], None] = lambda _share: None,
) -> Iterator[Machine]:
    """The machines of the placements, one after the other.

    Args:
        trace: whose series their pods are.
        placements: where those are.
        workload_history: whether a new pod goes on with the history of its workload.
        learning: told every now and then, while moments or histograms are learned, how much of the time was gone
            through, 0..1.
    """
    group = _Group(trace, learning, workload_history=workload_history)
    for placement in placements:
        own: list[list[Stay]] = [[] for _ in placement.machines]
        for stay in placement.stays:
            own[stay.machine].append(stay)
        for name, stays in zip(placement.machines, own, strict=True):
            if group.values >= GROUP_VALUES:
                yield from group.machines()
                group = _Group(trace, learning, workload_history=workload_history)
            group.add(name, stays)
    yield from group.machines()


class _Group:
    """Machines whose pods learn side by side. A series that is on several of them, from and to the same step, once."""

    def __init__(self, trace: Trace, learning: Callable[[float], None], *, workload_history: bool) -> None:
        self.values = 0
        """Averages of all rows."""
        self._trace = trace
        self._learning = learning
        self._workload_history = workload_history
        self._rows: list[Row] = []
        self._known: dict[Stay, int] = {}
        self._machines: list[tuple[str, list[Stay], list[int], list[int | None], int]] = []

    def add(self, name: str, stays: list[Stay]) -> None:
        """Take in a machine."""
        own = [self._usage(stay) for stay in stays]
        inherited = self._sources(stays, own)
        rows: list[int] = []
        for stay, values, source in zip(stays, own, inherited, strict=True):
            alone = Stay(stay.series, 0, stay.start, stay.end)
            row = self._known.get(alone) if source is None else None
            if row is None:
                row = self._add(Row(stay.start, values, None if source is None else rows[source]))
                if source is None:
                    self._known[alone] = row
            rows.append(row)
        self._machines.append((name, stays, rows, inherited, self._add(self._together(stays, own))))

    def machines(self) -> Iterator[Machine]:
        """The machines taken in."""
        statistics = Stepping(self._trace.resource, self._trace.step_seconds, self._rows, self._learning)
        for name, stays, rows, inherited, series in self._machines:
            own = [self._rows[row].values for row in rows]
            pods = tuple(histories(stays, own, inherited))
            lanes = Lanes(self._trace.steps, pods, rows)
            yield Machine(name, self._trace, tuple(stays), pods, lanes, series, statistics)

    def _add(self, row: Row) -> int:
        self._rows.append(row)
        self.values += max(len(row.values), _ROW_VALUES)
        return len(self._rows) - 1

    def _usage(self, stay: Stay) -> FloatArray:
        return np.ascontiguousarray(self._trace.usage[stay.start : stay.end, stay.series])

    def _sources(self, stays: list[Stay], own: list[FloatArray]) -> list[int | None]:
        if not self._workload_history:
            return [None] * len(stays)
        counts = [np.append(0, np.cumsum(~np.isnan(values))) for values in own]

        def observed(place: int, step: int) -> int:
            return int(counts[place][min(max(step - stays[place].start, 0), len(own[place]))])

        return sources(stays, observed, self._trace.step_seconds)

    def _together(self, stays: list[Stay], own: list[FloatArray]) -> Row:
        """All pods of a machine: unknown where one of them is, nothing while there is none."""
        sums, there = np.zeros(self._trace.steps), np.zeros(self._trace.steps, dtype=np.bool_)
        for stay, values in zip(stays, own, strict=True):
            sums[stay.start : stay.end] += values
            there[stay.start : stay.end] = True
        return Row(0, np.where(there, sums, np.nan))


def histories(
    stays: Sequence[Stay], own: Sequence[FloatArray], inherited: Sequence[int | None]
) -> Iterator[PodHistory]:
    """Of each stay what it knows: its own averages, and before them those of the stay that it inherits from.

    Args:
        stays: in order of their beginning.
        own: the averages of each, from its beginning to its end.
        inherited: for each, the place of the stay that it inherits from.
    """
    made: list[PodHistory] = []
    lines: dict[int, _Line] = {}
    last: dict[str | None, int] = {}
    for stay in stays:
        last[stay.workload] = max(last.get(stay.workload, 0), stay.end)
    for place, (stay, values, source) in enumerate(zip(stays, own, inherited, strict=True)):
        if source is None:
            made.append(PodHistory(values, stay.start, stay.start))
            continue
        line = lines.get(source)
        if line is None or line.last != source or stays[source].end > stay.start:
            line = _Line(made[source], max(made[source].end, last[stay.workload]))
        made.append(line.goes_on(place, stay, values))
        lines[place] = line
    yield from made


class _Line:
    """Pods that go on with one another's history, one after the other: they share the memory of their past."""

    def __init__(self, first: PodHistory, end: int) -> None:
        self.last = -1
        """The place of the one that went on last."""
        self._origin = first.origin
        self._values = np.full(end - first.origin, np.nan)
        self._values[: len(first.values)] = first.values

    def goes_on(self, place: int, stay: Stay, values: FloatArray) -> PodHistory:
        """The next one."""
        self.last = place
        begin = stay.start - self._origin
        self._values[begin:] = np.nan  # of one that lives on, only what was before counts
        self._values[begin : begin + len(values)] = values
        return PodHistory(self._values[: begin + len(values)], self._origin, stay.start)


def _between(cuts: IntArray, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts from one step to before another into which cuts divide the time from start to end."""
    inside = np.unique(np.concatenate([[start, end], cuts[(cuts > start) & (cuts < end)]]))
    yield from zip(inside[:-1].tolist(), inside[1:].tolist(), strict=True)

"""Replays the agent's own moments and histograms through time for many pods and machines at once.

Each step is a training round: every row that has a value learns it. A statistic is recorded at every step when a
model first requests it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from agent.api import FloatArray, IntArray, ResourceHistory, cpu_history, memory_history, whole_percentiles
from kubectl_headroom.backtest.trace import Resource

_NEW: Final = {"cpu": cpu_history, "memory": memory_history}
_PROGRESS_EVERY: Final = 288
_Query = Callable[[ResourceHistory, IntArray], tuple[FloatArray, ...]]


@dataclass(frozen=True, slots=True)
class Row:
    """A learned series: one pod, or all pods of a machine together."""

    start: int
    values: FloatArray  # the learned values at each step from the first on, NaN for none, shape (N,) [cores or bytes]
    source: int | None = None  # the row of the inherited history, which begins earlier; None for none


class StatisticsReplay:
    """Statistics of rows at the steps start <= t < end; nothing is computed before it is requested."""

    def __init__(
        self, resource: Resource, step_seconds: float, rows: Sequence[Row], progress: Callable[[float], None]
    ) -> None:
        """Progress is called now and then with the share of the time that is done, 0..1."""
        self._progress, self._resource, self._step_seconds, self._rows = progress, resource, step_seconds, rows
        lengths = np.array([len(row.values) for row in rows], dtype=np.intp)
        starts = np.array([row.start for row in rows], dtype=np.intp)
        # The value of row r at step t is at place _places[r] + t.
        self._places = np.append(0, np.cumsum(lengths))[:-1].astype(np.intp) - starts
        self._values = np.concatenate([row.values for row in rows]) if rows else np.empty(0)
        self._moments = cache(
            lambda: self._recorded(lambda history, own: (history.moments.mean(own), history.moments.stdev(own)), 2)
        )
        self._percentiles = cache(
            lambda percent: self._recorded(lambda history, own: (whole_percentiles(history, own, percent),), 1)
        )

    def mean(self, row: int, start: int, end: int) -> FloatArray:
        return self._of(self._moments()[0], row, start, end)

    def stdev(self, row: int, start: int, end: int) -> FloatArray:
        return self._of(self._moments()[1], row, start, end)

    def percentile(self, row: int, percent: float, start: int, end: int) -> FloatArray:
        """Percentile of a row, in whole units; NaN while it saw nothing."""
        return self._of(self._percentiles(percent)[0], row, start, end)

    def _of(self, recorded: FloatArray, row: int, start: int, end: int) -> FloatArray:
        return recorded[self._places[row] + start : self._places[row] + end]

    def _recorded(self, query: _Query, count: int) -> tuple[FloatArray, ...]:
        """Results of the query for every row at every step, in the order of the values."""
        history = _NEW[self._resource]()
        history.windows.resize(1)  # window maxima are not requested
        history.grow(len(self._rows))
        recorded = tuple(np.empty_like(self._values) for _ in range(count))
        for step, active in self._active(history):
            places = self._places[active] + step
            values = self._values[places]
            there = ~np.isnan(values)
            learning, values = (active, values) if there.all() else (active[there], values[there])
            measured = np.full(len(learning), self._step_seconds)
            history.learn(learning, values, (step + 1) * self._step_seconds, measured)
            for table, values in zip(recorded, query(history, active), strict=True):
                table[places] = values
        return recorded

    def _active(self, history: ResourceHistory) -> Iterator[tuple[int, IntArray]]:
        """Every step with the rows that are there; a row with a source inherits its history on arrival."""
        arrivals, departures = defaultdict(list), defaultdict(list)
        for number, row in enumerate(self._rows):
            arrivals[row.start].append(number)
            departures[row.start + len(row.values)].append(number)
        last = max(departures, default=0)
        present: set[int] = set()
        active = np.empty(0, dtype=np.intp)
        for step in range(min(arrivals, default=0), last):
            if step % _PROGRESS_EVERY == 0:
                self._progress(step / last)
            if step in arrivals or step in departures:
                present = (present - set(departures[step])) | set(arrivals[step])
                active = np.array(sorted(present), dtype=np.intp)
            for number in arrivals.get(step, ()):
                source = self._rows[number].source
                if source is not None:
                    history.copy(source, number)
            if active.size:
                yield step, active

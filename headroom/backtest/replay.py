"""The agent's own moments and histograms, stepped through time for many pods and machines at once.

Each step is a training round: every row that has a value learns it. What a model may ask for is noted down at every
step, when it is asked for the first time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray
from agent.numerics.history import ResourceHistory, cpu_history, memory_history
from agent.predictors.base import whole_percentiles
from headroom.backtest.trace import Resource

_NEW: Final = {"cpu": cpu_history, "memory": memory_history}
_TOLD_EVERY: Final = 288
_Ask = Callable[[ResourceHistory, IntArray], tuple[FloatArray, ...]]


@dataclass(frozen=True, slots=True)
class Row:
    """Who learns: a pod, or all pods of a machine together."""

    start: int
    """From which step on."""
    values: FloatArray
    """What it learns at each step from then on, NaN for nothing, shape (N,). [cores or bytes]"""
    source: int | None = None
    """Row whose history it goes on with; None for nobody's. That row begins before it."""


class Stepping:
    """Statistics of rows: see `headroom.backtest.view.Statistics`."""

    def __init__(
        self, resource: Resource, step_seconds: float, rows: Sequence[Row], told: Callable[[float], None]
    ) -> None:
        """Nothing is computed before it is asked for.

        Args:
            resource: which resource.
            step_seconds: time from one step to the next. [s]
            rows: who learns.
            told: told every now and then how much of the time was gone through, 0..1.
        """
        self._told = told
        self._resource = resource
        self._step_seconds = step_seconds
        self._rows = rows
        lengths = np.array([len(row.values) for row in rows], dtype=np.intp)
        starts = np.array([row.start for row in rows], dtype=np.intp)
        # The value of row r at step t stands at place _places[r] + t.
        self._places = np.append(0, np.cumsum(lengths))[:-1].astype(np.intp) - starts
        self._values = np.concatenate([row.values for row in rows]) if rows else np.empty(0)
        self._moments = cache(lambda: self._noted(_moments, 2))
        self._percentiles = cache(
            lambda percent: self._noted(lambda history, own: (whole_percentiles(history, own, percent),), 1)
        )

    def mean(self, row: int, start: int, end: int) -> FloatArray:
        """Decayed mean of a row at the steps start <= t < end."""
        return self._of(self._moments()[0], row, start, end)

    def stdev(self, row: int, start: int, end: int) -> FloatArray:
        """Decayed standard deviation of a row at those steps."""
        return self._of(self._moments()[1], row, start, end)

    def percentile(self, row: int, percent: float, start: int, end: int) -> FloatArray:
        """Percentile of a row at those steps, in whole units; NaN while it saw nothing."""
        return self._of(self._percentiles(percent)[0], row, start, end)

    def _of(self, noted: FloatArray, row: int, start: int, end: int) -> FloatArray:
        return noted[self._places[row] + start : self._places[row] + end]

    def _noted(self, ask: _Ask, answers: int) -> tuple[FloatArray, ...]:
        """What the history answers about every row at every step, each answer in the order of the values."""
        history = _NEW[self._resource]()
        history.windows.resize(1)  # window maxima are not asked of it
        history.grow(len(self._rows))
        noted = tuple(np.empty_like(self._values) for _ in range(answers))
        for step, active in self._active(history):
            places = self._places[active] + step
            values = self._values[places]
            there = ~np.isnan(values)
            learning, values = (active, values) if there.all() else (active[there], values[there])
            measured = np.full(len(learning), self._step_seconds)
            history.learn(learning, values, (step + 1) * self._step_seconds, measured)
            for table, answer in zip(noted, ask(history, active), strict=True):
                table[places] = answer
        return noted

    def _active(self, history: ResourceHistory) -> Iterator[tuple[int, IntArray]]:
        """Every step with the rows that are there; a row that has a source takes over its history when it comes."""
        coming, going = defaultdict(list), defaultdict(list)
        for number, row in enumerate(self._rows):
            coming[row.start].append(number)
            going[row.start + len(row.values)].append(number)
        last = max(going, default=0)
        present: set[int] = set()
        active = np.empty(0, dtype=np.intp)
        for step in range(min(coming, default=0), last):
            if step % _TOLD_EVERY == 0:
                self._told(step / last)
            if step in coming or step in going:
                present = (present - set(going[step])) | set(coming[step])
                active = np.array(sorted(present), dtype=np.intp)
            for number in coming.get(step, ()):
                source = self._rows[number].source
                if source is not None:
                    history.copy(source, number)
            if active.size:
                yield step, active


def _moments(history: ResourceHistory, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    return history.moments.mean(rows), history.moments.stdev(rows)

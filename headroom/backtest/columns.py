"""Values of a machine's pods at each step, as tables: a column holds one pod after another."""

import heapq
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray
from headroom.backtest.history import PodHistory

PodQuery = Callable[[PodHistory, int], FloatArray]
"""From a pod and its row in the statistics to its values at the steps of its lifetime."""


class PodColumns:
    """Tables of shape (T, columns): as many columns as there are pods at a time."""

    def __init__(self, steps: int, pods: Sequence[PodHistory], rows: Sequence[int]) -> None:
        """Tables are made on first use.

        Args:
            steps: how many steps there are.
            pods: all pods of the machine, in order of their beginning.
            rows: their rows in the statistics.
        """
        self._steps = steps
        self._pods = pods
        self._rows = rows
        self._columns = columns_of(pods)
        self._tables: dict[Hashable, FloatArray] = {}

    def values(self, name: Hashable, query: PodQuery, places: IntArray, start: int, end: int) -> FloatArray:
        """Values of some pods at the steps start <= t < end, at which all of them are there; shape (N, P).

        Args:
            name: key of the table; the query runs once for every pod.
            query: computes the values of one pod.
            places: which pods, shape (P,).
            start: first step.
            end: the step after the last one.
        """
        table = self._tables.get(name)
        if table is None:
            table = np.full((self._steps, int(self._columns.max(initial=-1)) + 1), np.nan)
            for pod, row, column in zip(self._pods, self._rows, self._columns.tolist(), strict=True):
                table[pod.start : pod.end, column] = query(pod, row)
            self._tables[name] = table
        found: FloatArray = table[start:end, self._columns[places]]
        return found


def columns_of(pods: Sequence[PodHistory]) -> IntArray:
    """A column for each pod, so that no two are in one at the same time, and as few columns as that takes."""
    found = np.zeros(len(pods), dtype=np.intp)
    taken: list[tuple[int, int]] = []
    for place, pod in enumerate(pods):
        if taken and taken[0][0] <= pod.start:
            _, column = heapq.heappop(taken)
        else:
            column = len(taken)
        found[place] = column
        heapq.heappush(taken, (pod.end, column))
    return found

"""The highest average of each workload over all machines of a placement, as the manager knows it at each step."""

from collections import defaultdict
from typing import Final

import numpy as np

from agent.api import FloatArray, IntArray, WorkloadHistoryRule
from crds.workload_history import LEAST_HOURS, LONGEST_HOURS
from kubectl_headroom.backtest.placement import Placement
from kubectl_headroom.backtest.trace import PodLifetime, Trace

_HOUR: Final = 3600.0
_ROUNDING: Final = 1e-6


class ClusterHistory:
    """The workloads of one placement. A value is known one step after it was measured, and is never forgotten."""

    def __init__(self, trace: Trace, placement: Placement) -> None:
        self._trace = trace
        self._lifetimes: dict[str, list[PodLifetime]] = defaultdict(list)
        for lifetime in placement.lifetimes:
            if lifetime.workload is not None:
                self._lifetimes[lifetime.workload].append(lifetime)
        self._rises: dict[tuple[str, WorkloadHistoryRule], tuple[IntArray, FloatArray]] = {}

    def highest(self, workload: str | None, rule: WorkloadHistoryRule, start: int, end: int) -> FloatArray:
        """The workload's highest average at steps start <= t < end; infinite while it is unknown. [cores or bytes]"""
        if workload is None or workload not in self._lifetimes:
            return np.full(end - start, np.inf)
        if (workload, rule) not in self._rises:
            self._rises[workload, rule] = self._find_rises(self._lifetimes[workload], rule)
        steps, values = self._rises[workload, rule]
        result: FloatArray = values[np.searchsorted(steps, np.arange(start, end), side="right") - 1]
        return result

    def _find_rises(self, lifetimes: list[PodLifetime], rule: WorkloadHistoryRule) -> tuple[IntArray, FloatArray]:
        """The steps at which the highest average changes, the first of them 0, and its value from then on."""
        highest = np.full(self._trace.steps + 1, -np.inf)
        observed: dict[int, FloatArray] = defaultdict(lambda: np.zeros(self._trace.steps + 1))
        for lifetime in lifetimes:
            values = self._trace.usage[lifetime.start : lifetime.end, lifetime.series]
            steps = slice(lifetime.start + 1, lifetime.end + 1)
            highest[steps] = np.fmax(highest[steps], values)
            observed[lifetime.machine][steps] += ~np.isnan(values)
        highest = np.maximum.accumulate(highest)
        seconds = np.cumsum(list(observed.values()), axis=1) * self._trace.step_seconds + _ROUNDING
        is_known = seconds.sum(axis=0) >= rule.pod_seconds
        is_known &= seconds.max(axis=0) >= LONGEST_HOURS * _HOUR
        is_known &= np.count_nonzero(seconds >= LEAST_HOURS * _HOUR, axis=0) >= rule.nodes
        highest[~is_known] = np.inf
        rises = np.append(0, np.flatnonzero(highest[1:] != highest[:-1]) + 1).astype(np.intp)
        return rises, highest[rises]

"""Whom to wake: pods that would pass now, no more on a node than fit there together, the most important first."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.snapshot.arrays import Snapshot
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.waking.groups import Entry, Group
from scheduler_plugins.waking.waiting import Waiting


@dataclass(frozen=True, slots=True)
class Trial:
    """A snapshot of our own, in which pods are charged where they would go."""

    nodes: Snapshot
    """The snapshot."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """A copy in which charges can be made."""
        return cls(
            replace(
                snapshot,
                in_flight=snapshot.in_flight.copy(),
                in_flight_prod=snapshot.in_flight_prod.copy(),
                in_flight_sums=snapshot.in_flight_sums.copy(),
            )
        )

    def charge(self, row: int, pod: PodRequest) -> None:
        """Charge a pod to a node."""
        self.nodes.in_flight[row] += np.array(pod.estimate, np.int64)
        if pod.prod:
            self.nodes.in_flight_prod[row] += np.array(pod.estimate, np.int64)
        for plugin, amounts in pod.amounts.items():
            self.nodes.in_flight_sums[row, self.nodes.accounts[plugin]] += np.array(amounts, np.int64)


class _Candidates:
    """The nodes that pass for a group, taken in turns so that its pods spread, the best first."""

    def __init__(self, rows: Iterable[int]) -> None:
        self._rows = deque(rows)

    def take(self, passes: Callable[[int], bool]) -> int | None:
        """The next node that still passes; None when none is left."""
        while self._rows:
            row = self._rows.popleft()
            if passes(row):
                self._rows.append(row)
                return row
        return None


def choose(waiting: Waiting, cycle: Cycle, trial: Trial, now: float, most: int) -> Iterator[tuple[Entry, str]]:
    """The pods to wake, each with the node that it would go to.

    Groups for which no node passes any more are not ready any longer.

    Args:
        waiting: the pods.
        cycle: judges them.
        trial: where those that were woken already are charged; those chosen here will be, too.
        now: a clock that never jumps. [s]
        most: how many may be woken. [pods]

    Raises:
        PluginError: a plugin failed.
    """
    queue: list[tuple[int, float, str, int]] = []
    pods: dict[int, deque[Entry]] = {}
    candidates: dict[int, _Candidates] = {}
    groups = [group for group in waiting.groups if group.ready]
    for number, group in enumerate(groups):
        pods[number] = deque(waiting.oldest(group, now, most))
        if pods[number]:
            _push(queue, number, group, pods[number])
    chosen = 0
    while queue and chosen < most:
        number = heapq.heappop(queue)[-1]
        group, entry = groups[number], pods[number][0]
        request = entry.request
        if number not in candidates:
            candidates[number] = _candidates(group, waiting, cycle, trial)
        row = candidates[number].take(lambda row, pod=request: _passes(cycle, trial, pod, row))  # type: ignore[misc]
        if row is None:
            group.ready = False
            continue
        chosen += 1
        pods[number].popleft()
        trial.charge(row, request)
        yield entry, trial.nodes.names[row]
        if pods[number]:
            _push(queue, number, group, pods[number])


def _push(queue: list[tuple[int, float, str, int]], number: int, group: Group, pods: deque[Entry]) -> None:
    heapq.heappush(queue, (-group.pod.priority, pods[0].created, pods[0].key, number))


def _candidates(group: Group, waiting: Waiting, cycle: Cycle, trial: Trial) -> _Candidates:
    rows = waiting.numbers.rows(group.fitting(waiting.numbers.all), trial.nodes)
    nodes = trial.nodes.take(rows)
    passing = np.flatnonzero(cycle.filter(group.pod, nodes).passes)
    scores = cycle.score(group.pod, nodes.take(passing))
    return _Candidates(rows[passing[np.argsort(-scores, kind="stable")]].tolist())


def _passes(cycle: Cycle, trial: Trial, pod: PodRequest, row: int) -> bool:
    return bool(cycle.filter(pod, trial.nodes.take(np.array([row]))).passes[0])

"""Whom to wake: pods that would pass now, no more on a node than fit there together, the most important first."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import numpy as np

from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.requeue.groups import Entry, Group
from scheduler_plugins.requeue.unschedulable import UnschedulablePods
from scheduler_plugins.snapshot.arrays import Snapshot
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.reservations import Reserving

_ONE_BY_ONE: Final = 4
"""So many nodes are tried alone before all that are left are judged at once. [nodes]"""


@dataclass(frozen=True, slots=True)
class Trial:
    """A snapshot of our own, in which pods are charged where they would go."""

    nodes: Snapshot
    """The snapshot."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """A copy in which charges can be made, also in what plugins keep."""
        return cls(
            replace(
                snapshot,
                in_flight=snapshot.in_flight.copy(),
                in_flight_prod=snapshot.in_flight_prod.copy(),
                in_flight_sums=snapshot.in_flight_sums.copy(),
                kept={name: kept.fork() for name, kept in snapshot.kept.items()},
            )
        )

    def charge(self, row: int, pod: PodRequest) -> None:
        """Charge a pod to a node."""
        self.nodes.in_flight[row] += np.array(pod.estimate, np.int64)
        if pod.prod:
            self.nodes.in_flight_prod[row] += np.array(pod.estimate, np.int64)
        for plugin, amounts in pod.amounts.items():
            self.nodes.in_flight_sums[row, self.nodes.accounts[plugin]] += np.array(amounts, np.int64)
        for kept in self.nodes.kept.values():
            if isinstance(kept, Reserving):
                kept.reserve(pod, [self.nodes.names[row]], self.nodes.now)


class _Candidates:
    """The nodes that pass for a group, taken in turns so that its pods spread, the best first."""

    def __init__(self, rows: Iterable[int]) -> None:
        self._rows = deque(rows)

    def take(self, passing: Callable[[Sequence[int]], Sequence[int]]) -> int | None:
        """The next node that still passes; None when none is left.

        Args:
            passing: those of some nodes that pass.
        """
        for _ in range(min(_ONE_BY_ONE, len(self._rows))):
            if passing([self._rows[0]]):
                return self._first()
            self._rows.popleft()
        # One node after the other is full, or the pods have used up what holds for all nodes together.
        self._rows = deque(passing(list(self._rows)) if self._rows else ())
        return self._first() if self._rows else None

    def _first(self) -> int:
        self._rows.rotate(-1)
        return self._rows[-1]


def choose(
    unschedulable: UnschedulablePods,
    cycle: Cycle,
    trial: Trial,
    now: float,
    most: int,
    unjudged: Callable[[Group, Exception], None],
) -> Iterator[tuple[Entry, str]]:
    """The pods to wake, each with the node that it would go to.

    Groups for which no node passes any more, or that cannot be judged, are not ready any longer.

    Args:
        unschedulable: the pods.
        cycle: judges them.
        trial: where those that were woken already are charged; those chosen here will be, too.
        now: a clock that never jumps. [s]
        most: how many may be woken. [pods]
        unjudged: is told of a group that cannot be judged, and why.
    """
    queue: list[tuple[int, float, str, int]] = []
    pods: dict[int, deque[Entry]] = {}
    candidates: dict[int, _Candidates] = {}
    groups = [group for group in unschedulable.groups if group.ready]
    for number, group in enumerate(groups):
        pods[number] = deque(unschedulable.oldest(group, now, most))
        if pods[number]:
            _push(queue, number, group, pods[number])
    chosen = 0
    while queue and chosen < most:
        number = heapq.heappop(queue)[-1]
        group, entry = groups[number], pods[number][0]
        request = entry.request
        try:
            if number not in candidates:
                candidates[number] = _candidates(group, unschedulable, cycle, trial)
            row = candidates[number].take(partial(_passing, cycle, trial, request))
            if row is not None:
                trial.charge(row, request)
        except Exception as error:  # noqa: BLE001 - whatever its pods hold, it stops no other
            unjudged(group, error)
            row = None
        if row is None:
            group.ready = False
            continue
        chosen += 1
        pods[number].popleft()
        yield entry, trial.nodes.names[row]
        if pods[number]:
            _push(queue, number, group, pods[number])


def _push(queue: list[tuple[int, float, str, int]], number: int, group: Group, pods: deque[Entry]) -> None:
    heapq.heappush(queue, (-group.pod.priority, pods[0].created, pods[0].key, number))


def _candidates(group: Group, unschedulable: UnschedulablePods, cycle: Cycle, trial: Trial) -> _Candidates:
    rows = unschedulable.numbers.rows(group.fitting(unschedulable.numbers.all), trial.nodes)
    nodes = trial.nodes.take(rows)
    passing = np.flatnonzero(cycle.filter(group.pod, nodes).passes)
    scores = cycle.score(group.pod, nodes.take(passing))
    return _Candidates(rows[passing[np.argsort(-scores, kind="stable")]].tolist())


def _passing(cycle: Cycle, trial: Trial, pod: PodRequest, rows: Sequence[int]) -> Sequence[int]:
    found = np.array(rows, np.intp)
    passing: Sequence[int] = found[cycle.filter(pod, trial.nodes.take(found)).passes].tolist()
    return passing

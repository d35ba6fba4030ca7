"""Which pod's history a new pod inherits on its machine; the agent's own series index decides, as on a node."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from agent.api import PodRef, SeriesIndex, SeriesIndexLimits
from crds.priority import PriorityBand, QoS
from kubectl_headroom.backtest.trace import PodLifetime

_UPDATE_SECONDS: Final = 3600.0  # longest time between two updates of the series index [s]


def sources(
    lifetimes: Sequence[PodLifetime], observed: Callable[[int, int], int], step_seconds: float
) -> list[int | None]:
    """Return for each pod lifetime on one machine the one that it inherits from; None where it starts a new history.

    Args:
        lifetimes: in order of their beginning.
        observed: how many averages a lifetime (its place in the list) has before a step.
        step_seconds: time from one step to the next. [s]
    """
    named = Counter(lifetime.workload for lifetime in lifetimes if lifetime.workload is not None)
    if not any(count > 1 for count in named.values()):
        return [None] * len(lifetimes)
    return _HistoryInheritance(lifetimes, observed, step_seconds).run()


class _HistoryInheritance:
    """A series index fed with pod arrivals and departures; its rows are pod lifetimes."""

    def __init__(
        self, lifetimes: Sequence[PodLifetime], observed: Callable[[int, int], int], step_seconds: float
    ) -> None:
        self._lifetimes, self._observed, self._step_seconds = lifetimes, observed, step_seconds
        self._step = 0
        self._owners: dict[int, int] = {}
        self._copied: dict[int, int] = {}
        self._found: list[int | None] = [None] * len(lifetimes)
        self._inherited = [0] * len(lifetimes)
        self._index = SeriesIndex(SeriesIndexLimits(), self)

    def run(self) -> list[int | None]:
        """Process every change of the machine's pods, and update once an hour."""
        arrivals, departures = defaultdict(list), defaultdict(list)
        for place, lifetime in enumerate(self._lifetimes):
            arrivals[lifetime.start].append(place)
            departures[lifetime.end].append(place)
        updates = range(min(arrivals), max(arrivals) + 1, max(int(_UPDATE_SECONDS // self._step_seconds), 1))
        here: dict[int, PodRef] = {}
        for self._step in sorted({*arrivals, *departures, *updates}):
            for place in departures.get(self._step, ()):
                here.pop(place, None)
            for place in arrivals.get(self._step, ()):
                workload = self._lifetimes[place].workload
                here[place] = PodRef(str(place), "", str(place), PriorityBand.PROD, QoS.NONE, workload=workload)
            self._index.update(self._step * self._step_seconds, tuple(here.values()))
            for place in arrivals.get(self._step, ()):
                self._record_source(place)
        return self._found

    def _record_source(self, place: int) -> None:
        row = self._index.row(str(place))
        if row is not None:
            source = self._found[place] = self._copied.pop(row, None)
            self._inherited[place] = 0 if source is None else self._known(source)
            self._owners[row] = place

    def clear(self, row: int) -> None:
        self._owners.pop(row, None)
        self._copied.pop(row, None)

    def copy(self, source: int, target: int) -> None:
        """A row continues another's history."""
        # A pod that arrived at this very step has no values of its own yet: its source is inherited.
        lifetime = self._owners.get(source, self._copied.get(source))
        if lifetime is not None:
            self._copied[target] = lifetime

    def evidence(self, row: int) -> float:
        lifetime = self._owners.get(row, self._copied.get(row))
        return 0.0 if lifetime is None else float(self._known(lifetime))

    def _known(self, place: int) -> int:
        return self._inherited[place] + self._observed(place, self._step)

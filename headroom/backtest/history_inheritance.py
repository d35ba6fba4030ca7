"""Whose history a new pod goes on with on its machine: the agent's own roster decides, as it does on a node."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from agent.pods import PodRef
from agent.series_index import SeriesIndex, SeriesIndexLimits
from crds.priority import PriorityBand, QoS
from headroom.backtest.trace import Stay

_LOOK_SECONDS: Final = 3600.0
"""The roster's clock goes on by no more than this from one look to the next. [s]"""


def sources(stays: Sequence[Stay], observed: Callable[[int, int], int], step_seconds: float) -> list[int | None]:
    """For each stay on one machine, the stay that its pod inherits from; None where it begins anew.

    Args:
        stays: in order of their beginning.
        observed: how many averages a stay (its place in the list) has before a step.
        step_seconds: time from one step to the next. [s]
    """
    named = Counter(stay.workload for stay in stays if stay.workload is not None)
    if not any(count > 1 for count in named.values()):
        return [None] * len(stays)
    return _Lineage(stays, observed, step_seconds).run()


class _Lineage:
    """A roster that is told when pods come and go, and whose rows stand for stays."""

    def __init__(self, stays: Sequence[Stay], observed: Callable[[int, int], int], step_seconds: float) -> None:
        self._stays = stays
        self._observed = observed
        self._step_seconds = step_seconds
        self._step = 0
        self._owners: dict[int, int] = {}
        self._copied: dict[int, int] = {}
        self._found: list[int | None] = [None] * len(stays)
        self._inherited = [0] * len(stays)
        self._index = SeriesIndex(SeriesIndexLimits(), self._clear, self._copy)
        self._pods = [
            PodRef(str(place), "", str(place), PriorityBand.PROD, QoS.NONE, workload=stay.workload)
            for place, stay in enumerate(stays)
        ]

    def run(self) -> list[int | None]:
        """Every change of the machine's pods, and a look every hour."""
        coming, going = defaultdict(list), defaultdict(list)
        for place, stay in enumerate(self._stays):
            coming[stay.start].append(place)
            going[stay.end].append(place)
        looks = range(min(coming), max(coming) + 1, max(int(_LOOK_SECONDS // self._step_seconds), 1))
        here: dict[int, PodRef] = {}
        for step in sorted({*coming, *going, *looks}):
            self._step = step
            for place in going.get(step, ()):
                here.pop(place, None)
            here.update({place: self._pods[place] for place in coming.get(step, ())})
            self._index.update(step * self._step_seconds, tuple(here.values()), self._richness)
            for place in coming.get(step, ()):
                self._apply_pods(place)
        return self._found

    def _apply_pods(self, place: int) -> None:
        row = self._index.row(str(place))
        if row is not None:
            source = self._found[place] = self._copied.pop(row, None)
            self._inherited[place] = 0 if source is None else self._known(source)
            self._owners[row] = place

    def _clear(self, row: int) -> None:
        self._owners.pop(row, None)
        self._copied.pop(row, None)

    def _copy(self, source: int, target: int) -> None:
        # One that came at this very step has nothing of its own yet: what it went on with is gone on with.
        stay = self._owners.get(source, self._copied.get(source))
        if stay is not None:
            self._copied[target] = stay

    def _richness(self, row: int) -> float:
        stay = self._owners.get(row, self._copied.get(row))
        return 0.0 if stay is None else float(self._known(stay))

    def _known(self, place: int) -> int:
        """How many averages a stay has before this step, inherited ones included."""
        return self._inherited[place] + self._observed(place, self._step)

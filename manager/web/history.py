"""Numbers of nodes over the last day, in memory. No I/O, no clock.

One point a minute for two hours, one point in ten minutes for a day. A number takes two bytes (half precision: three
significant digits, in cores and GiB), so 5,000 nodes take 37 MiB and a plot is still exact to its last pixel.
"""

from collections.abc import Collection
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


class Series(IntEnum):
    """The recorded series, each for CPU [cores] and memory [GiB]."""

    ALLOCATABLE = 0  # of the Node
    PROD_REQUESTED = 1  # what pods above Mid request
    PROD_PEAK = 2  # predicted peak of Prod pods and system, margin included
    PROD_USAGE = 3  # measured: Prod pods and system, as in the prediction
    USAGE = 4  # measured: the whole node
    MID = 5  # Mid resources that the Node publishes
    MID_REQUESTED = 6  # what bound Mid pods request of them

    @property
    def json_name(self) -> str:
        """The name for programs, as in `kubectl headroom top`: "prodRequested"."""
        first, *others = self.name.lower().split("_")
        return first + "".join(word.title() for word in others)


RESOURCES: Final = ("cpu", "memory")  # the columns of a point per series, in order
WIDTH: Final = len(Series) * len(RESOURCES)  # numbers per point


class Ring(NamedTuple):
    """A resolution: so many steps of some seconds, in the columns of the buffer from `first` on."""

    step_seconds: int
    points: int
    first: int

    @property
    def seconds(self) -> int:
        """Return how far back it goes. [s]"""
        return self.step_seconds * self.points


RINGS: Final = {"2h": Ring(60, 120, 0), "24h": Ring(600, 144, 120)}
"""The resolutions, by how people call them; the finest first."""
_POINTS: Final = sum(ring.points for ring in RINGS.values())
_CHUNK: Final = 256  # Nodes for which memory is taken at a time
_LARGEST: Final = float(np.finfo(np.float16).max)


def at(series: Series, resource: str) -> int:
    return series * len(RESOURCES) + (resource == "memory")


_MEASURED: Final = [at(series, resource) for series in (Series.PROD_USAGE, Series.USAGE) for resource in RESOURCES]
"""Where the largest of a step counts; of everything else the last."""


def nothing() -> Floats:
    return np.full(WIDTH, np.nan, np.float32)


class Plot(NamedTuple):
    """The recorded samples of a series."""

    times: NDArray[np.int64]  # when each step began [unix s]
    values: Floats  # by number of a point, then by time; nan where nothing is known [cores, GiB]

    def trimmed(self, fewest: int) -> "Plot":
        """Without the time before anything was known, but at least so many points.

        A step that has just begun and has no number yet is left out, so that the newest that is shown is known.
        """
        measured = np.flatnonzero(np.isfinite(self.values).any(axis=0))
        end = len(self.times)
        if measured.size and measured[-1] == end - 2:
            end -= 1
        latest = max(end - fewest, 0)
        first = min(int(measured[0]), latest) if measured.size else latest
        return Plot(self.times[first:end], self.values[:, first:end])

    def of(self, series: Series, resource: str) -> Floats:
        result: Floats = self.values[at(series, resource)]
        return result


class History:
    """Points of nodes, and of their sums. One thread writes, any thread reads."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._chunks: list[NDArray[np.float16]] = []
        self._sums = np.full((WIDTH, _POINTS), np.nan, np.float32)  # half precision ends at 65,504 cores
        self._steps = np.full(_POINTS, -1, np.int64)  # which step each column is of, or was

    @property
    def nbytes(self) -> int:
        """Memory of all points. [bytes]"""
        return sum(chunk.nbytes for chunk in self._chunks) + self._sums.nbytes + self._steps.nbytes

    def __contains__(self, node: str) -> bool:
        return node in self._slots

    def put(self, node: str, point: Floats, now: float) -> None:
        """Remember the `WIDTH` numbers of a node [cores, GiB; nan is not known] at a time [unix s]."""
        if node not in self._slots:
            if not self._free:
                first = len(self._chunks) * _CHUNK
                self._chunks.append(np.full((_CHUNK, WIDTH, _POINTS), np.nan, np.float16))
                self._free = list(range(first + _CHUNK - 1, first - 1, -1))
            self._slots[node] = self._free.pop()
        self._write(self._rows(self._slots[node]), np.clip(point, -_LARGEST, _LARGEST), now)

    def put_sum(self, point: Floats, now: float) -> None:
        self._write(self._sums, point, now)

    def keep(self, nodes: Collection[str]) -> None:
        for name in [slot for slot in self._slots if slot not in nodes]:
            self.forget(name)

    def forget(self, node: str) -> None:
        """Forget a node."""
        slot = self._slots.pop(node, None)
        if slot is not None:
            self._rows(slot)[:] = np.nan
            self._free.append(slot)

    def plot(self, node: str, length: str, now: float) -> Plot:
        """A node over one of `RINGS`, up to a time [unix s]."""
        slot = self._slots.get(node)
        return self._read(np.full((WIDTH, _POINTS), np.nan) if slot is None else self._rows(slot), length, now)

    def plot_of_sums(self, length: str, now: float) -> Plot:
        return self._read(self._sums, length, now)

    def _rows(self, slot: int) -> NDArray[np.float16]:
        rows: NDArray[np.float16] = self._chunks[slot // _CHUNK][slot % _CHUNK]
        return rows

    def _write(self, rows: NDArray[np.float16] | Floats, point: Floats, now: float) -> None:
        for ring in RINGS.values():
            step = int(now // ring.step_seconds)
            column = ring.first + step % ring.points
            if self._steps[column] != step:  # what an earlier round has left there goes first
                for chunk in self._chunks:
                    chunk[:, :, column] = np.nan
                self._sums[:, column] = np.nan
                self._steps[column] = step
            largest = np.fmax(rows[_MEASURED, column], point[_MEASURED])
            rows[:, column] = point
            if ring.first:
                rows[_MEASURED, column] = largest

    def _read(self, rows: NDArray[np.generic], length: str, now: float) -> Plot:
        ring = RINGS[length]
        steps = int(now // ring.step_seconds) + np.arange(1 - ring.points, 1)
        columns = ring.first + steps % ring.points
        values = rows[:, columns].astype(np.float32)
        values[:, self._steps[columns] != steps] = np.nan
        return Plot(steps * ring.step_seconds, values)

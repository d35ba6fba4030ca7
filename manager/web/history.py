"""What each node used, needed and sold over the last day: a bounded memory of it. No I/O, no clock.

Two resolutions: one point a minute for two hours, one point in ten minutes for a day. A number takes two bytes (half
precision: three significant digits, in cores and GiB), so 5,000 nodes take 37 MiB and a plot is still exact to its
last pixel.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


class Series(IntEnum):
    """What is remembered, each for CPU [cores] and memory [GiB]."""

    ALLOCATABLE = 0
    """What the Node has for pods."""
    REQUESTED = 1
    """What pods above Mid request."""
    PEAK = 2
    """Predicted peak of Prod pods and system, margin included."""
    USED_BY_PROD = 3
    """Measured: Prod pods and system, which is what the prediction is about."""
    USED = 4
    """Measured: the whole node."""
    OFFERED = 5
    """Mid resources that the Node offers."""
    BOUGHT = 6
    """What bound Mid pods request of them."""

    @property
    def json_name(self) -> str:
        """How programs call it: "usedByProd"."""
        first, *others = self.name.lower().split("_")
        return first + "".join(each.title() for each in others)


RESOURCES: Final = ("cpu", "memory")
"""The columns of a point per series, in order."""
WIDTH: Final = len(Series) * len(RESOURCES)
"""Numbers per point."""

_MEASURED: Final = tuple(
    int(series) * len(RESOURCES) + each
    for series in (Series.USED_BY_PROD, Series.USED)
    for each in range(len(RESOURCES))
)
"""Where the largest of a step counts; of everything else the last."""
_CHUNK: Final = 256
"""Nodes for which memory is taken at a time."""
_LARGEST: Final = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class Ring:
    """One resolution."""

    step_seconds: int
    """Time between two points. [s]"""
    points: int
    """So many are kept."""

    @property
    def seconds(self) -> int:
        """How far back it goes. [s]"""
        return self.step_seconds * self.points


RINGS: Final = {"2h": Ring(60, 120), "24h": Ring(600, 144)}
"""The resolutions, by how people call them."""
_OFFSETS: Final = {"2h": 0, "24h": 120}
_POINTS: Final = sum(ring.points for ring in RINGS.values())
_FINEST_SECONDS: Final = min(ring.step_seconds for ring in RINGS.values())


def at(series: Series, resource: str) -> int:
    """Where a number of a point stands."""
    return series * len(RESOURCES) + (resource == "memory")


def nothing() -> Floats:
    """A point of which nothing is known."""
    return np.full(WIDTH, np.nan, np.float32)


@dataclass(frozen=True, slots=True)
class Plot:
    """What was remembered of something."""

    times: NDArray[np.int64]
    """When each step began. [unix s]"""
    values: Floats
    """By number of a point, then by time; nan where nothing is known. [cores, GiB]"""

    def trimmed(self, fewest: int) -> "Plot":
        """Without the time before anything was known; never shorter than so many points.

        A step that has just begun and has no number yet is left out, so that the newest that is shown is known.
        """
        known = np.flatnonzero(np.isfinite(self.values).any(axis=0))
        end = len(self.times)
        if known.size and known[-1] == end - 2:
            end -= 1
        latest = max(end - fewest, 0)
        first = min(int(known[0]), latest) if known.size else latest
        return Plot(self.times[first:end], self.values[:, first:end])

    def of(self, series: Series, resource: str) -> Floats:
        """One line."""
        found: Floats = self.values[at(series, resource)]
        return found


class History:
    """Points of nodes, and of their sums. One thread writes, any thread reads."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._chunks: list[NDArray[np.float16]] = []
        self._sums = np.full((WIDTH, _POINTS), np.nan, np.float32)  # half precision ends at 65,504 cores
        self._stamps = np.full(
            _POINTS, -1, np.int64
        )  # which step each column is of; it says what has been written over

    @property
    def nbytes(self) -> int:
        """Memory of all points. [bytes]"""
        return sum(chunk.nbytes for chunk in self._chunks) + self._sums.nbytes + self._stamps.nbytes

    def __contains__(self, node: str) -> bool:
        return node in self._slots

    def put(self, node: str, point: Floats, now: float) -> None:
        """Remember a node's numbers of now.

        Args:
            node: its name.
            point: `WIDTH` numbers; nan is not known. [cores, GiB]
            now: the time. [unix s]
        """
        slot = self._slots.get(node)
        if slot is None:
            slot = self._slots[node] = self._take_slot()
        self._write(self._rows(slot), point, now)

    def put_sum(self, point: Floats, now: float) -> None:
        """Remember the sums over all nodes; arguments as of `put`."""
        self._write(self._sums, point, now)

    def keep(self, nodes: Collection[str]) -> None:
        """Forget all other nodes."""
        for name in [each for each in self._slots if each not in nodes]:
            self.forget(name)

    def forget(self, node: str) -> None:
        """Forget a node."""
        slot = self._slots.pop(node, None)
        if slot is not None:
            self._rows(slot)[:] = np.nan
            self._free.append(slot)

    def plot(self, node: str, length: str, now: float) -> Plot:
        """What is remembered of a node.

        Args:
            node: its name.
            length: a key of `RINGS`.
            now: the time. [unix s]
        """
        slot = self._slots.get(node)
        return self._read(np.full((WIDTH, _POINTS), np.nan) if slot is None else self._rows(slot), length, now)

    def plot_of_sums(self, length: str, now: float) -> Plot:
        """What is remembered of the sums; arguments as of `plot`."""
        return self._read(self._sums, length, now)

    def _take_slot(self) -> int:
        if not self._free:
            first = len(self._chunks) * _CHUNK
            self._chunks.append(np.full((_CHUNK, WIDTH, _POINTS), np.nan, np.float16))
            self._free = list(range(first + _CHUNK - 1, first - 1, -1))
        return self._free.pop()

    def _rows(self, slot: int) -> NDArray[np.float16]:
        rows: NDArray[np.float16] = self._chunks[slot // _CHUNK][slot % _CHUNK]
        return rows

    def _write(self, rows: NDArray[np.float16] | Floats, point: Floats, now: float) -> None:
        limit = _LARGEST if rows.dtype == np.float16 else np.inf
        fresh = np.clip(point, -limit, limit)
        for ring, column in self._columns(now):
            if ring.step_seconds > _FINEST_SECONDS:
                known = rows[_MEASURED, column]
                rows[:, column] = fresh
                rows[_MEASURED, column] = np.fmax(known, fresh[[*_MEASURED]])
            else:
                rows[:, column] = fresh

    def _columns(self, now: float) -> Iterator[tuple[Ring, int]]:
        """Where points of now belong; what an earlier round has left there goes first."""
        for length, ring in RINGS.items():
            step = int(now // ring.step_seconds)
            column = _OFFSETS[length] + step % ring.points
            if self._stamps[column] != step:
                for chunk in self._chunks:
                    chunk[:, :, column] = np.nan
                self._sums[:, column] = np.nan
                self._stamps[column] = step
            yield ring, column

    def _read(self, rows: NDArray[np.generic], length: str, now: float) -> Plot:
        ring = RINGS[length]
        last = int(now // ring.step_seconds)
        steps = np.arange(last - ring.points + 1, last + 1)
        columns = _OFFSETS[length] + steps % ring.points
        values = rows[:, columns].astype(np.float32)
        values[:, self._stamps[columns] != steps] = np.nan
        return Plot(steps * ring.step_seconds, values)

"""The history of a resource of many entities: histogram, moments, window averages, evidence.

Everything decays on observed time. A sample stands for the time since the one before it when at least half of that
time was measured, else for what was measured; that, and not the wall clock, is the time that passed for its row. Three
days without the agent age nothing: the first samples afterwards do not outweigh the weeks before.
"""

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from agent.numerics.arrays import FloatArray, IntArray, RowTables
from agent.numerics.histogram import CPU_BUCKETS, MEMORY_BUCKETS, Buckets, HistogramBank
from agent.numerics.maxima import DailyMaxima
from agent.numerics.moments import MomentsBank
from agent.numerics.packing import CheckpointError, pack, unpack
from agent.numerics.peaks import PeakWindows

CPU_HALF_LIFE_SECONDS: Final = 12 * 3600.0  # a CPU sample weighs half as much after this much observed time [s]
MEMORY_HALF_LIFE_SECONDS: Final = 24 * 3600.0  # a memory sample weighs half as much after this much observed time [s]
MINIMUM_EFFECTIVE_SAMPLES: Final = 1.5
"""Below this (two samples, the older one a little decayed) there is no spread to know, however long the span."""
_COVERED: Final = 0.5


class ResourceHistory(RowTables):
    """History of one resource, one row per entity. The caller maps entities to rows."""

    FILLS: ClassVar = {"observed": 0.0, "last": -np.inf}

    def __init__(self, resource: str, units: int, buckets: Buckets, half_life_seconds: float) -> None:
        self.resource = resource  # its name: cpu or memory
        self.units = units
        """Whole units that amounts are reported in, in one unit of this history: 1000 milli-cores in a core."""
        self.histograms = HistogramBank(buckets, half_life_seconds)
        self.moments = MomentsBank(half_life_seconds)
        self.windows = PeakWindows()
        self.maxima = DailyMaxima()
        self._banks: tuple[RowTables, ...] = (self.histograms, self.moments, self.windows, self.maxima)
        self.observed: FloatArray = np.zeros(0)
        self.last: FloatArray = np.full(0, -np.inf)

    def grow(self, rows: int) -> None:
        """Grow to that many rows."""
        super().grow(rows)
        for bank in self._banks:
            bank.grow(rows)

    def clear(self, row: int) -> None:
        """Forget a row."""
        super().clear(row)
        for bank in self._banks:
            bank.clear(row)

    def copy(self, source: int, target: int) -> None:
        """Let one row continue another's history."""
        super().copy(source, target)
        self.last[target] = -np.inf
        for bank in self._banks:
            bank.copy(source, target)

    def learn(self, rows: IntArray, values: FloatArray, now: float, measured_seconds: FloatArray) -> None:
        """Add one training sample to each of the rows. Rows without a measurement are simply not named.

        Args:
            rows: shape (N,), each row at most once.
            values: shape (N,), finite.
            now: when. [seconds since 1970]
            measured_seconds: how much time the samples behind each value cover, shape (N,). [s]
        """
        gap = now - self.last[rows]  # below zero where the clock was set back
        elapsed = np.where((gap > 0.0) & (measured_seconds >= _COVERED * gap), gap, measured_seconds)
        self.observed[rows] += elapsed
        self.last[rows] = now
        self.histograms.add(rows, values, self.observed[rows])
        self.moments.add(rows, values, elapsed)

    def raise_highest(self, rows: IntArray, values: FloatArray, now: float) -> None:
        """Raise the highest value of each of the rows to its highest single sample; no other statistic has it.

        Args:
            rows: shape (N,), each row at most once.
            values: shape (N,), finite.
            now: when. [seconds since 1970]
        """
        self.moments.highest[rows] = np.maximum(self.moments.highest[rows], values)
        self.maxima.add(rows, values, now)

    def warm(self, rows: IntArray, period_seconds: float) -> npt.NDArray[np.bool_]:
        """Return whether each row's evidence covers the period: observed span, and samples enough to know a spread."""
        enough = self.moments.effective_samples(rows) >= MINIMUM_EFFECTIVE_SAMPLES
        return enough & (self.observed[rows] >= period_seconds)

    def checkpoint(self, rows: IntArray) -> bytes:
        """Everything about the rows, in their order, but the averages of whole windows."""
        facts = {"half_life_seconds": self.moments.half_life_seconds, "rows": len(rows)}
        arrays = {name: array[rows] for name, array in self._arrays().items()}
        return pack(
            {**facts, "slot": self.windows.slot, "slots": self.windows.slots, "days": self.maxima.days.tolist()},
            {"bucket_starts": self.histograms.buckets.starts, **arrays},
        )

    def restore(self, data: bytes, rows: IntArray) -> None:
        """Take over a checkpoint, into rows that exist.

        Raises:
            CheckpointError: it is damaged, holds another number of rows, or another kind of history. Nothing changed.
        """
        facts, arrays = unpack(data)
        wanted, like = unpack(self.checkpoint(rows))
        parameters = ("half_life_seconds", "rows")
        if [facts[name] for name in parameters] != [wanted[name] for name in parameters] or {
            name: array.shape for name, array in arrays.items()
        } != {name: array.shape for name, array in like.items()}:
            raise CheckpointError(f"the checkpoint is of another layout: {facts}, expected {wanted}")
        if not np.array_equal(arrays["bucket_starts"], self.histograms.buckets.starts):
            raise CheckpointError("the checkpoint's histograms have other buckets")
        self.windows.resize(int(facts["slots"]))
        self.windows.slot = int(facts["slot"])
        self.maxima.days[:] = facts["days"]
        for name, array in self._arrays().items():
            array[rows] = arrays[name]

    def _arrays(self) -> dict[str, FloatArray]:
        """The name of each row's field in a checkpoint."""
        return {
            "window_sums": self.windows.sums,
            "window_seen": self.windows.seen,
            "daily_maxima": self.maxima.highest,
            "observed": self.observed,
            "last": self.last,
            **{f"histogram_{name}": getattr(self.histograms, name) for name in self.histograms.FILLS},
            **{f"moments_{name}": getattr(self.moments, name) for name in self.moments.FILLS},
        }


def cpu_history() -> ResourceHistory:
    """An empty history of CPU, in cores."""
    return ResourceHistory("cpu", 1000, CPU_BUCKETS, CPU_HALF_LIFE_SECONDS)


def memory_history() -> ResourceHistory:
    """An empty history of memory, in bytes."""
    return ResourceHistory("memory", 1, MEMORY_BUCKETS, MEMORY_HALF_LIFE_SECONDS)

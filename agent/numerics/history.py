"""What was learned about one resource of many entities: histogram, moments, window averages, evidence.

Everything decays on observed time. A sample stands for the time since the one before it when at least half of that
time was measured, else for what was measured; that, and not the wall clock, is the time that passed for its row. Three
days without the agent age nothing: the first samples afterwards do not outweigh the weeks before.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from agent.numerics.arrays import FloatArray, IntArray, grown
from agent.numerics.buckets import CPU_BUCKETS, MEMORY_BUCKETS, Buckets
from agent.numerics.histogram import HistogramBank
from agent.numerics.moments import MomentsBank
from agent.numerics.packing import CheckpointError, pack, unpack
from agent.numerics.peaks import PeakWindows

CPU_HALF_LIFE_SECONDS: Final = 12 * 3600.0
"""A CPU sample weighs half as much after this much observed time. [s]"""
MEMORY_HALF_LIFE_SECONDS: Final = 24 * 3600.0
"""A memory sample weighs half as much after this much observed time. [s]"""
MINIMUM_EFFECTIVE_SAMPLES: Final = 1.5
"""Below this (two samples, the older one a little decayed) there is no spread to know, however long the span."""
_COVERED: Final = 0.5


class ResourceHistory:
    """History of one resource, one row per entity. Whose row it is, the owner knows."""

    def __init__(self, resource: str, units: int, buckets: Buckets, half_life_seconds: float) -> None:
        self.resource = resource
        """Its name: cpu or memory."""
        self.units = units
        """Whole units that amounts are reported in, in one unit of this history: 1000 milli-cores in a core."""
        self.histograms = HistogramBank(buckets, half_life_seconds)
        self.moments = MomentsBank(half_life_seconds)
        self.windows = PeakWindows()
        self.observed: FloatArray = np.zeros(0)
        self.last: FloatArray = np.full(0, -np.inf)

    def grow(self, rows: int) -> None:
        """Make room for that many rows."""
        for bank in (self.histograms, self.moments, self.windows):
            bank.grow(rows)
        self.observed = grown(self.observed, rows, 0.0)
        self.last = grown(self.last, rows, -np.inf)

    def clear(self, row: int) -> None:
        """Forget a row."""
        rows = np.array([row], dtype=np.intp)
        for bank in (self.histograms, self.moments, self.windows):
            bank.clear(rows)
        self.observed[row], self.last[row] = 0.0, -np.inf

    def copy(self, source: int, target: int) -> None:
        """Let one row continue another's history."""
        for bank in (self.histograms, self.moments, self.windows):
            bank.copy(source, target)
        self.observed[target], self.last[target] = self.observed[source], -np.inf

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

    def warm(self, rows: IntArray, period_seconds: float) -> npt.NDArray[np.bool_]:
        """Whether each row's evidence covers the period: observed span, and samples enough to know a spread."""
        enough = self.moments.effective_samples(rows) >= MINIMUM_EFFECTIVE_SAMPLES
        return enough & (self.observed[rows] >= period_seconds)

    def checkpoint(self, rows: IntArray) -> bytes:
        """Everything about the rows, in their order, but the averages of whole windows."""
        facts = {"half_life_seconds": self.moments.half_life_seconds, "rows": len(rows)}
        return pack(
            {**facts, "slot": self.windows.slot, "slots": self.windows.slots},
            {
                "window_sums": self.windows.sums[rows],
                "window_seen": self.windows.seen[rows],
                "observed": self.observed[rows],
                "last": self.last[rows],
                "bucket_starts": self.histograms.buckets.starts,
                "histogram_weights": self.histograms.weights[rows],
                "histogram_totals": self.histograms.totals[rows],
                "histogram_references": self.histograms.references[rows],
                **{f"moments_{name}": column[rows] for name, column in self.moments.arrays().items()},
            },
        )

    def restore(self, data: bytes, rows: IntArray) -> None:
        """Take over a checkpoint, into rows that exist.

        Raises:
            CheckpointError: it is damaged, holds another number of rows, or another kind of history. Nothing changed.
        """
        facts, arrays = unpack(data)
        wanted, like = unpack(self.checkpoint(rows))
        known = ("half_life_seconds", "rows")
        if [facts[name] for name in known] != [wanted[name] for name in known] or {
            name: array.shape for name, array in arrays.items()
        } != {name: array.shape for name, array in like.items()}:
            raise CheckpointError(f"the checkpoint is of another layout: {facts}, expected {wanted}")
        if not np.array_equal(arrays["bucket_starts"], self.histograms.buckets.starts):
            raise CheckpointError("the checkpoint's histograms have other buckets")
        self.windows.resize(int(facts["slots"]))
        self.windows.slot = int(facts["slot"])
        self.windows.sums[rows], self.windows.seen[rows] = arrays["window_sums"], arrays["window_seen"]
        self.observed[rows], self.last[rows] = arrays["observed"], arrays["last"]
        self.histograms.weights[rows] = arrays["histogram_weights"]
        self.histograms.totals[rows] = arrays["histogram_totals"]
        self.histograms.references[rows] = arrays["histogram_references"]
        for name, column in self.moments.arrays().items():
            column[rows] = arrays[f"moments_{name}"]


def cpu_history() -> ResourceHistory:
    """An empty history of CPU, in cores."""
    return ResourceHistory("cpu", 1000, CPU_BUCKETS, CPU_HALF_LIFE_SECONDS)


def memory_history() -> ResourceHistory:
    """An empty history of memory, in bytes."""
    return ResourceHistory("memory", 1, MEMORY_BUCKETS, MEMORY_HALF_LIFE_SECONDS)

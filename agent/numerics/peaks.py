"""Highest 5-minute averages: each entity's own, and of several together at the same time.

    C = max over time of the sum of the averages of the entities asked for       (their highest coincident usage)
    S = sum of each one's own highest average                                    C <= S

The averages are kept in a ring of slots, the newest overwriting the oldest, so that any subset can be asked for at any
time: what departed pods used does not linger in the answer for those present.
"""

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray, SingleArray, grown

SLOT_SECONDS = 300.0
SLOTS = 7 * 288
_ENOUGH = 0.5
_UNKNOWN = -(2**60)


class PeakWindows:
    """A ring of window averages for many entities, shape (R, slots); NaN where too little was measured."""

    def __init__(self, rows: int = 0, slots: int = SLOTS, slot_seconds: float = SLOT_SECONDS) -> None:
        self.slot_seconds = slot_seconds
        self.averages: SingleArray = np.full((rows, slots), np.nan, dtype=np.float32)
        self.sums: FloatArray = np.zeros(rows)
        self.seen: FloatArray = np.zeros(rows)
        self.slot = _UNKNOWN

    def grow(self, rows: int) -> None:
        """Make room for that many rows."""
        self.averages = grown(self.averages, rows, np.nan)
        self.sums = grown(self.sums, rows, 0.0)
        self.seen = grown(self.seen, rows, 0.0)

    def clear(self, rows: IntArray) -> None:
        """Forget everything in these rows."""
        self.averages[rows], self.sums[rows], self.seen[rows] = np.nan, 0.0, 0.0

    def copy(self, source: int, target: int) -> None:
        """Let one row continue another's history: in the slots gone by it stands where the other stood."""
        self.averages[target] = self.averages[source]
        self.sums[target], self.seen[target] = 0.0, 0.0

    def add(self, rows: IntArray, ticks: FloatArray, values: FloatArray, tick_seconds: float) -> None:
        """Add the samples of some ticks.

        A slot counts as soon as half of it was measured: a few seconds of start-up are no 5-minute average.

        Args:
            rows: shape (N,), each row at most once.
            ticks: shape (T,), rising. [seconds since 1970]
            values: shape (N, T), NaN where a sample is missing.
            tick_seconds: time from one tick to the next.
        """
        slots = (ticks // self.slot_seconds).astype(np.int64)
        for slot in np.unique(slots):
            self._turn_to(int(slot))
            part = values[:, slots == slot]
            there = ~np.isnan(part)
            self.sums[rows] += np.where(there, part, 0.0).sum(axis=1)
            self.seen[rows] += there.sum(axis=1)
            seen = self.seen[rows]
            enough = seen * tick_seconds >= _ENOUGH * self.slot_seconds
            averages = np.where(enough, self.sums[rows] / np.maximum(seen, 1.0), np.nan)
            self.averages[rows, self.slot % self.averages.shape[1]] = averages

    def fill(self, row: int, times: FloatArray, averages: FloatArray) -> None:
        """Put averages known from elsewhere into the slots before the current one.

        A slot without the one before it may be a few seconds of start-up, so it is left out.

        Args:
            row: the entity's row.
            times: shape (N,), any time within its slot. [seconds since 1970]
            averages: shape (N,).
        """
        slots = (times // self.slot_seconds).astype(np.int64)
        count = self.averages.shape[1]
        follows = np.append([False], slots[1:] - slots[:-1] == 1)[: len(slots)]
        kept = follows & (slots < self.slot) & (slots > self.slot - count)
        self.averages[row, slots[kept] % count] = averages[kept]

    def highest(self, rows: IntArray, window_seconds: float) -> FloatArray:
        """Each one's own highest average in the window, NaN where there is none. shape (N,)."""
        recent = self.averages[np.ix_(rows, self._columns(window_seconds))]
        highest: FloatArray = np.fmax.reduce(recent, axis=1, initial=np.nan).astype(np.float64)
        return highest

    def coincident(self, rows: IntArray, window_seconds: float) -> float:
        """Highest sum of the averages of these rows in one slot of the window; 0 when there is none."""
        recent = self.averages[np.ix_(rows, self._columns(window_seconds))]
        sums = np.where(np.isnan(recent), np.float32(0.0), recent).sum(axis=0, dtype=np.float64)
        return float(sums.max(initial=0.0))

    def _columns(self, window_seconds: float) -> IntArray:
        """The slots of the window, the current one included."""
        count = self.averages.shape[1]
        wanted = min(max(int(np.ceil(window_seconds / self.slot_seconds)), 1), count)
        columns: IntArray = np.arange(self.slot - wanted + 1, self.slot + 1, dtype=np.intp) % count
        return columns

    def _turn_to(self, slot: int) -> None:
        """Begin a slot, emptying the ones passed over; a clock set back begins its slot again."""
        if slot == self.slot:
            return
        count = self.averages.shape[1]
        passed = min(max(slot - self.slot, 1), count)
        self.averages[:, np.arange(slot - passed + 1, slot + 1) % count] = np.nan
        self.sums[:], self.seen[:] = 0.0, 0.0
        self.slot = slot

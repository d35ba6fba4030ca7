"""Highest 5-minute averages: each entity's own, and of several together at the same time.

    C = max over time of the sum of the averages of the selected entities       (their highest coincident usage)
    S = sum of each one's own highest average                                    C <= S

The averages are kept in a ring of slots, so that any subset can be queried at any time: what departed pods used does
not linger in the result for those present. Every column of the ring knows which slot of the calendar it holds, so a
clock that jumps ahead and back loses nothing: columns outside the window stay until they are reused.
"""

from typing import ClassVar

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray, RowTables, SingleArray

SLOT_SECONDS = 300.0
SLOTS_PER_DAY = 288
SLOTS = 7 * SLOTS_PER_DAY
_ENOUGH = 0.5
_UNKNOWN = -(2**60)


class PeakWindows(RowTables):
    """A ring of window averages for many entities, shape (R, slots); NaN where too little was measured."""

    FILLS: ClassVar = {"averages": np.nan, "sums": 0.0, "seen": 0.0, "_before": np.nan}

    def __init__(self, rows: int = 0, slots: int = SLOTS) -> None:
        self.averages: SingleArray = np.full((rows, slots), np.nan, dtype=np.float32)
        self.labels: IntArray = np.full(slots, _UNKNOWN, dtype=np.intp)
        self.sums: FloatArray = np.zeros(rows)
        self.seen: FloatArray = np.zeros(rows)
        self._before: SingleArray = np.full(rows, np.nan, dtype=np.float32)  # of this slot, when it began again
        self.slot = _UNKNOWN
        self.changed: set[int] = set()  # slots written since this set was cleared, for the next checkpoint

    @property
    def slots(self) -> int:
        return len(self.labels)

    def resize(self, slots: int) -> None:
        """Make the ring longer or shorter; what still fits stays."""
        if slots == self.slots:
            return
        old, labels = self.averages, self.labels
        self.averages = np.full((old.shape[0], slots), np.nan, dtype=np.float32)
        self.labels = np.full(slots, _UNKNOWN, dtype=np.intp)
        columns = np.flatnonzero(labels > _UNKNOWN)
        columns = columns[self._nearest_last(labels[columns])]
        self.averages[:, labels[columns] % slots] = old[:, columns]
        self.labels[labels[columns] % slots] = labels[columns]

    def copy(self, source: int, target: int) -> None:
        """Let a row continue another's history: copy its past slots."""
        super().copy(source, target)
        self.sums[target], self.seen[target] = 0.0, 0.0
        self.changed.add(self.slot)

    def add(self, rows: IntArray, ticks: FloatArray, values: FloatArray, tick_seconds: float) -> None:
        """Add the samples of some ticks.

        A slot counts as soon as half of it was measured: a few seconds of start-up are no 5-minute average.

        Args:
            rows: shape (N,), each row at most once.
            ticks: shape (T,), rising. [seconds since 1970]
            values: shape (N, T), NaN where a sample is missing.
            tick_seconds: time from one tick to the next.
        """
        slots = (ticks // SLOT_SECONDS).astype(np.int64)
        several = slots[0] != slots[-1]
        there = ~np.isnan(values)
        measured = np.where(there, values, 0.0)
        for slot in np.unique(slots) if several else slots[:1]:
            of_slot = slots == slot if several else slice(None)
            self._turn_to(int(slot))
            self.sums[rows] += measured[:, of_slot].sum(axis=1)
            self.seen[rows] += np.count_nonzero(there[:, of_slot], axis=1)
            observed = self.seen[rows]
            enough = observed * tick_seconds >= _ENOUGH * SLOT_SECONDS
            averages = np.where(enough, self.sums[rows] / np.maximum(observed, 1.0), np.nan)
            self.averages[rows, self.slot % self.slots] = np.fmax(averages, self._before[rows])
            self.changed.add(self.slot)

    def fill(self, row: int, times: FloatArray, averages: FloatArray) -> None:
        """Put known averages into the slots before the current one; existing ones stay.

        A slot without the one before it may be a few seconds of start-up, so it is skipped.

        Args:
            row: the entity's row.
            times: shape (N,), any time within its slot. [seconds since 1970]
            averages: shape (N,).
        """
        slots = (times // SLOT_SECONDS).astype(np.int64)
        follows = np.append([False], slots[1:] - slots[:-1] == 1)[: len(slots)]
        recent = follows & (slots < self.slot) & (slots > self.slot - self.slots)
        columns = self._columns_for(slots[recent])
        before = self.averages[row, columns]
        self.averages[row, columns] = np.where(np.isnan(before), averages[recent], before)
        self.changed.update(slots[recent].tolist())

    def read(self, rows: IntArray, slots: IntArray) -> SingleArray:
        """Return the ring's values of these rows in these slots, shape (N, K); NaN for a slot outside of it."""
        columns = slots % self.slots
        result: SingleArray = self.averages[np.ix_(rows, columns)]
        result[:, self.labels[columns] != slots] = np.nan
        return result

    def write(self, rows: IntArray, slots: IntArray, averages: SingleArray) -> None:
        """Put back what `read` gave, shape (N, K); where two slots share a column, the one nearer to now stays."""
        order = self._nearest_last(slots)
        labels = self.labels[slots[order] % self.slots]
        order = order[np.abs(slots[order] - self.slot) <= np.abs(labels - self.slot)]
        self.averages[np.ix_(rows, self._columns_for(slots[order]))] = averages[:, order]

    @property
    def held(self) -> IntArray:
        """The slots that the ring holds, rising; also those that a wrong clock puts out of reach."""
        return np.sort(self.labels[self.labels > _UNKNOWN])

    def recent(self, rows: IntArray, window_seconds: float) -> SingleArray:
        """The averages of these rows in the window, the current slot included, in no order of time. shape (N, K)."""
        wanted = min(max(int(np.ceil(window_seconds / SLOT_SECONDS)), 1), self.slots)
        # Slots dated ahead are of a clock that was set back since: they are as recent as those before.
        columns = np.flatnonzero(np.abs(self.labels - self.slot) < wanted)
        result: SingleArray = self.averages[np.ix_(rows, columns)]
        return result

    def _nearest_last(self, slots: IntArray) -> IntArray:
        """The order of these slots in which those nearest to now come last; of two as near, the later one."""
        return np.lexsort((slots, -np.abs(slots - self.slot)))

    def _columns_for(self, slots: IntArray) -> IntArray:
        """The columns of these slots, emptied where they hold others."""
        columns = slots % self.slots
        reused = columns[self.labels[columns] != slots]
        self.averages[:, reused] = np.nan
        self.labels[columns] = slots
        return columns

    def _turn_to(self, slot: int) -> None:
        """Begin a slot. One that a clock set back begins again stays at least as high as it was."""
        if slot == self.slot:
            return
        column = slot % self.slots
        self._before[:] = self.averages[:, column] if self.labels[column] == slot else np.nan
        self.averages[:, column] = self._before
        self.labels[column] = slot
        self.sums[:], self.seen[:] = 0.0, 0.0
        self.slot = slot

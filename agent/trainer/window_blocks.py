"""The 5-minute averages of all series as checkpoint content: an hour at a time, each written once.

A week of averages is far too much to be written every minute, but of past hours nothing changes. So every hour is a
block of its own, and what a pod inherits from its workload is another one; `content` gives the very same bytes object
for what did not change, and the store writes only what did. Averages are kept under the number of their
history (`SeriesEntry.history_number`), because rows are given to others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from agent.numerics.arrays import IntArray
from agent.numerics.history import ResourceHistory
from agent.numerics.packing import CheckpointError, pack, unpack
from agent.series_index import SeriesEntry

_BLOCK_SLOTS: Final = 12
_BLOCK: Final = "windows/"
_INHERITED: Final = "inherited/"


class WindowBlocks:
    """The saved windows of all resources, and their changes since."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytes] = {}
        self._inherited: dict[int, bytes] = {}
        self.successors: set[int] = set()
        """Rows that continue another's history since the last content: their past is not under their own number."""

    def content(self, histories: Mapping[str, ResourceHistory], entries: Iterable[SeriesEntry]) -> dict[str, bytes]:
        """Return blocks by name, packed again only after a change, of all series that have a row."""
        listed = list(entries)
        changed = {slot // _BLOCK_SLOTS for history in histories.values() for slot in history.windows.changed}
        slots = _held(histories)
        held = set((slots // _BLOCK_SLOTS).tolist())
        blocks = {block: data for block, data in self._blocks.items() if block in held}
        for block in changed & held | held - blocks.keys():
            blocks[block] = _packed(histories, listed, slots[slots // _BLOCK_SLOTS == block])
        for history in histories.values():
            history.windows.changed.clear()
        self._blocks = {block: blocks[block] for block in sorted(blocks)}
        for entry in listed:
            if entry.row in self.successors:
                self._inherited[entry.history_number] = _packed(histories, [entry], slots)
        self.successors.clear()
        present = {entry.history_number for entry in listed}
        self._inherited = {number: data for number, data in self._inherited.items() if number in present}
        return {
            **{f"{_BLOCK}{block}": data for block, data in self._blocks.items()},
            **{f"{_INHERITED}{number}": data for number, data in self._inherited.items()},
        }

    def restore(
        self, content: Mapping[str, bytes], histories: Mapping[str, ResourceHistory], entries: Iterable[SeriesEntry]
    ) -> bool:
        """Restore the result of `content`; the histories have all rows, and their rings are at the slot of that time.

        Returns:
            Whether there were any averages.

        Raises:
            CheckpointError: a block is damaged.
        """
        rows = {entry.history_number: entry.row for entry in entries}
        self._inherited = _numbered(content, _INHERITED)
        self._blocks = _numbered(content, _BLOCK)
        for data in (*self._inherited.values(), *self._blocks.values()):  # a pod's own measurements come last
            _unpacked(data, histories, rows)
        for history in histories.values():
            history.windows.changed.clear()
        return bool(self._blocks)


def _held(histories: Mapping[str, ResourceHistory]) -> IntArray:
    return np.unique(np.concatenate([history.windows.held for history in histories.values()]))


def _packed(histories: Mapping[str, ResourceHistory], entries: Sequence[SeriesEntry], slots: IntArray) -> bytes:
    rows = np.array([entry.row for entry in entries], dtype=np.intp)
    facts = {"histories": [entry.history_number for entry in entries], "slots": slots.tolist()}
    return pack(facts, {metric: history.windows.read(rows, slots) for metric, history in histories.items()})


def _unpacked(data: bytes, histories: Mapping[str, ResourceHistory], rows: Mapping[int, int]) -> None:
    facts, arrays = unpack(data)
    try:
        slots = np.array(facts["slots"], dtype=np.intp)
        there = np.array([number in rows for number in facts["histories"]], dtype=np.bool_)
        known_rows = np.array([rows[number] for number in facts["histories"] if number in rows], dtype=np.intp)
        for metric, history in histories.items():
            history.windows.write(known_rows, slots, arrays[metric][there])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CheckpointError(f"a block of window averages cannot be read: {error}") from error


def _numbered(content: Mapping[str, bytes], prefix: str) -> dict[int, bytes]:
    try:
        return {int(name.removeprefix(prefix)): data for name, data in content.items() if name.startswith(prefix)}
    except ValueError as error:
        raise CheckpointError(f"a block of window averages has no number: {error}") from error

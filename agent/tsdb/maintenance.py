"""What the file needs between ticks, in small steps: compress, merge, forget, give room back."""

import sqlite3
from collections.abc import Iterator

from agent.tsdb import blocks, compaction, persistence, retention
from agent.tsdb.blocks import WHOLE_BLOCK
from agent.tsdb.compaction import Steps
from agent.tsdb.head import Head
from agent.tsdb.persistence import Recent
from agent.tsdb.settings import StoreSettings

_FORGET_EVERY_MS = 600_000


class Upkeep:
    """The work on one open file; each step is short, and may be the last before a crash."""

    def __init__(self, settings: StoreSettings) -> None:
        """Nothing is due yet but the leftovers of a crash."""
        self._settings = settings
        self._swept = False
        self._forgot_ms: int | None = None
        self.minute_days = settings.minute_days
        """How long 1-minute points are kept [days]."""
        self.damaged: dict[tuple[int, int], str] = {}
        """Chunks (block, series) that cannot be read, and why; they are deleted."""
        self.dropped = 0
        """Blocks that went because there was no room."""

    def is_due(self, recent: Recent, now_ms: int) -> bool:
        """Whether there is anything to do."""
        return (
            not self._swept
            or bool(self.damaged)
            or self._is_time_to_forget(now_ms)
            or compaction.rows_to_seal(recent.head, self._settings.block_ticks) > 0
        )

    def work(self, file: sqlite3.Connection, recent: Recent, now_ms: int) -> Steps:
        """Everything that is due, step by step; see `compaction` for what is to be done at each.

        Args:
            file: The open file.
            recent: What of it is in memory.
            now_ms: The time. [milliseconds]
        """
        yield from blocks.sweep(file)
        self._swept = True
        yield from self._delete_damaged(file)
        yield from self._seal(file, recent)
        yield from self._make_room(file)
        yield from compaction.merge(file)
        if self._is_time_to_forget(now_ms):
            self._forgot_ms = now_ms
            yield from retention.forget_old(file, now_ms, self._settings, self.minute_days)
            yield from retention.forget_orphans(file, recent.head.series)
        yield from blocks.sweep(file)
        yield from retention.shrink(file)

    def make_room_at_once(self, file: sqlite3.Connection) -> None:
        """Free a part of a file that has reached its bound, in one transaction; the work in progress must be over."""
        before = self.dropped
        file.execute("BEGIN")
        for gone in retention.make_room(file, self._settings.file_bytes * 7 // 8):
            self.dropped = before + gone
        file.execute("COMMIT")

    def _seal(self, file: sqlite3.Connection, recent: Recent) -> Steps:
        head = recent.head
        if persistence.sealed_through(file) + 1 < head.first_number:
            left, catalog = persistence.stranded(file, head.first_number)
            while len(left):
                yield from compaction.seal(file, left, _rows(left, self._settings.block_ticks), catalog.scale)
        rows = compaction.rows_to_seal(head, self._settings.block_ticks)
        if rows:
            yield from compaction.seal(file, head, rows, recent.catalog.scale)
            recent.catalog.keep(head.series())
        yield from compaction.forget_sealed(file, head, recent.layouts)

    def _make_room(self, file: sqlite3.Connection) -> Iterator[None]:
        before = self.dropped
        for gone in retention.make_room(file, self._settings.full_bytes):
            self.dropped = before + gone
            yield

    def _delete_damaged(self, file: sqlite3.Connection) -> Iterator[None]:
        for block, series in list(self.damaged):
            if series == WHOLE_BLOCK:
                blocks.retire(file, [block])
            else:
                file.execute("DELETE FROM chunks WHERE block = ? AND series = ?", (block, series))
            del self.damaged[block, series]
            yield

    def _is_time_to_forget(self, now_ms: int) -> bool:
        return self._forgot_ms is None or abs(now_ms - self._forgot_ms) >= _FORGET_EVERY_MS


def _rows(head: Head, block_ticks: int) -> int:
    return len(head.oldest_times(block_ticks)[1])

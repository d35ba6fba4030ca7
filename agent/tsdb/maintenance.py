"""Maintenance of the file between ticks, in small steps: compress, merge, expire, free space."""

import sqlite3
from collections.abc import Iterator

from agent.tsdb import blocks, compaction, recent, retention
from agent.tsdb.blocks import WHOLE_BLOCK
from agent.tsdb.recent import Recent
from agent.tsdb.settings import StoreSettings

_EXPIRE_EVERY_MS = 600_000


class Maintenance:
    """The work on one open file; each step is short, and may be the last before a crash."""

    def __init__(self, settings: StoreSettings, minute_days: int, dropped: int = 0) -> None:
        """Nothing is due yet but the leftovers of a crash."""
        self._settings = settings
        self._swept = False
        self._expired_ms: int | None = None
        self.minute_days = minute_days  # how long 1-minute points are kept [days]
        self.damaged: dict[tuple[int, int], str] = {}
        """Chunks (block, series) that cannot be read, and why; they are deleted."""
        self.dropped = dropped  # blocks that were dropped to free space

    def is_due(self, kept: Recent, now_ms: int) -> bool:
        """Return whether there is anything to do."""
        return (
            not self._swept
            or bool(self.damaged)
            or self._expiry_due(now_ms)
            or compaction.ticks_to_flush(kept.head, self._settings.block_ticks) > 0
        )

    def work(self, file: sqlite3.Connection, kept: Recent, now_ms: int) -> Iterator[None]:
        """Everything that is due, step by step, in a transaction that may be committed after each."""
        yield from blocks.sweep(file)
        self._swept = True
        yield from self._delete_damaged(file)
        yield from self._flush(file, kept)
        yield from self._free_space(file, self._settings.full_bytes)
        yield from compaction.merge(file)
        if self._expiry_due(now_ms):
            self._expired_ms = now_ms
            yield from retention.expire(file, now_ms, self._settings.raw_seconds, self.minute_days)
            yield from retention.delete_orphans(file, kept.head.series)
        yield from blocks.sweep(file)
        yield from retention.shrink(file)

    def free_space_at_once(self, file: sqlite3.Connection) -> bool:
        """Free a part of a full file, in one transaction; whether it could. The work in progress must be over."""
        before = self.dropped
        try:
            with file:
                file.execute("BEGIN")
                for _ in self._free_space(file, self._settings.file_bytes * 7 // 8):
                    pass
        except sqlite3.Error:
            self.dropped = before
        return self.dropped > before

    def _flush(self, file: sqlite3.Connection, kept: Recent) -> Iterator[None]:
        head, block_ticks = kept.head, self._settings.block_ticks
        if recent.flushed_through(file) + 1 < head.first_number:
            left = recent.load_unflushed(file, head.first_number)
            while len(left):
                yield from compaction.flush(file, left, len(left.oldest(block_ticks)[1]))
        if rows := compaction.ticks_to_flush(head, block_ticks):
            yield from compaction.flush(file, head, rows)
            kept.catalog.keep(head.series())
        yield from compaction.delete_flushed(file, head.first_number)

    def _free_space(self, file: sqlite3.Connection, limit_bytes: int) -> Iterator[None]:
        before = self.dropped
        for gone in retention.free_space(file, limit_bytes):
            self.dropped = before + gone
            yield

    def _delete_damaged(self, file: sqlite3.Connection) -> Iterator[None]:
        for block, series in list(self.damaged):
            if series == WHOLE_BLOCK:
                blocks.mark_dead(file, [block])
            else:
                file.execute("DELETE FROM chunks WHERE block = ? AND series = ?", (block, series))
            del self.damaged[block, series]
            yield

    def _expiry_due(self, now_ms: int) -> bool:
        return self._expired_ms is None or abs(now_ms - self._expired_ms) >= _EXPIRE_EVERY_MS

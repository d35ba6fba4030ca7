"""Compressed blocks in the database: the times of a stretch once, one chunk per series.

A block is written a few chunks at a time while it is STAGED, counts at once and as a whole when it becomes LIVE, and is
deleted a few chunks at a time when it is DEAD. So no step between two ticks is long, and a crash in the middle leaves
only rows that are never read.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from agent.tsdb import codec
from agent.tsdb.catalog import SeriesSelector
from agent.tsdb.codec import CodecError
from agent.tsdb.schema import DEAD, LIVE, MINUTES, STAGED
from agent.tsdb.segments import Extents, Part
from agent.tsdb.series import Floats, Integers, Points

WHOLE_BLOCK: Final = -1  # in place of a series: all of them

_BATCH = 100
_MANY = 500  # series from which on a block is read through instead of queried one by one
_CHUNKS = (
    "SELECT blocks.id, blocks.run, blocks.times, chunks.series, series.entity, chunks.data FROM blocks "
    "CROSS JOIN chunks ON chunks.block = blocks.id CROSS JOIN series ON series.id = chunks.series "
    "WHERE blocks.tier = :tier AND blocks.state = :live AND blocks.end_ms > :start AND blocks.start_ms <= :end AND %s "
    "ORDER BY blocks.run, blocks.start_ms"
)

OnDamaged: TypeAlias = Callable[[int, int, CodecError], None]
"""Called for a chunk that cannot be read: block, series, why."""


class NewBlock:
    """A block in the making; the caller holds the transaction."""

    def __init__(self, connection: sqlite3.Connection, tier: int, level: int, segment: int, times_ms: Integers) -> None:
        """Stage a block of a tier and segment, merged so often (level), of these times (T,), rising [milliseconds]."""
        self._connection, self._tier, self._times, self._samples = connection, tier, times_ms, 0
        row = (tier, level, STAGED, segment, int(times_ms[0]), int(times_ms[-1]), codec.encode_times(times_ms))
        insert = "INSERT INTO blocks (tier, level, state, run, start_ms, end_ms, times) VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._id = connection.execute(insert, row).lastrowid

    def add(self, series: int, times_ms: Integers, columns: Floats) -> None:
        """Add a series: its times and columns as in `Part` [steps]; nothing when it is empty."""
        if len(times_ms):
            data = encode(self._tier, self._times, times_ms, columns)
            values = (self._id, series, data)
            self._connection.execute("INSERT INTO chunks (block, series, data) VALUES (?, ?, ?)", values)
            self._samples += len(times_ms)

    def publish(self) -> None:
        query = "UPDATE blocks SET state = ?, samples = ? WHERE id = ?"
        self._connection.execute(query, (LIVE, self._samples, self._id))


def mark_dead(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """From now on these blocks do not count; `sweep` deletes them."""
    connection.executemany("UPDATE blocks SET state = ? WHERE id = ?", [(DEAD, block) for block in ids])


def sweep(connection: sqlite3.Connection) -> Iterator[None]:
    """Delete blocks that do not count, a hundred chunks at a time; no block may be in the making."""
    query = "SELECT id FROM blocks WHERE state IN (?, ?) ORDER BY id"
    delete = (
        "DELETE FROM chunks WHERE block = :block AND series IN "
        "(SELECT series FROM chunks WHERE block = :block ORDER BY series LIMIT :batch)"
    )
    for (block,) in connection.execute(query, (STAGED, DEAD)).fetchall():
        while connection.execute(delete, {"block": block, "batch": _BATCH}).rowcount == _BATCH:
            yield
        connection.execute("DELETE FROM blocks WHERE id = ?", (block,))
        yield


def extents(connection: sqlite3.Connection, tier: int) -> Extents:
    """First and last time of each segment [milliseconds]."""
    query = "SELECT run, min(start_ms), max(end_ms) FROM blocks WHERE tier = ? AND state = ? GROUP BY run"
    return {segment: (start, end) for segment, start, end in connection.execute(query, (tier, LIVE))}


def encode(tier: int, block_times_ms: Integers, times_ms: Integers, columns: Floats) -> bytes:
    """A chunk: times and columns of one series as in `Part` [steps]; the block's times must hold all of its own."""
    fields = np.rint(columns).astype(np.int64)
    if tier == MINUTES:
        fields[1] -= fields[0]  # the maximum is stored as its difference to the average
    present = None
    if len(times_ms) < len(block_times_ms):
        present = np.zeros(len(block_times_ms), bool)
        present[np.searchsorted(block_times_ms, times_ms)] = True
    return codec.encode(list(fields), present)


def decode(tier: int, data: bytes, block_times_ms: Integers) -> tuple[Integers, Floats]:
    """Undo `encode`.

    Raises:
        CodecError: It is damaged.
    """
    fields, present = codec.decode(data, 3 if tier == MINUTES else 1, len(block_times_ms))
    if tier == MINUTES:
        fields[1] = fields[1] + fields[0]
    return block_times_ms if present is None else block_times_ms[present], np.array(fields, float)


def points(times_ms: Integers, columns: Floats) -> Points:
    return Points(times_ms, columns[0], columns[1], columns[2].astype(np.int64))


def read(
    connection: sqlite3.Connection,
    tier: int,
    selector: SeriesSelector,
    start_ms: int,
    end_ms: int,
    damaged: OnDamaged,
) -> Iterator[tuple[str, Part]]:
    """Return the values of series with start < time <= end [milliseconds], by entity and block in recording order.

    Unreadable chunks are skipped and passed to `damaged`.
    """
    condition = _series_condition(connection, selector)
    if condition is None:
        return
    scale = codec.steps_per_unit(selector.metric)
    current, times = -1, np.empty(0, np.int64)
    values: dict[str, int | str] = {"tier": tier, "live": LIVE, "start": start_ms, "end": end_ms}
    values |= {"metric": selector.metric, "container": selector.container}
    for block, segment, encoded, series, entity, data in connection.execute(_CHUNKS % condition, values):
        if selector.entities is not None and entity not in selector.entities:
            continue
        if block != current:
            current = block
            try:
                times = codec.decode_times(encoded)
            except CodecError as error:
                times = np.empty(0, np.int64)
                damaged(block, WHOLE_BLOCK, error)
        if not len(times):
            continue
        try:
            own, columns = decode(tier, data, times)
        except CodecError as error:
            damaged(block, series, error)
            continue
        low, high = np.searchsorted(own, (start_ms, end_ms), side="right").tolist()
        if low < high:
            columns = columns[:, low:high]
            columns[: 2 if tier == MINUTES else 1] /= scale
            yield entity, Part(segment, own[low:high], columns)


def _series_condition(connection: sqlite3.Connection, selector: SeriesSelector) -> str | None:
    """The condition that picks the series of a block; None when there are none.

    A few are queried by their numbers, so that nothing else of a block is read. For all series only a block knows
    which are in it, however many the file has: it is read through.
    """
    names = selector.entities
    if names is None or len(names) > _MANY:
        return "series.metric = :metric AND series.container = :container"
    query = "SELECT id FROM series WHERE metric = ? AND container = ? AND entity = ?"
    result = [row for name in names for row in connection.execute(query, (selector.metric, selector.container, name))]
    return f"chunks.series IN ({','.join(str(number) for (number,) in result)})" if result else None

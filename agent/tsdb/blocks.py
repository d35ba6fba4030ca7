"""Compressed blocks in the database: the times of a stretch once, one chunk per series.

A block is written a few chunks at a time while it is STAGED, counts at once and as a whole when it becomes LIVE, and is
deleted a few chunks at a time when it is DEAD. So no step between two ticks is long, and a crash in the middle leaves
only what is never read.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from agent.tsdb import codec
from agent.tsdb.catalog import SeriesSelector
from agent.tsdb.codec import CodecError, steps_per_unit
from agent.tsdb.rollup import Points
from agent.tsdb.schema import DEAD, LIVE, MINUTES, RAW, STAGED
from agent.tsdb.segments import Extents, SegmentSamples
from agent.tsdb.series import Floats, Integers, Series

WHOLE_BLOCK: Final = -1
"""In place of a series: all of them."""

_BATCH = 100
_MANY = 500
"""Series from which on a block is read through instead of queried one by one."""
_CHUNKS = (
    "SELECT blocks.id, blocks.run, blocks.times, chunks.series, series.entity, chunks.data FROM blocks "
    "CROSS JOIN chunks ON chunks.block = blocks.id CROSS JOIN series ON series.id = chunks.series "
    "WHERE blocks.tier = :tier AND blocks.state = :live AND blocks.end_ms > :start AND blocks.start_ms <= :end AND %s "
    "ORDER BY blocks.run, blocks.start_ms"
)

OnDamaged: TypeAlias = Callable[[int, int, CodecError], None]
"""Called for a chunk that cannot be read: block, series, why."""


@dataclass(frozen=True, slots=True)
class BlockRange:
    """What a block covers."""

    tier: int
    """RAW or MINUTES."""
    level: int
    """How often it was merged; 0 as first flushed."""
    segment: int
    """The run that it belongs to."""
    times_ms: Integers
    """shape (T,), rising. [milliseconds]"""


def stage(connection: sqlite3.Connection, block_range: BlockRange) -> int:
    """Begin a block; answers its number. The caller holds the transaction."""
    times = block_range.times_ms
    row = (
        block_range.tier,
        block_range.level,
        STAGED,
        block_range.segment,
        int(times[0]),
        int(times[-1]),
        codec.encode_times(times),
    )
    cursor = connection.execute(
        "INSERT INTO blocks (tier, level, state, run, start_ms, end_ms, samples, times) "
        "VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
        row,
    )
    return int(cursor.lastrowid or 0)


def add(connection: sqlite3.Connection, block: int, series: int, data: bytes) -> None:
    """Add a chunk to a staged block."""
    connection.execute("INSERT INTO chunks (block, series, data) VALUES (?, ?, ?)", (block, series, data))


def publish(connection: sqlite3.Connection, block: int, samples: int) -> None:
    """From now on the block counts.

    Args:
        connection: The open database, in a transaction.
        block: Its number.
        samples: How many samples (or points) its chunks hold.
    """
    connection.execute("UPDATE blocks SET state = ?, samples = ? WHERE id = ?", (LIVE, samples, block))


def mark_dead(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """From now on these blocks do not count; `sweep` deletes them."""
    connection.executemany("UPDATE blocks SET state = ? WHERE id = ?", [(DEAD, one) for one in ids])


def sweep(connection: sqlite3.Connection) -> Iterator[None]:
    """Delete blocks that do not count, a hundred chunks at a time; no block may be in the making."""
    query = "SELECT id FROM blocks WHERE state IN (?, ?) ORDER BY id"
    for (block,) in connection.execute(query, (STAGED, DEAD)).fetchall():
        while True:
            batch = "SELECT series FROM chunks WHERE block = ? LIMIT ?"
            rows = connection.execute(batch, (block, _BATCH)).fetchall()
            connection.executemany(
                "DELETE FROM chunks WHERE block = ? AND series = ?", [(block, row[0]) for row in rows]
            )
            if len(rows) < _BATCH:
                break
            yield
        connection.execute("DELETE FROM blocks WHERE id = ?", (block,))
        yield


def extents(connection: sqlite3.Connection, tier: int) -> Extents:
    """First and last time of each run [milliseconds]."""
    query = "SELECT run, min(start_ms), max(end_ms) FROM blocks WHERE tier = ? AND state = ? GROUP BY run"
    return {segment: (start, end) for segment, start, end in connection.execute(query, (tier, LIVE))}


def encode_raw(times: int, values: Floats, scale: float) -> bytes | None:
    """A chunk of samples, NaN where a tick lacks the series; None when it lacks it everywhere.

    Args:
        times: T, the ticks of the block.
        values: shape (T,).
        scale: Steps per unit.
    """
    there = ~np.isnan(values)
    count = int(np.count_nonzero(there))
    if not count:
        return None
    return codec.encode([codec.to_steps(values[there], scale)], None if count == times else there)


def encode_minutes(times_ms: Integers, points: Points, scale: float) -> bytes:
    """A chunk of 1-minute points; the block's times must hold all of theirs."""
    average = codec.to_steps(points.average, scale)
    above = codec.to_steps(points.highest, scale) - average
    present = None if len(points) == len(times_ms) else np.isin(times_ms, points.starts_ms)
    return codec.encode([average, above, points.count], present)


def decode_raw(data: bytes, times_ms: Integers, scale: float) -> tuple[Integers, Floats]:
    """Times [milliseconds] and values of a chunk of samples.

    Raises:
        CodecError: It is damaged.
    """
    (steps,), present = codec.decode(data, 1, len(times_ms))
    return times_ms if present is None else times_ms[present], steps / scale


def decode_minutes(data: bytes, times_ms: Integers, scale: float) -> Points:
    """The points of a chunk of minutes.

    Raises:
        CodecError: It is damaged.
    """
    (average, above, count), present = codec.decode(data, 3, len(times_ms))
    own = times_ms if present is None else times_ms[present]
    return Points(own, average / scale, (average + above) / scale, count)


def read_raw(
    connection: sqlite3.Connection, selector: SeriesSelector, start_ms: int, end_ms: int, damaged: OnDamaged
) -> Iterator[tuple[str, SegmentSamples]]:
    """Entities and their samples with start < time <= end, block by block as they were recorded.

    Args:
        connection: The open database.
        selector: Which series.
        start_ms: Excluded. [milliseconds]
        end_ms: Included. [milliseconds]
        damaged: Called for chunks that cannot be read, which are left out.
    """
    scale = steps_per_unit(selector.metric)
    for chunk in _read(connection, RAW, selector, start_ms, end_ms, damaged):
        try:
            own, values = decode_raw(chunk.data, chunk.times_ms, scale)
        except CodecError as error:
            damaged(chunk.block, chunk.series, error)
            continue
        low, high = np.searchsorted(own, (start_ms, end_ms), side="right")
        if low < high:
            yield chunk.entity, SegmentSamples(chunk.segment, Series(own[low:high] / 1000.0, values[low:high]))


def read_minutes(
    connection: sqlite3.Connection, selector: SeriesSelector, start_ms: int, end_ms: int, damaged: OnDamaged
) -> Iterator[tuple[str, int, Points]]:
    """Entity, run and 1-minute points that begin at start <= time < end; else as `read_raw`."""
    scale = steps_per_unit(selector.metric)
    for chunk in _read(connection, MINUTES, selector, start_ms - 1, end_ms, damaged):
        try:
            found = decode_minutes(chunk.data, chunk.times_ms, scale)
        except CodecError as error:
            damaged(chunk.block, chunk.series, error)
            continue
        low, high = np.searchsorted(found.starts_ms, (start_ms, end_ms), side="left").tolist()
        if low < high:
            yield chunk.entity, chunk.segment, found.part(low, high)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One chunk as it is in the file."""

    block: int
    segment: int
    series: int
    entity: str
    times_ms: Integers
    data: bytes


def _series_condition(connection: sqlite3.Connection, selector: SeriesSelector) -> str | None:
    """The condition that picks the series of a block; None when there are none.

    A few are queried by their numbers, so that nothing else of a block is read. For all series only a block knows
    which are in it, however many the file has: it is read through.
    """
    names = selector.entities
    if names is None or len(names) > _MANY:
        return "series.metric = :metric AND series.container = :container"
    query = "SELECT id FROM series WHERE metric = ? AND container = ? AND entity = ?"
    found = [row for name in names for row in connection.execute(query, (selector.metric, selector.container, name))]
    return f"chunks.series IN ({','.join(str(number) for (number,) in found)})" if found else None


def _read(
    connection: sqlite3.Connection, tier: int, selector: SeriesSelector, start_ms: int, end_ms: int, damaged: OnDamaged
) -> Iterator[_Chunk]:
    which = _series_condition(connection, selector)
    if which is None:
        return
    current, times = -1, np.empty(0, np.int64)
    values: dict[str, int | str] = {"tier": tier, "live": LIVE, "start": start_ms, "end": end_ms}
    values |= {"metric": selector.metric, "container": selector.container}
    for block, segment, encoded, series, entity, data in connection.execute(_CHUNKS % which, values):
        if selector.entities is not None and entity not in selector.entities:
            continue
        if block != current:
            current = block
            try:
                times = codec.decode_times(encoded)
            except CodecError as error:
                times = np.empty(0, np.int64)
                damaged(block, WHOLE_BLOCK, error)
        if len(times):
            yield _Chunk(block, segment, series, entity, times, data)

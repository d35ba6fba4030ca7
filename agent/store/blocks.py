"""Compressed blocks in the database: the times of a stretch once, one chunk per series."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from agent.store import codec
from agent.store.rollup import Points
from agent.store.schema import MINUTES, RAW
from agent.store.series import Floats, Integers, Series

_CHUNKS = (
    "SELECT blocks.id, blocks.times, chunks.series, chunks.data FROM blocks JOIN chunks ON chunks.block = blocks.id "
    "WHERE blocks.tier = ? AND blocks.end_ms > ? AND blocks.start_ms <= ? AND chunks.series IN (%s) "
    "ORDER BY blocks.start_ms, blocks.id"
)


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of time, ready to be written."""

    tier: int
    """RAW or MINUTES."""
    level: int
    """How often it was merged; 0 as first sealed."""
    times_ms: Integers
    """shape (T,). [milliseconds]"""
    chunks: Mapping[int, bytes]
    """Encoded chunk by series id."""


def write(connection: sqlite3.Connection, block: Block) -> None:
    """Insert a block; the caller holds the transaction."""
    start, end = int(block.times_ms[0]), int(block.times_ms[-1])
    row = (block.tier, block.level, start, end, codec.encode_times(block.times_ms))
    cursor = connection.execute("INSERT INTO blocks (tier, level, start_ms, end_ms, times) VALUES (?, ?, ?, ?, ?)", row)
    rows = [(cursor.lastrowid, series, data) for series, data in sorted(block.chunks.items())]
    connection.executemany("INSERT INTO chunks (block, series, data) VALUES (?, ?, ?)", rows)


def remove(connection: sqlite3.Connection, ids: list[int]) -> None:
    """Delete blocks; the caller holds the transaction."""
    connection.executemany("DELETE FROM chunks WHERE block = ?", [(one,) for one in ids])
    connection.executemany("DELETE FROM blocks WHERE id = ?", [(one,) for one in ids])


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


def read_raw(
    connection: sqlite3.Connection, scales: Mapping[int, float], start_ms: int, end_ms: int
) -> Iterator[tuple[int, Series]]:
    """Samples with start < time <= end, block by block in order of time.

    Args:
        connection: The open database.
        scales: Steps per unit by id of the series that are wanted.
        start_ms: Excluded. [milliseconds]
        end_ms: Included. [milliseconds]
    """
    for series, times, data in _read(connection, RAW, list(scales), start_ms, end_ms):
        (steps,), present = codec.decode(data, 1, len(times))
        own = times if present is None else times[present]
        low, high = np.searchsorted(own, (start_ms, end_ms), side="right")
        if low < high:
            yield series, Series(own[low:high] / 1000.0, steps[low:high] / scales[series])


def read_minutes(
    connection: sqlite3.Connection, scales: Mapping[int, float], start_ms: int, end_ms: int
) -> Iterator[tuple[int, Points]]:
    """1-minute points that begin at start <= time < end, block by block in order of time; else as `read_raw`."""
    for series, times, data in _read(connection, MINUTES, list(scales), start_ms - 1, end_ms):
        (average, above, count), present = codec.decode(data, 3, len(times))
        own = times if present is None else times[present]
        low, high = np.searchsorted(own, (start_ms, end_ms), side="left")
        if low < high:
            part, scale = slice(low, high), scales[series]
            highest = (average[part] + above[part]) / scale
            yield series, Points(own[part], average[part] / scale, highest, count[part])


def _read(
    connection: sqlite3.Connection, tier: int, series: list[int], start_ms: int, end_ms: int
) -> Iterator[tuple[int, Integers, bytes]]:
    query = _CHUNKS % ",".join(str(int(one)) for one in series)
    current, times = -1, np.empty(0, np.int64)
    for block, encoded, one, data in connection.execute(query, (tier, start_ms, end_ms)):
        if block != current:
            current, times = block, codec.decode_times(encoded)
        yield one, times, data

"""Turning recent ticks into compressed blocks, and small blocks into larger ones: in small steps, between ticks."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from agent.store import blocks, codec, rollup
from agent.store.blocks import Block
from agent.store.head import Head
from agent.store.rollup import Points
from agent.store.schema import MINUTES, RAW
from agent.store.series import Integers

DAY_MS = 86_400_000
_PAUSE_MS = 600_000
MERGE_BLOCKS = 36
"""Small blocks of minutes that become one: six hours at ten minutes each."""

_DAY = (
    "INSERT INTO days (day, series, highest, highest_average, total, count) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (day, series) DO UPDATE SET highest = max(highest, excluded.highest), "
    "highest_average = max(highest_average, excluded.highest_average), "
    "total = total + excluded.total, count = count + excluded.count"
)


def rows_to_seal(head: Head, block_ticks: int) -> int:
    """How many of the oldest ticks to seal now; 0 while there are fewer than two blocks of them.

    A block ends with a full five minutes where it can, so that averages of five minutes are whole, and before a
    longer pause.
    """
    times = head.times_ms
    pauses = np.flatnonzero(np.diff(times[: block_ticks + 1]) > _PAUSE_MS)
    if len(pauses):
        return int(pauses[0]) + 1
    if len(head) < 2 * block_ticks:
        return 0
    edge = int(times[block_ticks]) // rollup.FIVE_MINUTES_MS * rollup.FIVE_MINUTES_MS
    aligned = int(np.searchsorted(times, edge, side="left"))
    return aligned if aligned >= block_ticks // 4 else block_ticks


def seal(connection: sqlite3.Connection, head: Head, rows: int, scales: Mapping[int, float]) -> Iterator[None]:
    """Write the oldest ticks as a block, their 1-minute points and daily maxima; yields after each series.

    Nothing is written before the last step, which is one transaction; ticks appended meanwhile stay as they are.

    Args:
        connection: The open database.
        head: The recent ticks; the sealed ones are dropped at the end.
        rows: How many of the oldest.
        scales: Steps per unit by series id.
    """
    times = head.times_ms[:rows].copy()
    minute_times = np.unique(times // rollup.MINUTE_MS * rollup.MINUTE_MS)
    raw: dict[int, bytes] = {}
    minutes: dict[int, bytes] = {}
    days: list[tuple[int, int, float, float, float, int]] = []
    for series, column in head.columns().items():
        values = head.first(rows, column)
        chunk = blocks.encode_raw(rows, values, scales[series])
        if chunk is not None:
            there = ~np.isnan(values)
            raw[series] = chunk
            points = rollup.points(times[there], values[there], rollup.MINUTE_MS)
            minutes[series] = blocks.encode_minutes(minute_times, points, scales[series])
            days.extend(_days(series, points))
        yield
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        blocks.write(connection, Block(RAW, 0, times, raw))
        blocks.write(connection, Block(MINUTES, 0, minute_times, minutes))
        connection.executemany(_DAY, days)
        connection.execute("DELETE FROM head WHERE time_ms <= ?", (int(times[-1]),))
        connection.execute("DELETE FROM layouts WHERE id NOT IN (SELECT layout FROM head)")
    head.drop(rows)


def merge(connection: sqlite3.Connection, scales: Mapping[int, float]) -> Iterator[None]:
    """Make one block of minutes out of the small ones when there are enough; yields after each series."""
    query = "SELECT id FROM blocks WHERE tier = ? AND level = 0 ORDER BY start_ms LIMIT ?"
    ids = [row[0] for row in connection.execute(query, (MINUTES, MERGE_BLOCKS))]
    if len(ids) < MERGE_BLOCKS:
        return
    marks = ",".join("?" * len(ids))
    wanted = connection.execute(f"SELECT DISTINCT series FROM chunks WHERE block IN ({marks})", ids).fetchall()  # noqa: S608 - question marks only
    times = _all_times(connection, ids)
    minutes: dict[int, bytes] = {}
    for (series,) in wanted:
        parts = _parts(connection, ids, series, scales[series])
        points = rollup.merged(rollup.concatenated(parts), rollup.MINUTE_MS)
        minutes[series] = blocks.encode_minutes(times, points, scales[series])
        yield
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        blocks.remove(connection, ids)
        blocks.write(connection, Block(MINUTES, 1, times, minutes))


def _parts(connection: sqlite3.Connection, ids: list[int], series: int, scale: float) -> list[Points]:
    marks = ",".join("?" * len(ids))
    query = (
        "SELECT blocks.times, chunks.data FROM blocks JOIN chunks ON chunks.block = blocks.id "  # noqa: S608
        f"WHERE blocks.id IN ({marks}) AND chunks.series = ?"
    )
    parts = []
    for encoded, data in connection.execute(query, (*ids, series)):
        times = codec.decode_times(encoded)
        (average, above, count), present = codec.decode(data, 3, len(times))
        own = times if present is None else times[present]
        parts.append(Points(own, average / scale, (average + above) / scale, count))
    return parts


def _all_times(connection: sqlite3.Connection, ids: list[int]) -> Integers:
    query = f"SELECT times FROM blocks WHERE id IN ({','.join('?' * len(ids))})"  # noqa: S608 - question marks only
    return np.unique(np.concatenate([codec.decode_times(row[0]) for row in connection.execute(query, ids)]))


def _days(series: int, minutes: Points) -> Iterator[tuple[int, int, float, float, float, int]]:
    days: dict[int, list[int]] = defaultdict(list)
    fives = rollup.merged(minutes, rollup.FIVE_MINUTES_MS)
    for number, start in enumerate(fives.starts_ms.tolist()):
        days[start // DAY_MS].append(number)
    for day, numbers in days.items():
        average, count = fives.average[numbers], fives.count[numbers]
        total = float(np.sum(average * count))
        yield day, series, float(fives.highest[numbers].max()), float(average.max()), total, int(count.sum())

"""Turning recent ticks into compressed blocks, and small blocks into larger ones: in small steps, between ticks.

The generators here work on one series between two yields. The caller holds a transaction meanwhile, and may
commit at every yield: a block that is not finished counts for nothing.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final

import numpy as np

from agent.tsdb import blocks, codec
from agent.tsdb.blocks import NewBlock
from agent.tsdb.codec import CodecError
from agent.tsdb.head import Head
from agent.tsdb.recent import FLUSHED
from agent.tsdb.schema import LIVE, MINUTES, RAW
from agent.tsdb.segments import Part, joined
from agent.tsdb.series import FIVE_MINUTES_MS, MINUTE_MS, Floats, Integers, Points

MERGE_BLOCKS: Final = 36  # small blocks of minutes that become one: six hours at ten minutes each

_TICKS_PER_STEP = 50


def ticks_to_flush(head: Head, block_ticks: int) -> int:
    """Return how many of the oldest ticks to flush now; 0 while there are fewer than two blocks of them.

    A block ends with a full five minutes where it can, so that averages of five minutes are whole. The ticks of a
    segment that is over are flushed at once.
    """
    if not len(head) or (head.is_one_segment and len(head) < 2 * block_ticks):
        return 0
    _, times, _ = head.oldest(block_ticks + 1)
    if len(times) <= block_ticks:  # the whole of a segment that is over
        return len(times)
    edge = int(times[block_ticks]) // FIVE_MINUTES_MS * FIVE_MINUTES_MS
    aligned = int(np.searchsorted(times, edge, side="left"))
    return aligned if aligned >= block_ticks // 4 else block_ticks


def flush(connection: sqlite3.Connection, head: Head, rows: int) -> Iterator[None]:
    """Write so many of the oldest ticks as a block, and their minutes; drop them when that is committed.

    Ticks appended meanwhile stay as they are.
    """
    segment, times, last = head.oldest(rows)
    raw = NewBlock(connection, RAW, 0, segment, times)
    minutes = NewBlock(connection, MINUTES, 0, segment, np.unique(times // MINUTE_MS * MINUTE_MS))
    for series in sorted(head.series()):
        amounts = head.oldest_of(series, rows)
        there = ~np.isnan(amounts)
        own, amounts = times[there], amounts[there]
        raw.add(series, own, amounts[None])
        minutes.add(series, *_columns(Points.of(own, amounts)))
        yield
    raw.publish()
    minutes.publish()
    connection.execute("INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)", (FLUSHED, last))
    connection.execute("COMMIT")
    head.drop(rows)
    connection.execute("BEGIN")
    yield


def delete_flushed(connection: sqlite3.Connection, before: int) -> Iterator[None]:
    """Delete the rows of ticks below this number, which are in blocks, and layouts without a tick."""
    rows = "SELECT id FROM head WHERE id < ? ORDER BY id LIMIT ?"
    delete = f"DELETE FROM head WHERE id IN ({rows})"  # noqa: S608 - own text
    deleted = False
    while connection.execute(delete, (before, _TICKS_PER_STEP)).rowcount:
        deleted = True
        yield
    if deleted:
        connection.execute("DELETE FROM layouts WHERE id NOT IN (SELECT layout FROM head)")
        yield


def merge(connection: sqlite3.Connection) -> Iterator[None]:
    """Make one block of minutes out of the small ones of a segment when there are enough."""
    query = (
        "SELECT run FROM blocks WHERE tier = ? AND state = ? AND level = 0 GROUP BY run HAVING count(*) >= ? "
        "ORDER BY run LIMIT 1"
    )
    result = connection.execute(query, (MINUTES, LIVE, MERGE_BLOCKS)).fetchone()
    if result is None:
        return
    query = "SELECT id, times FROM blocks WHERE tier = ? AND state = ? AND level = 0 AND run = ? ORDER BY start_ms"
    rows = connection.execute(f"{query} LIMIT {MERGE_BLOCKS}", (MINUTES, LIVE, result[0])).fetchall()
    parts = {block: times for block, encoded in rows if (times := _times(encoded)) is not None}
    yield
    if parts:
        times = np.unique(np.concatenate(list(parts.values())))
        merged = NewBlock(connection, MINUTES, 1, result[0], times)
        series: set[int] = set()
        for block in parts:
            series.update(row[0] for row in connection.execute("SELECT series FROM chunks WHERE block = ?", (block,)))
            yield
        for number in sorted(series):
            merged.add(number, *_columns(_merged(connection, parts, number)))
            yield
        merged.publish()
    blocks.mark_dead(connection, [block for block, _ in rows])
    yield


def _columns(points: Points) -> tuple[Integers, Floats]:
    return points.starts_ms, np.array([points.average, points.highest, points.count])


def _times(encoded: bytes) -> Integers | None:
    try:
        return codec.decode_times(encoded)
    except CodecError:  # already logged by the reader; the rest of the segment goes on without
        return None


def _merged(connection: sqlite3.Connection, parts: dict[int, Integers], series: int) -> Points:
    result = [Part(0, np.empty(0, np.int64), np.empty((3, 0)))]
    for block, times in parts.items():
        row = connection.execute("SELECT data FROM chunks WHERE block = ? AND series = ?", (block, series)).fetchone()
        if row is not None:
            try:
                result.append(Part(0, *blocks.decode(MINUTES, row[0], times)))
            except CodecError:
                continue
    return blocks.points(*joined(result)).merged(MINUTE_MS)

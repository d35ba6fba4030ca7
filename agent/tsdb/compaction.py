"""Turning recent ticks into compressed blocks, and small blocks into larger ones: in small steps, between ticks.

The generators here work on one series between two yields. The caller holds a transaction meanwhile, and may
commit at every yield: a block that is not finished counts for nothing. What they yield, if anything, is to be called
when that is committed.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np

from agent.tsdb import blocks, codec, rollup
from agent.tsdb.blocks import BlockRange
from agent.tsdb.catalog import Layouts
from agent.tsdb.codec import CodecError
from agent.tsdb.head import Head
from agent.tsdb.rollup import Points
from agent.tsdb.schema import LIVE, MINUTES, RAW
from agent.tsdb.series import Integers

Scale: TypeAlias = Callable[[int], float]
"""Steps per unit of a series."""
Steps: TypeAlias = Iterator[Callable[[], None] | None]
"""Work between two ticks; see above."""
MERGE_BLOCKS: Final = 36
"""Small blocks of minutes that become one: six hours at ten minutes each."""
FLUSHED: Final = "sealed"
"""Name of the mark that says up to which tick the head is in blocks."""

_TICKS_PER_STEP = 50


def ticks_to_flush(head: Head, block_ticks: int) -> int:
    """How many of the oldest ticks to seal now; 0 while there are fewer than two blocks of them.

    A block ends with a full five minutes where it can, so that averages of five minutes are whole. The ticks of a run
    that is over are flushed at once.
    """
    if not len(head):
        return 0
    if head.is_one_segment and len(head) < 2 * block_ticks:
        return 0
    _, times = head.oldest_times(block_ticks + 1)
    if len(times) <= block_ticks:  # the whole of a run that is over
        return len(times)
    edge = int(times[block_ticks]) // rollup.FIVE_MINUTES_MS * rollup.FIVE_MINUTES_MS
    aligned = int(np.searchsorted(times, edge, side="left"))
    return aligned if aligned >= block_ticks // 4 else block_ticks


def flush_block(connection: sqlite3.Connection, head: Head, rows: int, scale: Scale) -> Steps:
    """Write the oldest ticks as a block, and their 1-minute points.

    Ticks appended meanwhile stay as they are. The flushed ones are dropped at the end.

    Args:
        connection: The open database.
        head: The recent ticks.
        rows: How many of the oldest.
        scale: Steps per unit by series.
    """
    segment, times = head.oldest_times(rows)
    last, samples = head.number_of(rows), [0, 0]
    minute_times = np.unique(times // rollup.MINUTE_MS * rollup.MINUTE_MS)
    raw = blocks.stage(connection, BlockRange(RAW, 0, segment, times))
    minutes = blocks.stage(connection, BlockRange(MINUTES, 0, segment, minute_times))
    for series in sorted(head.series()):
        values = head.oldest(rows, series)
        chunk = blocks.encode_raw(rows, values, scale(series))
        if chunk is not None:
            there = ~np.isnan(values)
            points = rollup.points(times[there], values[there], rollup.MINUTE_MS)
            blocks.add(connection, raw, series, chunk)
            blocks.add(connection, minutes, series, blocks.encode_minutes(minute_times, points, scale(series)))
            samples = [samples[0] + int(np.count_nonzero(there)), samples[1] + len(points)]
        yield None
    blocks.publish(connection, raw, samples[0])
    blocks.publish(connection, minutes, samples[1])
    connection.execute("INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)", (FLUSHED, last))
    yield lambda: head.drop(rows)


def delete_flushed(connection: sqlite3.Connection, head: Head, layouts: Layouts) -> Steps:
    """Delete the rows of ticks that are in blocks, and layouts that no tick has any more."""
    before = head.first_number
    while connection.execute("SELECT 1 FROM head WHERE id < ? LIMIT 1", (before,)).fetchone():
        rows = "SELECT id FROM head WHERE id < ? ORDER BY id LIMIT ?"
        connection.execute(f"DELETE FROM head WHERE id IN ({rows})", (before, _TICKS_PER_STEP))  # noqa: S608 - own text
        yield None
    layout = head.layouts_from()
    if layout is not None:
        connection.execute("DELETE FROM layouts WHERE id < ?", (layout,))
        yield lambda: layouts.forget_before(layout)


def merge(connection: sqlite3.Connection) -> Steps:
    """Make one block of minutes out of the small ones of a run when there are enough."""
    query = (
        "SELECT run FROM blocks WHERE tier = ? AND state = ? AND level = 0 GROUP BY run HAVING count(*) >= ? "
        "ORDER BY run LIMIT 1"
    )
    found = connection.execute(query, (MINUTES, LIVE, MERGE_BLOCKS)).fetchone()
    if found is None:
        return
    query = (
        "SELECT id, times FROM blocks WHERE tier = ? AND state = ? AND level = 0 AND run = ? ORDER BY start_ms LIMIT ?"
    )
    rows = connection.execute(query, (MINUTES, LIVE, found[0], MERGE_BLOCKS)).fetchall()
    parts = {block: times for block, encoded in rows if (times := _times(encoded)) is not None}
    yield None
    if not parts:
        blocks.mark_dead(connection, [block for block, _ in rows])
        return
    times = np.unique(np.concatenate(list(parts.values())))
    merged, samples = blocks.stage(connection, BlockRange(MINUTES, 1, found[0], times)), 0
    scales: dict[int, float] = {}
    for block in parts:
        query = "SELECT series, metric FROM chunks JOIN series ON id = series WHERE block = ?"
        scales.update((series, codec.steps_per_unit(metric)) for series, metric in connection.execute(query, (block,)))
        yield None
    for series, scale in sorted(scales.items()):
        points = _merged(connection, parts, series, scale)
        if points is not None:
            blocks.add(connection, merged, series, blocks.encode_minutes(times, points, scale))
            samples += len(points)
        yield None
    blocks.publish(connection, merged, samples)
    blocks.mark_dead(connection, [block for block, _ in rows])
    yield None


def _times(encoded: bytes) -> Integers | None:
    try:
        return codec.decode_times(encoded)
    except CodecError:  # already logged by the reader; the rest of the segment goes on without
        return None


def _merged(connection: sqlite3.Connection, parts: dict[int, Integers], series: int, scale: float) -> Points | None:
    found = []
    for block, times in parts.items():
        row = connection.execute("SELECT data FROM chunks WHERE block = ? AND series = ?", (block, series)).fetchone()
        if row is not None:
            try:
                found.append(blocks.decode_minutes(row[0], times, scale))
            except CodecError:
                continue
    return rollup.merged(rollup.concatenated(found), rollup.MINUTE_MS) if found else None

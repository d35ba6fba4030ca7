"""Retention: expire old data, and drop data that does not fit.

The wall clock alone expires nothing, because it may be wrong by years. Later recordings decide: raw
samples stay for so many hours of recording, 1-minute points until they are too old by a clock with a whole day of
recording.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from agent.tsdb import blocks
from agent.tsdb.schema import LIVE, MINUTES, RAW
from agent.tsdb.series import MINUTE_MS, Integers

DAY_MS: Final = 86_400_000
TRUST_MS: Final = DAY_MS  # how much must have been recorded under a clock before it may age minutes [milliseconds]
REPORTED_MS: Final = 3_600_000  # twice the longest window of raw samples that reports read [milliseconds]
_PAGES_PER_STEP = 32
_SPARE_PAGES = 64
_KEEP_FREE_PAGES = 256
_ORPHANS_PER_STEP = 256


def expire(connection: sqlite3.Connection, now_ms: int, raw_seconds: int, minute_days: int) -> Iterator[None]:
    """Mark expired data as dead; `blocks.sweep` deletes it. In a transaction, at `now_ms`."""
    ids, _, _, since = _recorded(connection, RAW)
    blocks.mark_dead(connection, ids[since > raw_seconds * 1000].tolist())
    yield
    ids, starts, ends, since = _recorded(connection, MINUTES)
    believed = trusted_now(now_ms, starts, ends, since)
    keep = minute_days * DAY_MS
    # Too old by the clock; or dated in a future that the clock never reaches, with as much recorded since.
    dead = (ends < believed - keep) | ((since > keep) & (ends > now_ms))
    blocks.mark_dead(connection, ids[dead].tolist())
    yield


def trusted_now(now_ms: int, starts_ms: Integers, ends_ms: Integers, since_ms: Integers) -> int:
    """Return the time up to which the clock is trusted: its time a day of recording ago, plus that day.

    Blocks are given in order of recording: starts, ends, and the amount recorded after each, shape (N,). It is never
    later than now, and the beginning of time with less than a day of recording. [milliseconds]
    """
    backed = np.flatnonzero(since_ms + ends_ms - starts_ms >= TRUST_MS)
    if not len(backed):
        return -(1 << 62)
    return min(now_ms, int(ends_ms[backed[-1]] + since_ms[backed[-1]]))


def delete_orphans(connection: sqlite3.Connection, in_head: Callable[[], set[int]]) -> Iterator[None]:
    """Delete series without data, in blocks or in recent ticks."""
    query = "SELECT id, EXISTS (SELECT 1 FROM chunks WHERE series = id) FROM series WHERE id > ? ORDER BY id LIMIT ?"
    rows = connection.execute(query, (-1, _ORPHANS_PER_STEP)).fetchall()
    while rows:
        head = in_head()
        dead = [(number,) for number, has_data in rows if not has_data and number not in head]
        connection.executemany("DELETE FROM series WHERE id = ?", dead)
        yield
        rows = connection.execute(query, (rows[-1][0], _ORPHANS_PER_STEP)).fetchall()


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold something; the write-ahead log is apart."""
    query = (
        "SELECT (page_count - freelist_count) * page_size "
        "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    )
    return int(connection.execute(query).fetchone()[0])


def is_at_bound(connection: sqlite3.Connection) -> bool:
    query = "SELECT page_count > max_page_count - ? FROM pragma_page_count, pragma_max_page_count"
    return bool(connection.execute(query, (_SPARE_PAGES,)).fetchone()[0])


def free_space(connection: sqlite3.Connection, limit_bytes: int) -> Iterator[int]:
    """Delete the oldest blocks until the content fits; yields how many were retired so far.

    Samples that no report needs go first, then minutes, and the samples of the last hour only when nothing else is
    left: the windows of a full store stay warm.
    """
    gone = 0
    while used_bytes(connection) > limit_bytes:
        raw, _, _, since = _recorded(connection, RAW)
        candidates = [*raw[since > REPORTED_MS].tolist(), *_recorded(connection, MINUTES)[0].tolist(), *raw.tolist()]
        if not candidates:
            return
        blocks.mark_dead(connection, candidates[:1])
        gone += 1
        for _ in blocks.sweep(connection):
            yield gone


def shrink(connection: sqlite3.Connection) -> Iterator[None]:
    """Give free pages back to the file system when there are many."""
    while connection.execute("PRAGMA freelist_count").fetchone()[0] > 4 * _KEEP_FREE_PAGES:
        connection.execute(f"PRAGMA incremental_vacuum({_PAGES_PER_STEP})").fetchall()
        yield


def _recorded(connection: sqlite3.Connection, tier: int) -> tuple[Integers, Integers, Integers, Integers]:
    """Numbers, starts and ends of the blocks in order of recording, and how much was recorded after each. [ms]"""
    query = "SELECT id, start_ms, end_ms FROM blocks WHERE tier = ? AND state = ? ORDER BY run, start_ms"
    table = np.array(connection.execute(query, (tier, LIVE)).fetchall(), np.int64).reshape(-1, 3)
    ids, starts, ends = table.T
    lengths = ends - starts + (MINUTE_MS if tier == MINUTES else 0)
    return ids, starts, ends, np.cumsum(lengths[::-1])[::-1] - lengths

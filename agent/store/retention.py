"""Forgetting: what is too old, and what no longer fits.

The wall clock alone forgets nothing, because it may be wrong by years. What counts is what was recorded since: raw
samples stay for so many hours of recording, 1-minute points and daily maxima until they are too old by a clock that
a whole day of recording stands behind.
"""

import sqlite3
from collections.abc import Iterator

import numpy as np

from agent.store import blocks
from agent.store.compaction import DAY_MS
from agent.store.rollup import MINUTE_MS
from agent.store.schema import LIVE, MINUTES, RAW
from agent.store.series import Integers
from agent.store.settings import StoreSettings

TRUST_MS = DAY_MS
"""How much must have been recorded under a clock before it may age minutes and days. [milliseconds]"""
_PAGES_PER_STEP = 32
_KEEP_FREE_PAGES = 256
_ORPHANS_PER_STEP = 64


def forget_old(
    connection: sqlite3.Connection, now_ms: int, settings: StoreSettings, minute_days: int
) -> Iterator[None]:
    """Retire what has outlived its retention; `blocks.sweep` deletes it.

    Args:
        connection: The open database, in a transaction.
        now_ms: The time. [milliseconds]
        settings: Retention of raw samples and daily maxima.
        minute_days: Retention of 1-minute points. [days]
    """
    ids, _, _, since = _recorded(connection, RAW)
    blocks.retire(connection, ids[since > settings.raw_seconds * 1000].tolist())
    yield
    ids, starts, ends, since = _recorded(connection, MINUTES)
    believed = believed_now(now_ms, starts, ends, since)
    keep = minute_days * DAY_MS
    # Too old by the clock; or dated so oddly that the clock never gets there, and as much was recorded since.
    dead = (ends < believed - keep) | ((since > keep) & (ends > now_ms))
    blocks.retire(connection, ids[dead].tolist())
    yield
    left = ends[~dead]
    newest = max(now_ms, int(left.max())) if len(left) else now_ms
    oldest = believed // DAY_MS - max(settings.daily_days, minute_days)
    connection.execute("DELETE FROM days WHERE day <= ? OR day > ?", (oldest, newest // DAY_MS + 1))
    yield


def believed_now(now_ms: int, starts_ms: Integers, ends_ms: Integers, since_ms: Integers) -> int:
    """The time up to which the clock is believed: where it stood a day of recording ago, plus that day.

    Args:
        now_ms: What the clock says. [milliseconds]
        starts_ms: Starts of the blocks in order of recording, shape (N,). [milliseconds]
        ends_ms: Their ends, shape (N,). [milliseconds]
        since_ms: How much was recorded after each, shape (N,). [milliseconds]

    Returns:
        Never later than now; the beginning of time when less than a day was recorded. [milliseconds]
    """
    backed = np.flatnonzero(since_ms + ends_ms - starts_ms >= TRUST_MS)
    if not len(backed):
        return -(1 << 62)
    return min(now_ms, int(ends_ms[backed[-1]] + since_ms[backed[-1]]))


def forget_orphans(connection: sqlite3.Connection, numbers: list[int], in_head: set[int]) -> Iterator[list[int]]:
    """Delete series that have no data left anywhere; yields those that went.

    Daily maxima live longest, so a series without any has nothing else.

    Args:
        connection: The open database, in a transaction.
        numbers: All series.
        in_head: Those that recent ticks have.
    """
    candidates = [one for one in numbers if one not in in_head]
    for begin in range(0, len(candidates), _ORPHANS_PER_STEP):
        some = candidates[begin : begin + _ORPHANS_PER_STEP]
        query = "SELECT 1 FROM days WHERE series = ? LIMIT 1"
        dead = [one for one in some if connection.execute(query, (one,)).fetchone() is None]
        connection.executemany("DELETE FROM series WHERE id = ?", [(one,) for one in dead])
        yield dead


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold something; the write-ahead log is apart."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def make_room(connection: sqlite3.Connection, limit_bytes: int) -> Iterator[int]:
    """Delete the oldest samples, then the oldest minutes, until the content fits; yields blocks retired so far."""
    gone = 0
    while used_bytes(connection) > limit_bytes:
        query = "SELECT id FROM blocks WHERE state = ? ORDER BY tier, run, start_ms LIMIT 1"
        oldest = connection.execute(query, (LIVE,)).fetchone()
        if oldest is None:
            return
        blocks.retire(connection, [oldest[0]])
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

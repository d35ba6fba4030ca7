"""Forgetting: what is too old, and what no longer fits."""

import sqlite3

from agent.store import blocks
from agent.store.compaction import DAY_MS
from agent.store.schema import MINUTES, RAW
from agent.store.settings import StoreSettings

_KEEP_FREE = 256  # pages


def forget_old(connection: sqlite3.Connection, now_ms: int, settings: StoreSettings, minute_days: int) -> None:
    """Delete what has outlived its retention, and what a wrong clock dated more than a day ahead.

    Args:
        connection: The open database.
        now_ms: The time. [milliseconds]
        settings: Retention of raw samples and daily maxima.
        minute_days: Retention of 1-minute points. [days]
    """
    oldest = {RAW: now_ms - settings.raw_seconds * 1000, MINUTES: now_ms - minute_days * DAY_MS}
    query = "SELECT id FROM blocks WHERE tier = ? AND (end_ms < ? OR start_ms > ?)"
    dead = [row[0] for tier, edge in oldest.items() for row in connection.execute(query, (tier, edge, now_ms + DAY_MS))]
    today = now_ms // DAY_MS
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        blocks.remove(connection, dead)
        connection.execute("DELETE FROM days WHERE day <= ? OR day > ?", (today - settings.daily_days, today + 1))


def orphans(connection: sqlite3.Connection, in_head: set[int]) -> list[int]:
    """Ids of series that have no data left anywhere.

    Args:
        connection: The open database.
        in_head: Ids of the series that recent ticks have.
    """
    query = (
        "SELECT id FROM series WHERE id NOT IN (SELECT DISTINCT series FROM chunks) "
        "AND id NOT IN (SELECT DISTINCT series FROM days)"
    )
    return [row[0] for row in connection.execute(query) if row[0] not in in_head]


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold something; the write-ahead log is apart."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def make_room(connection: sqlite3.Connection, limit_bytes: int) -> int:
    """Delete the oldest samples, then the oldest minutes, until the content fits.

    Returns:
        How many blocks went.
    """
    gone = 0
    for tier in (RAW, MINUTES):
        while used_bytes(connection) > limit_bytes:
            query = "SELECT id FROM blocks WHERE tier = ? ORDER BY end_ms LIMIT 8"
            oldest = [row[0] for row in connection.execute(query, (tier,))]
            if not oldest:
                break
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                blocks.remove(connection, oldest)
            gone += len(oldest)
    return gone


def shrink(connection: sqlite3.Connection) -> None:
    """Give free pages back to the file system, a few at a time, when there are many."""
    if connection.execute("PRAGMA freelist_count").fetchone()[0] > 4 * _KEEP_FREE:
        connection.execute(f"PRAGMA incremental_vacuum({_KEEP_FREE})").fetchall()

"""What a database of an older version becomes. Each function is run once in the life of a file."""

import contextlib
import sqlite3
from typing import Any

import numpy as np

from agent.tsdb import codec
from agent.tsdb.catalog import Layouts
from agent.tsdb.segments import PAUSE_MS

_NEVER = -(1 << 62)
_LIVE = 1  # as version 2 writes it, whatever a later version calls it


def to_version_2(database: Any) -> None:  # noqa: ANN401 - the library publishes no complete annotations
    """Number the ticks, give everything its run, count the samples of blocks, and label series with containers.

    Args:
        database: A sqlite_utils.Database of version 1, in a transaction.
    """
    connection: sqlite3.Connection = database.conn
    _rebuild(connection, database)
    database.table("marks").create({"name": str, "value": int}, pk="name", not_null={"value"})
    for column, default in (("state", _LIVE), ("run", 0), ("samples", 0)):
        database.table("blocks").add_column(column, int, not_null_default=default)
    database.execute("DROP INDEX IF EXISTS blocks_by_end")
    database.execute("CREATE INDEX blocks_by_tier ON blocks (tier, state, run, start_ms)")
    last = _segments_of_blocks(connection)
    _count_samples(connection)
    _number_head(connection, last)


def _rebuild(connection: sqlite3.Connection, database: Any) -> None:  # noqa: ANN401
    """Tables whose keys change are made anew."""
    statements = (
        "ALTER TABLE series RENAME TO old_series",
        """CREATE TABLE series (
            id INTEGER PRIMARY KEY, metric TEXT NOT NULL, entity TEXT NOT NULL, container TEXT NOT NULL DEFAULT '',
            UNIQUE (metric, entity, container))""",
        "INSERT INTO series (id, metric, entity) SELECT id, metric, entity FROM old_series",
        "DROP TABLE old_series",
        "ALTER TABLE days RENAME TO old_days",
        """CREATE TABLE days (
            day INTEGER NOT NULL, series INTEGER NOT NULL, highest REAL NOT NULL, highest_average REAL NOT NULL,
            PRIMARY KEY (day, series)
        ) WITHOUT ROWID""",
        "INSERT INTO days SELECT day, series, highest, highest_average FROM old_days",
        "DROP TABLE old_days",
        "CREATE INDEX days_by_series ON days (series)",
        "ALTER TABLE head RENAME TO old_head",
    )
    for statement in statements:
        connection.execute(statement)
    database.table("head").create(
        {"id": int, "run": int, "time_ms": int, "layout": int, "amounts": bytes},
        pk="id",
        not_null={"run", "time_ms", "layout", "amounts"},
    )


def _segments_of_blocks(connection: sqlite3.Connection) -> tuple[int, int]:
    """Run and end of the last block; (1, the beginning of time) when there is none."""
    segment, end = 1, _NEVER
    rows = connection.execute("SELECT id, start_ms, end_ms FROM blocks ORDER BY start_ms, id").fetchall()
    for number, start_ms, end_ms in rows:
        segment += int(end > _NEVER and start_ms > end + PAUSE_MS)
        end = max(end, end_ms)
        connection.execute("UPDATE blocks SET run = ? WHERE id = ?", (segment, number))
    return segment, end


def _count_samples(connection: sqlite3.Connection) -> None:
    for (number,) in connection.execute("SELECT id FROM blocks").fetchall():
        chunks = connection.execute("SELECT data FROM chunks WHERE block = ?", (number,))
        samples = 0
        for (data,) in chunks:
            with contextlib.suppress(codec.CodecError):  # a damaged chunk is a gap when it is read
                samples += codec.count(data)
        connection.execute("UPDATE blocks SET samples = ? WHERE id = ?", (samples, number))


def _number_head(connection: sqlite3.Connection, last: tuple[int, int]) -> None:
    """Ticks in order of time; a tick's amounts are put in rising order of their series."""
    segment, end = last
    old = {number: np.frombuffer(packed, "<u4") for number, packed in connection.execute("SELECT * FROM layouts")}
    connection.execute("DELETE FROM layouts")
    layouts = Layouts()
    for time_ms, layout, amounts in connection.execute("SELECT * FROM old_head ORDER BY time_ms").fetchall():
        segment += int(time_ms > end + PAUSE_MS and end > _NEVER)
        end = time_ms
        order = np.argsort(old[layout], kind="stable")
        row = (segment, time_ms, layouts.number(old[layout][order].astype(np.int64)))
        ordered = np.frombuffer(amounts, "<i8")[order].tobytes()
        connection.execute("INSERT INTO head (run, time_ms, layout, amounts) VALUES (?, ?, ?, ?)", (*row, ordered))
    connection.executemany("INSERT INTO layouts (id, series) VALUES (?, ?)", layouts.unsaved())
    connection.execute("DROP TABLE old_head")

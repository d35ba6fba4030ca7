"""Tables of the database: what a file is, and the way from an older version to this one."""

import logging
import sqlite3
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

RAW: Final = 0
"""Tier of the samples as collected."""
MINUTES: Final = 1
"""Tier of the 1-minute points: average, highest, count."""

STAGED: Final = 0
"""State of a block that is being written, a few series at a time: it is not read yet."""
LIVE: Final = 1
"""State of a block that counts."""
DEAD: Final = 2
"""State of a block that no longer counts, and is deleted a few series at a time."""

APPLICATION_ID: Final = 0x48647231
"""Marks our files: "Hdr1"."""

VERSION: Final = 3
"""The schema that this program reads and writes."""


class StoreError(RuntimeError):
    """The store cannot be used; the message is one line that names the file and the way out."""


class StoreCorrupt(StoreError):  # noqa: N818 - a state, and the name that handlers read best
    """The file is damaged, or another program's: it must be set aside."""


class StoreNewer(StoreError):  # noqa: N818 - a state
    """The file was written by a newer Headroom: it is not touched, and the agent does not start."""


class StoreUnavailable(StoreError):  # noqa: N818 - a state
    """The disk cannot be written now: full, read-only or failing. It may come back by itself."""


class Kind(Enum):
    """What a file is."""

    NEW = "new"
    """Nothing is in it yet."""
    OURS = "ours"
    """A database of this program, of this or an older version."""
    NEWER = "newer"
    """A database of a later version of this program."""
    FOREIGN = "foreign"
    """A database of something else."""


# What each version must have: by it our files are told from others, also those of version 1, which bear no mark.
_COLUMNS: Final = {
    1: {
        "series": {"id", "metric", "entity"},
        "layouts": {"id", "series"},
        "head": {"time_ms", "layout", "amounts"},
        "blocks": {"id", "tier", "level", "start_ms", "end_ms", "times"},
        "chunks": {"block", "series", "data"},
        "days": {"day", "series", "highest", "highest_average", "total", "count"},
        "checkpoints": {"name", "saved", "data"},
    },
    2: {
        "series": {"id", "metric", "entity", "container"},
        "layouts": {"id", "series"},
        "head": {"id", "run", "time_ms", "layout", "amounts"},
        "blocks": {"id", "tier", "level", "state", "run", "start_ms", "end_ms", "samples", "times"},
        "chunks": {"block", "series", "data"},
        "days": {"day", "series", "highest", "highest_average"},
        "checkpoints": {"name", "saved", "data"},
        "marks": {"name", "value"},
    },
}
_COLUMNS[3] = {table: columns for table, columns in _COLUMNS[2].items() if table != "days"}


def kind(connection: sqlite3.Connection) -> tuple[Kind, int]:
    """What a file is, and its version; reads only.

    Raises:
        sqlite3.DatabaseError: It is no database, or damaged.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if not tables and version == 0 and mark in (0, APPLICATION_ID):
        return Kind.NEW, 0
    if mark == APPLICATION_ID and version > VERSION:
        return Kind.NEWER, version
    wanted = _COLUMNS.get(version)
    if wanted is None or mark not in (APPLICATION_ID, 0) or (mark == 0 and version > 1):
        return Kind.FOREIGN, version
    for table, columns in wanted.items():
        if columns != {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}:
            return Kind.FOREIGN, version
    return Kind.OURS, version


def migrate(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Bring a file to `VERSION`, one transaction per step; an interrupted step leaves no trace.

    Args:
        connection: The open file.
        path: Its name, for the log.
        version: What it has; 0 for nothing.
    """
    if version == VERSION:
        return
    import sqlite_utils  # noqa: PLC0415 - needed once in the life of a file, and costs memory

    database = sqlite_utils.Database(connection)
    for number, step in list(_STEPS.items())[version:]:
        with database.atomic():
            step(database)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {number}")
        if version:
            log.info("store %s: schema %d -> %d", path, number - 1, number)


def _begin(database: Any) -> None:  # noqa: ANN401 - the library publishes no complete annotations
    """Version 1. A released step is never edited: the next one changes what it made."""
    for statement in (
        """CREATE TABLE series (
            id INTEGER PRIMARY KEY, metric TEXT NOT NULL, entity TEXT NOT NULL, UNIQUE (metric, entity))""",
        "CREATE TABLE layouts (id INTEGER PRIMARY KEY, series BLOB NOT NULL UNIQUE)",
        "CREATE TABLE head (time_ms INTEGER PRIMARY KEY, layout INTEGER NOT NULL, amounts BLOB NOT NULL)",
        """CREATE TABLE blocks (
            id INTEGER PRIMARY KEY, tier INTEGER NOT NULL, level INTEGER NOT NULL,
            start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, times BLOB NOT NULL)""",
        "CREATE INDEX blocks_by_end ON blocks (tier, end_ms)",
        """CREATE TABLE chunks (
            block INTEGER NOT NULL, series INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (block, series)
        ) WITHOUT ROWID""",
        """CREATE TABLE days (
            day INTEGER NOT NULL, series INTEGER NOT NULL, highest REAL NOT NULL, highest_average REAL NOT NULL,
            total REAL NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (day, series)
        ) WITHOUT ROWID""",
        "CREATE TABLE checkpoints (name TEXT PRIMARY KEY, saved REAL NOT NULL, data BLOB NOT NULL)",
    ):
        database.execute(statement)


def _number_ticks(database: Any) -> None:  # noqa: ANN401
    """Version 2: ticks are numbered and belong to runs, blocks are written in small steps, series have containers."""
    from agent.tsdb.upgrade import to_version_2  # noqa: PLC0415 - needed once in the life of an old file

    to_version_2(database)


def _index_series(database: Any) -> None:  # noqa: ANN401
    """Version 3: daily maxima are no longer kept; several numbers may bear one series' labels; both are indexed."""
    for statement in (
        "DROP TABLE days",
        "ALTER TABLE series RENAME TO old_series",
        """CREATE TABLE series (
            id INTEGER PRIMARY KEY, metric TEXT NOT NULL, entity TEXT NOT NULL, container TEXT NOT NULL DEFAULT '')""",
        "INSERT INTO series (id, metric, entity, container) SELECT id, metric, entity, container FROM old_series",
        "DROP TABLE old_series",
        "CREATE INDEX series_by_labels ON series (metric, entity, container)",
        "CREATE INDEX chunks_by_series ON chunks (series)",
    ):
        database.execute(statement)


_STEPS: Final[dict[int, Callable[[Any], None]]] = {1: _begin, 2: _number_ticks, 3: _index_series}

"""Tables of the database, and what a file is."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

RAW: Final = 0  # tier of the samples as collected
MINUTES: Final = 1  # tier of the 1-minute points: average, highest, count

STAGED: Final = 0  # state of a block that is being written, a few series at a time: it is not read yet
LIVE: Final = 1  # state of a block that counts
DEAD: Final = 2  # state of a block that no longer counts, and is deleted a few series at a time

APPLICATION_ID: Final = 0x48647231  # marks our files: "Hdr1"

VERSION: Final = 3  # the schema that this program reads and writes


class StoreError(RuntimeError):
    """The store cannot be used; the message is one line that names the file and the way out."""


class StoreCorrupt(StoreError):  # noqa: N818 - a state, and the name that handlers read best
    """The file is damaged, or another program's: it must be set aside."""


class ForeignDatabase(StoreCorrupt):
    """The file is a database of something else."""


class StoreNewer(StoreError):  # noqa: N818 - a state
    """The file was written by a newer Headroom: it is not touched, and the agent does not start."""


class StoreUnavailable(StoreError):  # noqa: N818 - a state
    """The disk cannot be written now: full, read-only or failing. It may come back by itself."""


_STATEMENTS: Final = (
    "CREATE TABLE layouts (id INTEGER PRIMARY KEY, series BLOB NOT NULL UNIQUE)",
    """CREATE TABLE blocks (
        id INTEGER PRIMARY KEY, tier INTEGER NOT NULL, level INTEGER NOT NULL,
        start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, times BLOB NOT NULL,
        state INTEGER NOT NULL DEFAULT 1, run INTEGER NOT NULL DEFAULT 0, samples INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX blocks_by_tier ON blocks (tier, state, run, start_ms)",
    """CREATE TABLE chunks (
        block INTEGER NOT NULL, series INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (block, series)
    ) WITHOUT ROWID""",
    "CREATE INDEX chunks_by_series ON chunks (series)",
    "CREATE TABLE checkpoints (name TEXT PRIMARY KEY, saved REAL NOT NULL, data BLOB NOT NULL)",
    """CREATE TABLE head (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL, time_ms INTEGER NOT NULL, layout INTEGER NOT NULL,
        amounts BLOB NOT NULL)""",
    "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    """CREATE TABLE series (
        id INTEGER PRIMARY KEY, metric TEXT NOT NULL, entity TEXT NOT NULL, container TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX series_by_labels ON series (metric, entity, container)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)


def check(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file has our tables; False when nothing is in it yet. Reads only.

    Raises:
        StoreNewer: A later version of this program wrote it.
        StoreCorrupt: Its schema was never released, or it is a database of something else (`ForeignDatabase`).
        sqlite3.DatabaseError: It is no database, or damaged.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if not tables and version == 0 and mark in (0, APPLICATION_ID):
        return False
    if mark == APPLICATION_ID and version > VERSION:
        raise StoreNewer(
            f"{path} was written by a newer Headroom (schema {version}, this one knows {VERSION}): "
            "run that version, or move the file away to begin a new one"
        )
    if mark == APPLICATION_ID and 0 < version < VERSION:
        raise StoreCorrupt(f"{path} has schema {version}, which no release has had; this one is {VERSION}")
    with contextlib.closing(sqlite3.connect(":memory:")) as ours:
        for statement in _STATEMENTS:
            ours.execute(statement)
        wanted = _columns(ours)
    wanted_tables = {table for table, _ in wanted}
    result = {column for column in _columns(connection) if column[0] in wanted_tables}
    if mark != APPLICATION_ID or version != VERSION or result != wanted:
        raise ForeignDatabase(f"{path} is a database of something else")
    return True


def _columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return each column with its table: they identify our files."""
    statement = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    return set(connection.execute(statement))


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty database, in one transaction."""
    import sqlite_utils  # noqa: PLC0415 - needed once in the life of a file, and costs memory

    database = sqlite_utils.Database(connection)
    with database.atomic():
        for statement in _STATEMENTS:
            database.execute(statement)

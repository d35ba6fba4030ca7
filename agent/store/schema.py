"""Tables of the database and their migrations; opening a file, and setting a damaged one aside."""

import contextlib
import logging
import sqlite3
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

RAW: Final = 0
"""Tier of the samples as collected."""
MINUTES: Final = 1
"""Tier of the 1-minute points: average, highest, count."""

# One entry per version, applied in order; a released entry is never edited, the next one changes what it made.
MIGRATIONS: Final = (
    """
    CREATE TABLE series (id INTEGER PRIMARY KEY, metric TEXT NOT NULL, entity TEXT NOT NULL, UNIQUE (metric, entity));
    -- The series of a tick, in the order of its amounts. Ticks of one set of pods share one row.
    CREATE TABLE layouts (id INTEGER PRIMARY KEY, series BLOB NOT NULL UNIQUE);
    -- Recent ticks, one row each, appended only: the part that a crash must not lose.
    CREATE TABLE head (time_ms INTEGER PRIMARY KEY, layout INTEGER NOT NULL, amounts BLOB NOT NULL);
    -- Older ticks: their times once, their amounts as one compressed chunk per series.
    CREATE TABLE blocks (
        id INTEGER PRIMARY KEY, tier INTEGER NOT NULL, level INTEGER NOT NULL,
        start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, times BLOB NOT NULL
    );
    CREATE INDEX blocks_by_end ON blocks (tier, end_ms);
    CREATE TABLE chunks (
        block INTEGER NOT NULL, series INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (block, series)
    ) WITHOUT ROWID;
    -- One row per series and day (UTC): highest sample, highest 5-minute average, sum and count.
    CREATE TABLE days (
        day INTEGER NOT NULL, series INTEGER NOT NULL, highest REAL NOT NULL, highest_average REAL NOT NULL,
        total REAL NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (day, series)
    ) WITHOUT ROWID;
    CREATE TABLE checkpoints (name TEXT PRIMARY KEY, saved REAL NOT NULL, data BLOB NOT NULL);
    """,
)


class StoreError(RuntimeError):
    """The store cannot be used; the message is one line that names the file and the way out."""


class StoreCorrupt(StoreError):  # noqa: N818 - a state, and the name that handlers read best
    """The file is damaged: it must be set aside."""


class StoreNewer(StoreError):  # noqa: N818 - a state
    """The file was written by a newer Headroom: it is not touched, and the agent does not start."""


def connect(path: Path, max_bytes: int) -> sqlite3.Connection:
    """Open (or make) the database with the settings that the store relies on, at the newest schema.

    Args:
        path: The file.
        max_bytes: The file's hard bound. [bytes]

    Raises:
        StoreError: It cannot be opened, or was made by a newer version of Headroom.
        StoreCorrupt: It is damaged, or no database at all.
    """
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise StoreError(f"cannot open {path}: {error}") from error
    try:
        _configure(connection, max_bytes)
        _migrate(connection, path)
        damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        connection.close()
        if is_damage(error):
            raise StoreCorrupt(f"{path} is damaged: {error}") from error
        raise StoreError(f"cannot use {path}: {error}") from error
    except StoreError:
        connection.close()
        raise
    if damage != "ok":
        connection.close()
        raise StoreCorrupt(f"{path} is damaged: {damage.splitlines()[0]}")
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error says that the file itself is broken, and not that the disk is full or away."""
    return (
        not isinstance(error, sqlite3.OperationalError)
        and isinstance(error, sqlite3.DatabaseError)
        and (getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
    )


def set_aside(path: Path) -> Path:
    """Move a damaged database out of the way, so that a new one can begin; at most one such file is kept.

    Returns:
        Where it is now.
    """
    aside = path.with_name(f"{path.name}.damaged-{int(path.stat().st_mtime)}")
    for old in path.parent.glob(f"{path.name}.damaged-*"):
        old.unlink(missing_ok=True)
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
    return aside


def _configure(connection: sqlite3.Connection, max_bytes: int) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect in a new file; before anything is written
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # Tsdb.checkpoint does it off the tick
    connection.execute("PRAGMA journal_size_limit = 4194304")
    connection.execute("PRAGMA cache_size = -2048")
    connection.execute("PRAGMA temp_store = MEMORY")
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {max_bytes * 7 // 8 // page}")  # an eighth is for the log


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StoreNewer(
            f"{path} was written by a newer Headroom (schema {version}, this one knows {len(MIGRATIONS)}): "
            "run that version, or move the file away to begin a new one"
        )
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {number}; COMMIT;")
        if version:
            log.info("store %s: schema %d -> %d", path, number - 1, number)

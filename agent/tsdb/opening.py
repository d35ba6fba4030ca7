"""Opening the file: lock, check, and move an unusable one aside."""

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from agent.tsdb import schema
from agent.tsdb.codec import CodecError
from agent.tsdb.schema import ForeignDatabase, StoreCorrupt, StoreError, StoreUnavailable
from agent.tsdb.settings import StoreSettings

log = logging.getLogger(__name__)

MEMORY: Final = Path(":memory:")  # a database without a file
BUSY_MS: Final = 50  # a tick never waits longer for another program's transaction [milliseconds]
_BUSY_SECONDS: Final = 1.0
_SHORTEST_BYTES: Final = 512
_MAY_COME_BACK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENOMEM, errno.ESTALE}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SIDE_FILES = ("-wal", "-shm", "-journal")


def connect(path: Path, settings: StoreSettings, *, check: bool = True) -> sqlite3.Connection:
    """Open (or make) the database with the settings that the store relies on, at our schema.

    To check is to read the whole file for damage first.

    Raises:
        StoreUnavailable: The disk cannot be written now.
        StoreCorrupt: It is damaged, no database at all, or another program's. It is unchanged.
        StoreError: It is newer than this program, or may not be opened.
    """
    if path.is_dir():
        raise StoreCorrupt(f"{path} is a folder and no database")
    if path.exists() and 0 < path.stat().st_size < _SHORTEST_BYTES:  # SQLite would take it for an empty one
        raise StoreCorrupt(f"{path} is damaged: it is too short to be a database")
    with (
        errors(path),
        closed_on_error(
            sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False)
        ) as connection,
    ):
        is_ours = schema.check(connection, path)
        if not is_ours:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before anything else is written
        connection.execute("PRAGMA journal_mode = WAL")
        _configure_log(connection, settings)
        connection.execute("PRAGMA cache_size = -2048")
        connection.execute("PRAGMA temp_store = MEMORY")
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        connection.execute(f"PRAGMA max_page_count = {settings.file_bytes // page}")
        if not is_ours:
            schema.create(connection)
        elif check and (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise StoreCorrupt(f"{path} is damaged: {damage.splitlines()[-1]}")
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open the database without ever writing; it may be in use, or lie on a volume that cannot be written.

    Raises:
        StoreUnavailable: It cannot be read now.
        StoreCorrupt: It is damaged, no database at all, or another program's.
        StoreError: There is none, or another version of this program is needed.
    """
    try:
        result = path.exists()
    except OSError as error:  # its folder may not be read
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if not result:
        raise StoreError(f"there is no database at {path}; give the agent's --data-dir")
    if path.is_dir():
        raise StoreCorrupt(f"{path} is a folder and no database")
    if not os.access(path, os.R_OK):
        raise StoreError(f"cannot read {path}: {os.strerror(errno.EACCES)}")
    try:
        return _opened_to_read(path, "ro")
    except StoreUnavailable:  # its side files cannot be made: then there is no writer, and no lock is needed
        return _opened_to_read(path, "ro&immutable=1")


def _opened_to_read(path: Path, mode: str) -> sqlite3.Connection:
    with errors(path), closed_on_error(connect_as(path, mode, _BUSY_SECONDS)) as connection:
        if not schema.check(connection, path):
            raise StoreError(f"{path} is empty: an agent that writes to it begins it")
    return connection


@contextlib.contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Close a connection that cannot be used after all."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def connect_as(path: Path, mode: str, timeout: float = 0.1) -> sqlite3.Connection:
    """Open a database that exists in a mode of SQLite: ro, rw."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=timeout)


def connect_second(path: Path, settings: StoreSettings) -> sqlite3.Connection:
    """A second connection to a database that is open already; never makes one."""
    connection = connect_as(path, "rw")
    _configure_log(connection, settings)
    return connection


def lock(path: Path) -> IO[str]:
    """Return the lock of the file, held until closed (or the process ends); makes its folder.

    Raises:
        StoreUnavailable: The disk cannot be written now.
        StoreError: Another agent holds it, or the folder may not be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = path.with_name(f"{path.name}.lock").open("a", encoding="utf-8")
    except OSError as error:
        kind = StoreUnavailable if error.errno in _MAY_COME_BACK else StoreError
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise kind(f"cannot write the data directory {path.parent}: {why}; give another with --data-dir") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        held.close()
        raise StoreError(f"{path} is in use by another agent: stop it, or give another --data-dir") from error
    return held


def set_aside(path: Path, reason: StoreCorrupt) -> None:
    """Move a file (or folder) that cannot be used out of the way under a new name, and log one line.

    It must not be open here. Of damaged databases the last one is kept; another program's file is never deleted.

    Raises:
        StoreUnavailable: It cannot be moved now.
    """
    foreign = isinstance(reason, ForeignDatabase) or path.is_dir()
    try:
        if not foreign:
            for old in path.parent.glob(f"{path.name}.damaged-*"):
                old.unlink(missing_ok=True)
        stamp = int(path.stat().st_mtime)
        while (aside := path.with_name(f"{path.name}.{'foreign' if foreign else 'damaged'}-{stamp}")).exists():
            stamp += 1
        path.replace(aside)
        for suffix in _SIDE_FILES:
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise StoreUnavailable(f"{reason}, and it cannot be moved away: {error.strerror}") from error
    log.error("%s; renamed to %s; starting with an empty database", reason, aside.name)


@contextlib.contextmanager
def errors(path: Path) -> Iterator[None]:
    """Turn the database's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGE or (not code and isinstance(error, sqlite3.OperationalError)):  # a text that is no UTF-8
            raise StoreCorrupt(f"{path} is damaged: {error}") from error
        if code == sqlite3.SQLITE_CANTOPEN and not os.access(path.parent, os.W_OK | os.X_OK):
            raise StoreUnavailable(f"cannot write {path}: the folder may not be written") from error
        raise StoreUnavailable(f"cannot write {path}: {error}") from error
    except CodecError as error:
        raise StoreCorrupt(f"{path}: {error}") from error
    except UnicodeDecodeError as error:  # the same, where Python cannot even quote it
        raise StoreCorrupt(f"{path} is damaged: {error}") from error


def roll_back(file: sqlite3.Connection) -> None:
    """End a transaction that failed, if there is one."""
    if file.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            file.execute("ROLLBACK")


def is_full(error: Exception) -> bool:
    """Return whether the disk is full, or the file has reached its limit."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_FULL


def _configure_log(connection: sqlite3.Connection, settings: StoreSettings) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # Tsdb.checkpoint does it off the tick
    connection.execute(f"PRAGMA journal_size_limit = {min(settings.log_bytes, 4 << 20)}")

"""The file half of the store: opening it when that is possible, setting aside what cannot be used, bounding its log."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from agent.tsdb import opening, recent
from agent.tsdb.recent import Recent
from agent.tsdb.schema import StoreCorrupt, StoreUnavailable
from agent.tsdb.settings import StoreSettings

_PATIENCE_SECONDS = 0.3


class DatabaseFile:
    """A database file, which may be away for a while; or a database in memory, when that is its path."""

    def __init__(self, path: Path, settings: StoreSettings) -> None:
        """Opens nothing."""
        self.path = path
        self.connection: sqlite3.Connection | None = None  # open for writing; None while that is not possible
        self.is_lost = False  # whether the open file is no longer the one of this name: it was deleted or replaced
        self.set_aside = 0  # files that were set aside
        self._settings = settings
        self._lock: IO[str] | None = None
        self._guard = threading.Lock()  # between `checkpoint` in its thread and `open` and `close`
        self._writing = threading.Lock()
        self._log = path.with_name(path.name + "-wal")
        self._inode = 0

    def open(self, *, check: bool = False, damaged: StoreCorrupt | None = None) -> Recent:
        """Open the file for writing, or begin a new one; what cannot be used is set aside.

        To check is to read the whole file for damage first; a file that turned out to be damaged is not opened again.
        Returns the part that belongs in memory.

        Raises:
            StoreUnavailable: It cannot be written now.
            StoreError: It may not be used; one line.
        """
        with self._guard:
            self._close()
            if self._lock is None and self.path != opening.MEMORY:
                self._lock = opening.lock(self.path)
            if damaged is None:
                try:
                    return self._opened(check=check)
                except StoreCorrupt as reason:
                    damaged = reason
            if self.path.exists():
                opening.set_aside(self.path, damaged)
                self.set_aside += 1
            try:
                return self._opened(check=False)
            except StoreCorrupt as error:
                raise StoreUnavailable(str(error)) from error

    def abandon(self) -> None:
        """Let a file go that is no longer there, and its lock, which went with it."""
        with self._guard:
            self._close()
            self._unlock()
            self.is_lost = False

    def bound_log(self) -> None:
        """Empty a log that has grown too long, on the spot.

        Raises:
            StoreUnavailable: It cannot be emptied: a reader holds it for too long, or the disk is full or slow.
        """
        size, most = size_of(self._log), self._settings.log_bytes
        if self.connection is None or size <= most or (self._guard.locked() and size <= most * 3 // 2):
            return  # or it is just being emptied by `checkpoint`
        with opening.errors(self.path):
            self.connection.execute("PRAGMA busy_timeout = 0")  # a tick does not wait for readers
            try:
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {opening.BUSY_MS}")
        if size_of(self._log) > most:
            raise StoreUnavailable(
                f"cannot write {self.path}: its log is full, because the disk is slow or another program reads the "
                "database for too long"
            )

    def checkpoint(self) -> None:
        """Move the log into the file and flush it, on a separate connection; then truncate the log.

        The first transaction after a checkpoint writes the head of the new log and waits until the disk has it. It is
        made here, so that no tick waits for that.

        Raises:
            StoreUnavailable: It could not be written.
        """
        with self._guard:
            if self.connection is None or self.path == opening.MEMORY:
                return
            self.is_lost = self._inode_of_path() != self._inode
            with (
                opening.errors(self.path),
                contextlib.closing(opening.connect_second(self.path, self._settings)) as connection,
            ):
                _, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages and pages == moved and self._writing.acquire(timeout=_PATIENCE_SECONDS):
                    try:
                        connection.execute("INSERT OR REPLACE INTO marks (name, value) VALUES ('log', ?)", (pages,))
                    finally:
                        self._writing.release()

    @property
    def is_renewing_log(self) -> bool:
        return self._writing.locked()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Write while `checkpoint` does not.

        Raises:
            StoreUnavailable: It does for too long.
        """
        if not self._writing.acquire(timeout=_PATIENCE_SECONDS):
            raise StoreUnavailable(f"cannot write {self.path}: the disk is very slow")
        try:
            yield
        finally:
            self._writing.release()

    def bytes_on_disk(self) -> int:
        """The file and its log [bytes]."""
        return size_of(self.path) + size_of(self._log)

    def close(self) -> None:
        """Empty the log into the file, close, and let others have it."""
        with self._guard:
            if self.connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._close()
            self._unlock()

    def _opened(self, *, check: bool) -> Recent:
        connection = opening.connect(self.path, self._settings, check=check)
        with opening.errors(self.path), opening.closed_on_error(connection):
            result = recent.load(connection)
        self._inode, self.connection = self._inode_of_path(), connection
        return result

    def _inode_of_path(self) -> int:
        try:
            return self.path.stat().st_ino
        except OSError:
            return -1

    def _close(self) -> None:
        if self.connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
        self.connection = None

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def size_of(path: Path) -> int:
    """Size of a file; 0 when it is not there. [bytes]"""
    try:
        return path.stat().st_size
    except OSError:
        return 0

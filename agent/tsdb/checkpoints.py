"""Checkpoints of the trainer, kept in the same file as the samples."""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SAVE: Final = (
    "INSERT INTO checkpoints (name, saved, data) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
    "SET saved = excluded.saved, data = excluded.data WHERE data IS NOT excluded.data"
)


def save(connection: sqlite3.Connection, now: float, checkpoints: Mapping[str, bytes]) -> None:
    """Replace all checkpoints by these, in one transaction. One that says the same as before is not written again.

    Args:
        connection: The open database.
        now: When they were made. [seconds since 1970]
        checkpoints: Content by name.
    """
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        gone = [(name,) for (name,) in connection.execute("SELECT name FROM checkpoints") if name not in checkpoints]
        connection.executemany("DELETE FROM checkpoints WHERE name = ?", gone)
        connection.executemany(_SAVE, [(name, now, data) for name, data in checkpoints.items()])


def load(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Content by name; empty before the first save."""
    return {name: bytes(data) for name, data in connection.execute("SELECT name, data FROM checkpoints")}


def load_read_only(path: Path) -> dict[str, bytes]:
    """The checkpoints of a database that can be read, though not written; empty when it cannot, or there is none.

    Read-only, then as an immutable file: on a read-only disk a log cannot be opened, and after a clean stop
    there is none.
    """
    for how in ("mode=ro", "mode=ro&immutable=1"):
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(
                sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=0.1)
            ) as connection,
        ):
            return load(connection)
    return {}

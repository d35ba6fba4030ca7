"""Checkpoints of the trainer, kept in the same file as the samples."""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent.tsdb import opening
from agent.tsdb.schema import StoreError

_SAVE: Final = (
    "INSERT INTO checkpoints (name, saved, data) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
    "SET saved = excluded.saved, data = excluded.data WHERE data IS NOT excluded.data"
)


def save(connection: sqlite3.Connection, now: float, checkpoints: Mapping[str, bytes]) -> None:
    """Replace all checkpoints by these, made then [seconds since 1970], in one transaction.

    An unchanged one is not written again.
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
    """The checkpoints of a database that can be read, though not written; empty when it cannot, or there is none."""
    with (
        contextlib.suppress(StoreError, sqlite3.Error),
        contextlib.closing(opening.connect_to_read(path)) as connection,
    ):
        return load(connection)
    return {}

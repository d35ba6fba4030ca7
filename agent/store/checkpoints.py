"""What the learner remembers, kept in the same file as the samples it learnt from."""

import sqlite3
from collections.abc import Mapping


def save(connection: sqlite3.Connection, now: float, checkpoints: Mapping[str, bytes]) -> None:
    """Replace all checkpoints by these, in one transaction.

    Args:
        connection: The open database.
        now: When they were made. [seconds since 1970]
        checkpoints: Content by name.
    """
    rows = [(name, now, data) for name, data in checkpoints.items()]
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM checkpoints")
        connection.executemany("INSERT INTO checkpoints (name, saved, data) VALUES (?, ?, ?)", rows)


def load(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Content by name; empty before the first save."""
    return {name: bytes(data) for name, data in connection.execute("SELECT name, data FROM checkpoints")}

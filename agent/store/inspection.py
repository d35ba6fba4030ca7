"""What a database holds, for people: tables, retention reached, bytes per sample. Never imported by the service."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlite_utils

from agent.store.schema import MINUTES, RAW, StoreError

_TIERS = {RAW: "samples", MINUTES: "minutes"}


def report(path: Path) -> str:
    """A page about a database, which may be in use.

    Raises:
        StoreError: There is none at this path, or it cannot be read.
    """
    if not path.exists():
        raise StoreError(f"there is no database at {path}; give the agent's --data-dir")
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        database = sqlite_utils.Database(connection)
        try:
            return "\n".join([f"{path}: {path.stat().st_size / 2**20:.1f} MiB", *_tables(database), *_tiers(database)])
        finally:
            database.close()
    except sqlite3.Error as error:
        raise StoreError(f"cannot read {path}: {error}") from error


def _tables(database: Any) -> Iterator[str]:  # noqa: ANN401 - the library publishes no complete annotations
    for name in sorted(database.table_names()):
        columns = ", ".join(column.name for column in database[name].columns)
        yield f"  {name}: {database[name].count} rows ({columns})"


def _tiers(database: Any) -> Iterator[str]:  # noqa: ANN401
    query = (
        "SELECT tier, level, count(DISTINCT blocks.id) AS blocks, count(*) AS chunks, sum(length(data)) AS bytes, "
        "min(start_ms) / 86400000.0 AS first, max(end_ms) / 86400000.0 AS last "
        "FROM blocks JOIN chunks ON chunks.block = blocks.id GROUP BY tier, level"
    )
    for row in database.query(query):
        days = row["last"] - row["first"]
        yield (
            f"  {_TIERS[row['tier']]}, level {row['level']}: {row['blocks']} blocks over {days:.2f} days, "
            f"{row['chunks']} chunks of {row['bytes'] / row['chunks']:.0f} bytes"
        )

"""Recent ticks and series as the file has them: loading at the start, writing through as they come."""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.tsdb import codec, segments
from agent.tsdb.catalog import Catalog, Layouts
from agent.tsdb.compaction import FLUSHED
from agent.tsdb.head import Head
from agent.tsdb.series import Floats, Integers

EVER: Final = 1 << 62
_TICKS = "SELECT id, run, time_ms, layout, amounts FROM head WHERE id > ? AND id < ? ORDER BY id"


@dataclass(slots=True)
class Recent:
    """What of a store lives in memory."""

    catalog: Catalog
    """The series that these ticks have."""
    layouts: Layouts
    """Which series ticks have."""
    head: Head
    """The recent ticks."""
    newest_segment: int = 0
    """The highest run so far."""

    @classmethod
    def nothing(cls) -> "Recent":
        """Of a store that was never written."""
        return cls(Catalog(), Layouts(), Head())

    def append(self, time_ms: int, numbers: list[int], values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
        """Add one tick.

        Args:
            time_ms: When. [milliseconds]
            numbers: Numbers of its series, shape (S,).
            values: Their values, shape (S,).
        """
        segment = segments.next_segment(self.head.last, time_ms, self.newest_segment)
        self.newest_segment = max(segment, self.newest_segment)
        layout = self.layouts.number(np.unique(np.array(numbers, np.int64)))
        self.head.append(segment, time_ms, layout, numbers, values)

    def append_from(self, other: "Recent", number: int) -> None:
        """Append another store's ticks from a number on, under our own numbers of their series."""
        known: dict[int, list[int]] = {}
        for tick in other.head.ticks(number, EVER):
            numbers = known.get(tick.layout)
            if numbers is None:
                labels = [other.catalog.labels(one) for one in tick.series.tolist()]
                numbers = known[tick.layout] = self.catalog.numbers(labels)
            self.append(tick.time_ms, numbers, tick.values)


def load(connection: sqlite3.Connection) -> Recent:
    """Read series and recent ticks.

    Raises:
        CodecError: A tick cannot be read.
        sqlite3.Error: The file cannot be read.
    """
    layouts = _layouts(connection)
    head, catalog = _unflushed(connection, layouts, EVER)
    newest = connection.execute("SELECT max(run) FROM (SELECT run FROM blocks UNION SELECT run FROM head)").fetchone()
    return Recent(catalog, Layouts(layouts.items()), head, newest[0] or 0)


def load_unflushed(connection: sqlite3.Connection, before: int) -> tuple[Head, Catalog]:
    """Ticks of the file that memory dropped before they were flushed, and their series.

    Args:
        connection: The open file.
        before: The number of the oldest tick in memory.
    """
    return _unflushed(connection, _layouts(connection), before)


def flushed_through(connection: sqlite3.Connection) -> int:
    """The number of the last tick that is in blocks."""
    row = connection.execute("SELECT value FROM marks WHERE name = ?", (FLUSHED,)).fetchone()
    return int(row[0]) if row else 0


def write(connection: sqlite3.Connection, recent: Recent, number: int, most: int) -> int:
    """Write ticks through, with the series and layouts that they need, in one transaction.

    Args:
        connection: The open file.
        recent: What to write.
        number: The first tick that is not in the file yet.
        most: How many ticks at most.

    Returns:
        The first tick that is not in the file then.
    """
    ticks = list(recent.head.ticks(number, most))
    if not ticks:
        return recent.head.next_number
    rows = []
    for tick in ticks:
        amounts = np.rint(tick.values * recent.catalog.scales(tick.series.tolist())).astype("<i8").tobytes()
        rows.append((tick.number, tick.segment, tick.time_ms, tick.layout, amounts))
    series, layouts = recent.catalog.unsaved(), recent.layouts.unsaved()
    connection.execute("BEGIN IMMEDIATE")
    try:
        if series:
            connection.executemany("INSERT INTO series (id, metric, entity, container) VALUES (?, ?, ?, ?)", series)
        if layouts:
            connection.executemany("INSERT INTO layouts (id, series) VALUES (?, ?)", layouts)
        connection.executemany("INSERT INTO head (id, run, time_ms, layout, amounts) VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    recent.catalog.saved()
    recent.layouts.saved()
    return ticks[-1].number + 1


def _layouts(connection: sqlite3.Connection) -> dict[int, bytes]:
    return {number: bytes(packed) for number, packed in connection.execute("SELECT id, series FROM layouts")}


def _unflushed(connection: sqlite3.Connection, layouts: Mapping[int, bytes], before: int) -> tuple[Head, Catalog]:
    """Ticks that are not in blocks, of a number below this, and the series that any of the layouts has."""
    unpacked = {number: np.frombuffer(packed, "<u4").astype(np.int64) for number, packed in layouts.items()}
    wanted = np.unique(np.concatenate([*unpacked.values(), np.empty(0, np.int64)])).tolist()
    query = "SELECT id, metric, entity, container FROM series WHERE id = ?"
    found = [row for one in wanted for row in connection.execute(query, (one,))]
    (highest,) = connection.execute("SELECT max(id) FROM series").fetchone()
    catalog, flushed = Catalog(found, (highest or 0) + 1), flushed_through(connection)
    return _head(connection.execute(_TICKS, (flushed, before)), unpacked, catalog, flushed + 1), catalog


def _head(
    rows: Iterable[tuple[int, int, int, int, bytes]], layouts: Mapping[int, Integers], catalog: Catalog, first: int
) -> Head:
    head = Head(first)
    scales: dict[int, Floats] = {}
    for number, segment, time_ms, layout, packed in rows:
        series, amounts = layouts.get(layout), np.frombuffer(packed, "<i8")
        if series is None or len(series) != len(amounts):
            raise codec.CodecError(f"tick {number} of the database does not fit its series")
        if not np.all((amounts > -codec.LARGEST) & (amounts < codec.LARGEST)):
            raise codec.CodecError(f"tick {number} of the database holds a sample that nothing can amount to")
        if layout not in scales:
            scales[layout] = catalog.scales(series.tolist())
        head.next_number = number
        head.append(segment, time_ms, layout, series.tolist(), amounts / scales[layout])
    return head

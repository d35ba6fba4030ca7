"""The part of a store in memory, recent ticks and their series: loaded at the start, written through after that."""

import sqlite3
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.tsdb import codec, segments
from agent.tsdb.catalog import Catalog
from agent.tsdb.head import Head
from agent.tsdb.series import Floats

FLUSHED: Final = "flushed"  # name of the mark of the last tick of the head that is in blocks
_NEWEST: Final = "SELECT max(run) FROM (SELECT run FROM blocks UNION SELECT run FROM head)"


@dataclass(slots=True)
class Recent:
    """Recent ticks, and the series that these have."""

    head: Head = field(default_factory=Head)
    catalog: Catalog = field(default_factory=Catalog)
    newest_segment: int = 0  # the highest segment so far

    def append(self, time_ms: int, numbers: list[int], amounts: Floats) -> None:
        """Add one tick: its time, the numbers of its series and their amounts [steps], shape (S,) each."""
        segment = segments.next_segment(self.head.last, time_ms, self.newest_segment)
        self.newest_segment = max(segment, self.newest_segment)
        self.head.append(segment, time_ms, numbers, amounts)

    def append_from(self, other: "Recent", number: int) -> None:
        """Append another store's ticks from a number on, under our own numbers of their series."""
        for tick in other.head.ticks(number):
            numbers = self.catalog.numbers([other.catalog.labels(number) for number in tick.series.tolist()])
            self.append(tick.time_ms, numbers, tick.amounts.astype(float))


def load(connection: sqlite3.Connection) -> Recent:
    """Read recent ticks and their series.

    Raises:
        CodecError: A tick cannot be read.
        sqlite3.Error: The file cannot be read.
    """
    head = load_unflushed(connection)
    query = "SELECT id, metric, entity, container FROM series WHERE id = ?"
    result = [row for series in sorted(head.series()) for row in connection.execute(query, (series,))]
    (highest,) = connection.execute("SELECT max(id) FROM series").fetchone()
    (newest,) = connection.execute(_NEWEST).fetchone()
    return Recent(head, Catalog(result, (highest or 0) + 1), newest or 0)


def load_unflushed(connection: sqlite3.Connection, before: int = 1 << 62) -> Head:
    """Ticks of the file that are not in blocks, of numbers below this: memory may have dropped them before that."""
    flushed = flushed_through(connection)
    packed = dict(connection.execute("SELECT id, series FROM layouts"))
    layouts = {number: np.frombuffer(series, "<u4").astype(np.int64).tolist() for number, series in packed.items()}
    head = Head(flushed + 1)
    query = "SELECT id, run, time_ms, layout, amounts FROM head WHERE id > ? AND id < ? ORDER BY id"
    for number, segment, time_ms, layout, content in connection.execute(query, (flushed, before)):
        series, amounts = layouts.get(layout), np.frombuffer(content, "<i8").astype(float)
        if series is None or len(series) != len(amounts):
            raise codec.CodecError(f"tick {number} of the database does not fit its series")
        if not np.all(np.abs(amounts) < codec.LARGEST):
            raise codec.CodecError(f"tick {number} of the database holds a sample that nothing can amount to")
        head.next_number = number
        head.append(segment, time_ms, series, amounts)
    return head


def flushed_through(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM marks WHERE name = ?", (FLUSHED,)).fetchone()
    return int(row[0]) if row else 0


def write(connection: sqlite3.Connection, recent: Recent, number: int, most: int) -> int:
    """Write ticks through, from that number on and at most so many, with the series that they need; a transaction.

    Returns:
        The first tick that is not in the file then.
    """
    ticks = list(recent.head.ticks(number, most))
    if not ticks:
        return recent.head.next_number
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if series := recent.catalog.unsaved():
            connection.executemany("INSERT INTO series (id, metric, entity, container) VALUES (?, ?, ?, ?)", series)
        for tick in ticks:
            layout = _layout(connection, tick.series.astype("<u4").tobytes())
            row = (tick.number, tick.segment, tick.time_ms, layout, tick.amounts.astype("<i8").tobytes())
            connection.execute("INSERT INTO head (id, run, time_ms, layout, amounts) VALUES (?, ?, ?, ?, ?)", row)
    recent.catalog.saved()
    return ticks[-1].number + 1


def _layout(connection: sqlite3.Connection, series: bytes) -> int:
    """Return which series a tick has, in rising order: ticks of one set of series share one layout."""
    row = connection.execute("SELECT id FROM layouts WHERE series = ?", (series,)).fetchone()
    return (
        int(row[0]) if row else connection.execute("INSERT INTO layouts (series) VALUES (?)", (series,)).lastrowid or 0
    )

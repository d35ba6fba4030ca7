"""A database at one moment, for people and tools: read-only, while the agent may write to it."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agent.tsdb import opening, recent, retention
from agent.tsdb.codec import CodecError
from agent.tsdb.file import size_of
from agent.tsdb.reader import Reader
from agent.tsdb.recent import Recent
from agent.tsdb.schema import LIVE, MINUTES, RAW, VERSION
from agent.tsdb.series import MINUTE_MS

_NAMES = {RAW: "samples", MINUTES: "minutes"}


@dataclass(frozen=True, slots=True)
class Resolution:
    """The data of one resolution."""

    name: str  # ``recent`` (samples not yet compressed), ``samples`` or ``minutes``
    series: int  # series that have any
    points: int  # samples, or points
    size: int  # without the database's own overhead [bytes]
    first: float | None  # time of the first one [seconds since 1970]
    last: float | None  # time of the last one [seconds since 1970]

    @property
    def bytes_per_point(self) -> float | None:
        """Bytes per sample or point; None when there is none."""
        return self.size / self.points if self.points else None


@dataclass(frozen=True, slots=True)
class Stats:
    """Size and content of a database."""

    path: str
    file_bytes: int  # the file on disk, without its write-ahead log
    log_bytes: int
    used_bytes: int  # the part of the file with data
    schema: int
    series: int
    checkpoints: int  # the number of checkpoints
    checkpoint_bytes: int
    resolutions: tuple[Resolution, ...]


class DatabaseReader(Reader):
    """An open database that is only read. It shows the moment at which it was opened."""

    def __init__(self, path: Path, connection: sqlite3.Connection, found: Recent) -> None:
        """See `open`; the connection is in a transaction."""
        super().__init__(found)
        self.path = path
        self._connection = connection
        self.unreadable: dict[str, None] = {}  # unreadable chunks, missing from results

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a database, which may be in use.

        Raises:
            StoreError: There is none, it is damaged or another program's, or of another version. One line.
        """
        connection = opening.connect_to_read(path)
        with opening.errors(path), opening.closed_on_error(connection):
            connection.execute("BEGIN")
            return cls(path, connection, recent.load(connection))

    @property
    def connection(self) -> sqlite3.Connection:
        return self._connection

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def last_time(self) -> float:
        """Time of the sample recorded last; 0 when there is none. [seconds since 1970]"""
        if (last := self.recent.head.last) is not None:
            return last[1] / 1000.0
        query = "SELECT end_ms FROM blocks WHERE tier = ? AND state = ? ORDER BY run DESC, start_ms DESC LIMIT 1"
        row = self.connection.execute(query, (RAW, LIVE)).fetchone()
        return row[0] / 1000.0 if row else 0.0

    def stats(self) -> Stats:
        """Return size and content."""
        (series,) = self._row("SELECT count(*) FROM series")
        checkpoints, checkpoint_bytes = self._row("SELECT count(*), coalesce(sum(length(data)), 0) FROM checkpoints")
        return Stats(
            path=str(self.path),
            file_bytes=size_of(self.path),
            log_bytes=size_of(self.path.with_name(self.path.name + "-wal")),
            used_bytes=retention.used_bytes(self.connection),
            schema=VERSION,
            series=series,
            checkpoints=checkpoints,
            checkpoint_bytes=checkpoint_bytes,
            resolutions=(self._recent_ticks(), *(self._tier(tier) for tier in _NAMES)),
        )

    def metrics(self) -> list[str]:
        """The metrics of all series, sorted."""
        return [
            row[0] for row in self._read(lambda file: file.execute("SELECT DISTINCT metric FROM series ORDER BY 1"))
        ]

    def has_series(self, metric: str, entity: str, container: str = "") -> bool:
        """Return whether there is such a series."""
        query, labels = (
            "SELECT 1 FROM series WHERE metric = ? AND entity = ? AND container = ?",
            (metric, entity, container),
        )
        return bool(self._read(lambda file: file.execute(query, labels)))

    def time_range(self, tier: int) -> tuple[float, float] | None:
        """A window that has all that was recorded of a tier; None when nothing was. [seconds since 1970]"""
        result = self._extents(tier).values()
        if not result:
            return None
        first, last = min(start for start, _ in result), max(end for _, end in result)
        return (first // MINUTE_MS * MINUTE_MS - 1) / 1000.0, (last // MINUTE_MS + 1) * MINUTE_MS / 1000.0

    def _recent_ticks(self) -> Resolution:
        head = self.recent.head
        (size,) = self._row("SELECT coalesce(sum(length(amounts)), 0) FROM head WHERE id >= ?", head.first_number)
        times = [time / 1000.0 for extent in head.extents().values() for time in extent]
        ends = min(times, default=None), max(times, default=None)
        return Resolution("recent", len(head.series()), size // 8, size, *ends)

    def _tier(self, tier: int) -> Resolution:
        query = (
            "SELECT coalesce(sum(samples), 0), coalesce(sum(length(times)), 0), min(start_ms), max(end_ms) "
            "FROM blocks WHERE tier = ? AND state = ?"
        )
        points, times, *ends = self._row(query, tier, LIVE)
        query = (
            "SELECT count(DISTINCT series), coalesce(sum(length(data)), 0) FROM chunks "
            "WHERE block IN (SELECT id FROM blocks WHERE tier = ? AND state = ?)"
        )
        series, data = self._row(query, tier, LIVE)
        first, last = (None if end is None else end / 1000.0 for end in ends)
        return Resolution(_NAMES[tier], series, points, data + times, first, last)

    def _row(self, query: str, *values: int) -> tuple[int, ...]:
        row: tuple[int, ...] = self.connection.execute(query, values).fetchone()
        return row

    def _was_read(self, error: sqlite3.Error | None) -> None:
        if error is not None:
            with opening.errors(self.path):
                raise error

    def _cannot_decode(self, block: int, series: int, error: CodecError) -> None:
        self.unreadable[f"block {block}, series {series}: {error}"] = None  # once, however often it is read

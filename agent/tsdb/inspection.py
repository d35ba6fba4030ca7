"""A database as it is at one moment, for people and tools: read-only, beside the agent that writes to it."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from agent.tsdb import opening, persistence, retention
from agent.tsdb.codec import CodecError
from agent.tsdb.persistence import Recent
from agent.tsdb.queries import Queries
from agent.tsdb.retention import DAY_MS
from agent.tsdb.schema import LIVE, MINUTES, RAW, VERSION

_NAMES = {RAW: "samples", MINUTES: "minutes"}


@dataclass(frozen=True, slots=True)
class Resolution:
    """What is kept at one resolution."""

    name: str
    """``recent`` (samples not yet compressed), ``samples`` or ``minutes``."""
    series: int
    """Series that have any."""
    points: int
    """Samples, or points."""
    size: int
    """What they take, without the database's own overhead. [bytes]"""
    first: float | None
    """Time of the first one. [seconds since 1970]"""
    last: float | None
    """Time of the last one. [seconds since 1970]"""

    @property
    def bytes_per_point(self) -> float | None:
        """Bytes per sample or point; None when there is none."""
        return self.size / self.points if self.points else None


@dataclass(frozen=True, slots=True)
class Stats:
    """How large a database is, and what is in it."""

    path: str
    """The file."""
    file_bytes: int
    """The file on disk."""
    log_bytes: int
    """Its write-ahead log on disk."""
    used_bytes: int
    """What of the file holds data."""
    schema: int
    """Its version."""
    series: int
    """Series known."""
    checkpoints: int
    """What was learned, in so many parts."""
    checkpoint_bytes: int
    """What that takes."""
    resolutions: tuple[Resolution, ...] = field(default=())
    """What is kept at each."""


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """One series."""

    metric: str
    """What is measured."""
    entity: str
    """The node, the system, a class, or a pod's uid."""
    container: str
    """The container; empty for the whole entity."""
    first_day: int | None
    """The first day that it has something of (days since 1970); None while all of it is recent."""
    last_day: int | None
    """The last one."""


class DatabaseReader:
    """An open database that is only read. It shows the moment at which it was opened."""

    def __init__(self, path: Path, connection: sqlite3.Connection, recent: Recent) -> None:
        """See `open`.

        Args:
            path: The file.
            connection: The open file, in a transaction.
            recent: What of it lives in memory.
        """
        self.path = path
        self.connection = connection
        self.recent = recent
        self.unreadable: dict[str, None] = {}
        """Chunks that answers had to do without."""
        self.queries = Queries(recent.catalog, recent.head, connection, self._was_read, self._cannot_decode)
        """Answers windows."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a database, which may be in use.

        Raises:
            StoreError: There is none, it is damaged or another program's, or of another version. One line.
        """
        connection = opening.connect_to_read(path)
        try:
            with opening.errors(path):
                connection.execute("BEGIN")
                return cls(path, connection, persistence.load(connection))
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Let the file go."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def last_time(self) -> float:
        """Time of the sample recorded last; 0 when there is none. [seconds since 1970]"""
        last = self.recent.head.last
        if last is not None:
            return last[1] / 1000.0
        query = "SELECT end_ms FROM blocks WHERE tier = ? AND state = ? ORDER BY run DESC, start_ms DESC LIMIT 1"
        row = self.connection.execute(query, (RAW, LIVE)).fetchone()
        return row[0] / 1000.0 if row else 0.0

    def stats(self) -> Stats:
        """How large it is, and what is in it."""
        query = "SELECT count(*), coalesce(sum(length(data)), 0) FROM checkpoints"
        checkpoints, checkpoint_bytes = self.connection.execute(query).fetchone()
        return Stats(
            path=str(self.path),
            file_bytes=_size(self.path),
            log_bytes=_size(self.path.with_name(self.path.name + "-wal")),
            used_bytes=retention.used_bytes(self.connection),
            schema=VERSION,
            series=retention.series(self.connection),
            checkpoints=checkpoints,
            checkpoint_bytes=checkpoint_bytes,
            resolutions=(self._recent(), *(self._blocks(tier) for tier in _NAMES)),
        )

    def series(self, metric: str = "", entity: str = "", container: str | None = None) -> Iterator[SeriesInfo]:
        """The series that fit, by metric, entity and container.

        Args:
            metric: Only this metric; empty for all.
            entity: Only entities that begin with this; empty for all.
            container: Only this container; None for all.
        """
        query = (
            "SELECT metric, entity, container, min(blocks.start_ms), max(blocks.end_ms) FROM series "
            "LEFT JOIN chunks ON chunks.series = series.id LEFT JOIN blocks ON blocks.id = chunks.block AND "
            "blocks.state = ? WHERE metric = coalesce(?, metric) AND "
            "container = coalesce(?, container) AND substr(entity, 1, length(?)) = ? "
            "GROUP BY metric, entity, container ORDER BY metric, entity, container"
        )
        given = (LIVE, metric or None, container, entity, entity)
        for one, name, part, first, last in self.connection.execute(query, given):
            yield SeriesInfo(one, name, part, *(None if time is None else time // DAY_MS for time in (first, last)))

    def _recent(self) -> Resolution:
        head = self.recent.head
        query = "SELECT coalesce(sum(length(amounts)), 0) FROM head WHERE id >= ?"
        size = self.connection.execute(query, (head.first_number,)).fetchone()[0]
        times = [time / 1000.0 for extent in head.extents().values() for time in extent]
        return Resolution(
            "recent", len(head.series()), size // 8, size, min(times, default=None), max(times, default=None)
        )

    def _blocks(self, tier: int) -> Resolution:
        where = "FROM blocks WHERE tier = ? AND state = ?"
        query = f"SELECT sum(samples), sum(length(times)), min(start_ms), max(end_ms) {where}"
        points, times, first, last = self.connection.execute(query, (tier, LIVE)).fetchone()
        query = (
            "SELECT count(DISTINCT series), sum(length(data)) FROM chunks "  # noqa: S608 - own text
            f"WHERE block IN (SELECT id {where})"
        )
        series, data = self.connection.execute(query, (tier, LIVE)).fetchone()
        ends = [None if one is None else one / 1000.0 for one in (first, last)]
        return Resolution(_NAMES[tier], series, points or 0, (data or 0) + (times or 0), ends[0], ends[1])

    def _was_read(self, error: sqlite3.Error | None) -> bool:
        if error is not None:
            with opening.errors(self.path):
                raise error
        return True

    def _cannot_decode(self, block: int, series: int, error: CodecError) -> None:
        self.unreadable[f"block {block}, series {series}: {error}"] = None  # once, however often it is read


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

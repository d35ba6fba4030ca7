"""Is a database as it should be: every chunk readable, in order, counted, and the minutes those of the samples."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from agent.tsdb import blocks, codec, opening
from agent.tsdb.codec import CodecError
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.schema import LIVE, MINUTES, RAW, StoreCorrupt
from agent.tsdb.segments import Extents
from agent.tsdb.series import MINUTE_MS, Integers, Points

_MOST_FINDINGS = 20


@dataclass(slots=True)
class VerificationResult:
    """The result of a verification."""

    blocks: int = 0  # blocks that were read
    chunks: int = 0  # chunks that were decoded
    samples: int = 0  # samples in them, and ticks' samples that are not compressed yet
    findings: list[str] = field(default_factory=list)  # faults, a sentence each

    @property
    def is_sound(self) -> bool:
        return not self.findings


def verify(database: DatabaseReader) -> VerificationResult:
    """Read everything, and compare."""
    result = VerificationResult()
    try:
        with opening.errors(database.path):
            result.findings += _pages(database.connection)
            if result.is_sound:
                result.findings += _blocks(database, result)
                result.findings += _overlaps(database.connection)
                result.findings += _recent(database, result)
                result.findings += _roll_up(database)
                result.findings += _unfinished(database.connection)
    except StoreCorrupt as error:
        result.findings.append(str(error))
    return result


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute(f"PRAGMA integrity_check({_MOST_FINDINGS})"):
        if line != "ok":
            yield " ".join(line.split())


def _blocks(database: DatabaseReader, result: VerificationResult) -> Iterator[str]:
    """Every block: its times, its chunks, its count."""
    catalogued = {number for (number,) in database.connection.execute("SELECT id FROM series")}
    query = "SELECT id, tier, start_ms, end_ms, samples, times FROM blocks WHERE state = ? ORDER BY id"
    for block, tier, start, end, samples, encoded in database.connection.execute(query, (LIVE,)).fetchall():
        result.blocks += 1
        try:
            times = codec.decode_times(encoded)
        except CodecError as error:
            yield f"block {block}: {error}"
            continue
        if (int(times[0]), int(times[-1])) != (start, end):
            yield f"block {block}: its times are not those that it is listed with"
        count = 0
        rows = database.connection.execute("SELECT series, data FROM chunks WHERE block = ? ORDER BY series", (block,))
        for series, data in rows:
            result.chunks += 1
            try:
                count += _points(tier, data, times)
            except CodecError as error:
                yield f"block {block}, series {series}: {error}"
            if series not in catalogued:
                yield f"block {block}: series {series} has no name"
        if count != samples:
            yield f"block {block}: has {count} points, {samples} were counted"
        result.samples += count if tier == RAW else 0


def _points(tier: int, data: bytes, times: Integers) -> int:
    own, columns = blocks.decode(tier, data, times)
    if tier == MINUTES and bool(np.any(columns[1] < columns[0]) or np.any(columns[2] < 1)):
        raise CodecError("damaged chunk: a minute with a maximum below its average, or without samples")
    return len(own)


def _overlaps(connection: sqlite3.Connection) -> Iterator[str]:
    """Blocks of one segment follow each other; those of minutes may share one at the seam."""
    query = (
        "SELECT id, before FROM (SELECT id, start_ms, lag(id) OVER following AS before, "
        "lag(end_ms) OVER following + (tier = ?) AS free FROM blocks WHERE state = ? "
        "WINDOW following AS (PARTITION BY tier, run ORDER BY start_ms)) WHERE start_ms < free"
    )
    for block, before in connection.execute(query, (RAW, LIVE)):
        yield f"block {block} overlaps block {before}"


def _recent(database: DatabaseReader, result: VerificationResult) -> Iterator[str]:
    """The ticks that are not compressed yet: those that could be loaded are sound but for their order."""
    before: tuple[int, int] = (-1, 0)
    for tick in database.recent.head.ticks(0):
        result.samples += len(tick.series)
        if tick.segment == before[0] and tick.time_ms <= before[1]:
            yield f"tick {tick.number} is not later than the one before it"
        before = tick.segment, tick.time_ms


def _roll_up(database: DatabaseReader) -> Iterator[str]:
    """Compare samples and minutes where the database has both."""
    extents = blocks.extents(database.connection, RAW)
    if not extents or _is_recorded_over(extents, database.recent.head.extents()):
        return  # a minute that was recorded twice is cut at its beginning, its samples where the second time began
    start, end = _whole_minutes(extents)
    query = (
        "SELECT DISTINCT metric, entity, container FROM blocks JOIN chunks ON chunks.block = blocks.id "
        "JOIN series ON series.id = chunks.series WHERE blocks.tier = ? AND blocks.state = ?"
    )
    for metric, entity, container in database.connection.execute(query, (RAW, LIVE)).fetchall():
        samples = database.window(metric, entity, (start - 1) / 1000, (end - 1) / 1000, container)
        minutes = database.minutes(metric, start / 1000, end / 1000, (entity,), container).get(entity)
        times = np.rint(samples.times * 1000).astype(np.int64)
        wanted = Points.of(times, samples.values)
        starts = np.empty(0, np.int64) if minutes is None else minutes.starts_ms
        if not np.array_equal(starts, wanted.starts_ms):
            yield f"{metric} of {entity}: has samples of {len(wanted)} minutes, and {len(starts)} minutes"
        elif minutes is not None and not (
            np.array_equal(minutes.count, wanted.count)
            and np.allclose(minutes.average, wanted.average, atol=1.0 / codec.steps_per_unit(metric), rtol=1e-9)
        ):
            yield f"{metric} of {entity}: its minutes are not those of its samples"


def _whole_minutes(extents: Extents) -> tuple[int, int]:
    """From the first whole minute that samples are kept of to the last, of the newest run. [milliseconds]"""
    first, last = extents[max(extents)]
    return -(-first // MINUTE_MS) * MINUTE_MS, last // MINUTE_MS * MINUTE_MS


def _is_recorded_over(extents: Extents, recent: Extents) -> bool:
    newest = max(extents)
    first, last = extents[newest]
    return any(segment > newest and start <= last and end >= first for segment, (start, end) in recent.items())


def _unfinished(connection: sqlite3.Connection) -> Iterator[str]:
    """Chunks of blocks that do not exist are never read, and never deleted."""
    query = "SELECT count(*) FROM chunks WHERE block NOT IN (SELECT id FROM blocks)"
    (orphans,) = connection.execute(query).fetchone()
    if orphans:
        yield f"{orphans} chunks belong to no block"

"""Answers from a store: the recent ticks in memory, the older ones in the file, each moment in its latest recording."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import numpy as np

from agent.numerics.aggregate import WindowStatistics, statistics
from agent.tsdb import blocks, rollup, segments
from agent.tsdb.blocks import OnDamaged
from agent.tsdb.catalog import Catalog, SeriesSelector
from agent.tsdb.head import Head
from agent.tsdb.rollup import MINUTE_MS, Points
from agent.tsdb.schema import MINUTES, RAW
from agent.tsdb.segments import Extents, SegmentSamples
from agent.tsdb.series import EMPTY, Integers, Series

_Row = TypeVar("_Row")


class Queries:
    """Reads one store. Where the file cannot be read the answers come from memory alone."""

    def __init__(
        self,
        catalog: Catalog,
        head: Head,
        connection: sqlite3.Connection | None,
        read: Callable[[sqlite3.Error | None], bool],
        damaged: OnDamaged,
    ) -> None:
        """Reads nothing yet.

        Args:
            catalog: The series.
            head: The recent ticks.
            connection: The file; None without one.
            read: Called when the file was read, or with the error; returns whether it may be read again.
            damaged: Called for chunks that cannot be read, which are left out.
        """
        self._catalog = catalog
        self._head = head
        self._connection = connection
        self._was_read = read
        self._damaged = damaged
        self._extents: dict[int, Extents] = {}

    def blocks_changed(self) -> None:
        """Blocks came or went."""
        self._extents.clear()

    def window(self, metric: str, entity: str, start: float, end: float, container: str = "") -> Series:
        """Raw samples with start < time <= end. [seconds since 1970] Empty when there are none."""
        return self._window(SeriesSelector(metric, (entity,), container), start, end).get(entity, EMPTY)

    def windows(self, metric: str, start: float, end: float) -> dict[str, Series]:
        """The same for every entity that has samples of this metric in the window."""
        return self._window(SeriesSelector(metric), start, end)

    def statistics(
        self, metric: str, entity: str, start: float, end: float, container: str = ""
    ) -> WindowStatistics | None:
        """Average, deviation, percentiles, highest, last, count and span of a window; None when it has no samples."""
        found = self.window(metric, entity, start, end, container)
        return statistics(found.times, found.values) if len(found) else None

    def minutes(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> dict[str, Points]:
        """1-minute points (average, highest, count) by entity, of minutes that begin at start <= time < end.

        Args:
            metric: Which metric.
            start: [seconds since 1970]
            end: [seconds since 1970]
            entities: Whose; None for all.
        """
        return self._minutes(SeriesSelector(metric, entities), round(start * 1000), round(end * 1000))

    def minutes_of(self, metric: str, entity: str, start: float, end: float, container: str = "") -> Points | None:
        """The same for one series; None when it has none."""
        selector = SeriesSelector(metric, (entity,), container)
        return self._minutes(selector, round(start * 1000), round(end * 1000)).get(entity)

    def averages(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> dict[str, Series]:
        """Averages of five minutes by entity, at the times these begin; from 1-minute points."""
        found = self.minutes(metric, start, end, entities)
        return {entity: rollup.averages(points, rollup.FIVE_MINUTES_MS) for entity, points in found.items()}

    def metrics(self) -> list[str]:
        """The metrics of all series, sorted."""
        known = {row[0] for row in self._read(lambda file: file.execute("SELECT DISTINCT metric FROM series"))}
        return sorted(known | self._catalog.metrics())

    def time_range(self, tier: int) -> tuple[float, float] | None:
        """A window that has all that was recorded; None when nothing was. [seconds since 1970]

        Args:
            tier: `RAW` for samples, `MINUTES` for 1-minute points.
        """
        found = self._segments(tier).values()
        if not found:
            return None
        first, last = min(start for start, _ in found), max(end for _, end in found)
        return (first // MINUTE_MS * MINUTE_MS - 1) / 1000.0, (last // MINUTE_MS + 1) * MINUTE_MS / 1000.0

    def has_series(self, metric: str, entity: str, container: str = "") -> bool:
        """Whether there is such a series."""
        query = "SELECT 1 FROM series WHERE metric = ? AND entity = ? AND container = ? LIMIT 1"
        labels = metric, entity, container
        return self._catalog.number(*labels) is not None or any(self._read(lambda file: file.execute(query, labels)))

    def _window(self, selector: SeriesSelector, start: float, end: float) -> dict[str, Series]:
        start_ms, end_ms = round(start * 1000), round(end * 1000)
        parts: defaultdict[str, list[SegmentSamples]] = defaultdict(list)
        if not self._head_has_all(start_ms, end_ms):
            for entity, part in self._read(
                lambda file: blocks.read_raw(file, selector, start_ms, end_ms, self._damaged)
            ):
                parts[entity].append(part)
        for entity, part in self._recent(selector, start_ms, end_ms):
            parts[entity].append(part)
        extents = self._segments(RAW)
        joined = {entity: segments.joined(found, extents) for entity, found in parts.items()}
        return {entity: found for entity, found in joined.items() if len(found)}

    def _recent(self, selector: SeriesSelector, start_ms: int, end_ms: int) -> Iterator[tuple[str, SegmentSamples]]:
        """Samples of the recent ticks with start < time <= end, by entity, run by run."""
        names = self._catalog.matching(selector)
        for one, part in self._head.parts(list(names), start_ms, end_ms):
            yield names[one], part

    def _head_has_all(self, start_ms: int, end_ms: int) -> bool:
        """Whether a window needs no blocks: the recent ticks reach back to its start, and nothing older is in it."""
        head = self._head
        if not (len(head) and head.is_one_segment and head.oldest_ms - 1 <= start_ms):
            return False
        last = head.last
        beyond = last[1] if last else start_ms
        return not any(first <= end_ms and end > beyond for first, end in self._file_extents(RAW).values())

    def _minutes(self, selector: SeriesSelector, start_ms: int, end_ms: int) -> dict[str, Points]:
        parts: defaultdict[str, list[tuple[int, Points]]] = defaultdict(list)
        for entity, segment, points in self._read(
            lambda file: blocks.read_minutes(file, selector, start_ms, end_ms, self._damaged)
        ):
            parts[entity].append((segment, points))
        whole = (-(-start_ms // MINUTE_MS) * MINUTE_MS - 1, -(-end_ms // MINUTE_MS) * MINUTE_MS - 1)
        for entity, part in self._recent(selector, *whole):
            parts[entity].append(
                (part.segment, rollup.points(_milliseconds(part.series), part.series.values, MINUTE_MS))
            )
        extents = {
            segment: (first // MINUTE_MS * MINUTE_MS, last // MINUTE_MS * MINUTE_MS)
            for segment, (first, last) in self._segments(MINUTES).items()
        }
        answer: dict[str, Points] = {}
        for entity, found in parts.items():
            seen = [
                points if mask is None else points.where(mask)
                for segment, points in found
                for mask in [segments.shown(segment, points.starts_ms, extents)]
            ]
            points = rollup.merged(rollup.concatenated(seen), MINUTE_MS)
            if len(points):
                answer[entity] = points
        return answer

    def _segments(self, tier: int) -> Extents:
        """All runs, the recent ticks included."""
        found, head = self._file_extents(tier), self._head.extents()
        return segments.widened(found, head) if head else found

    def _file_extents(self, tier: int) -> Extents:
        if tier not in self._extents:
            self._extents[tier] = dict(self._read(lambda file: iter(blocks.extents(file, tier).items())))
        return self._extents[tier]

    def _read(self, query: Callable[[sqlite3.Connection], Iterator[_Row]]) -> Iterator[_Row]:
        if self._connection is not None:
            try:
                yield from query(self._connection)
            except sqlite3.Error as error:
                if not self._was_read(error):
                    self._connection = None
            else:
                self._was_read(None)


def _milliseconds(series: Series) -> Integers:
    return np.rint(series.times * 1000).astype(np.int64)

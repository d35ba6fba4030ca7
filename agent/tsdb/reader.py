"""Answers from a store: the recent ticks in memory, the older ones in the file, each moment in its latest recording."""

import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

import numpy as np

from agent.tsdb import blocks, codec
from agent.tsdb.catalog import SeriesSelector
from agent.tsdb.codec import CodecError
from agent.tsdb.recent import Recent
from agent.tsdb.schema import MINUTES, RAW
from agent.tsdb.segments import Extents, Part, latest, widened
from agent.tsdb.series import EMPTY, FIVE_MINUTES_MS, MINUTE_MS, NO_TIMES, Floats, Integers, Points, Series

_Row = TypeVar("_Row")


class Reader(ABC):
    """Reads a store. Where the file cannot be read results come from memory alone."""

    def __init__(self, recent: Recent) -> None:
        self.recent = recent
        self._file_extents: dict[int, Extents] = {}  # by tier, until blocks change

    @property
    @abstractmethod
    def connection(self) -> sqlite3.Connection | None:
        """The open file; None without one."""

    @abstractmethod
    def _was_read(self, error: sqlite3.Error | None) -> None:
        """The file was read, or why it could not be."""

    @abstractmethod
    def _cannot_decode(self, block: int, series: int, error: CodecError) -> None:
        """A chunk cannot be read, and is left out."""

    def window(self, metric: str, entity: str, start: float, end: float, container: str = "") -> Series:
        """Raw samples with start < time <= end. [seconds since 1970] Empty when there are none."""
        return self.windows(metric, start, end, (entity,), container).get(entity, EMPTY)

    def windows(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None, container: str = ""
    ) -> dict[str, Series]:
        """The same for every entity, of these or of all, that has samples of this metric in the window."""
        selector, start_ms, end_ms = SeriesSelector(metric, entities, container), round(start * 1000), round(end * 1000)
        recent = self._recent_parts(selector, start_ms, end_ms)
        result: Iterator[tuple[str, Integers, Floats]]
        if self._head_has_all(start_ms, end_ms):  # in one segment, so each series has one part
            result = ((entity, part.times_ms, part.columns) for entity, part in recent)
        else:
            parts = self._blocks(RAW, selector, start_ms, end_ms)
            for entity, part in recent:
                parts[entity].append(part)
            result = latest(parts, self._extents(RAW))
        answer, before, seconds = {}, None, NO_TIMES
        for entity, times_ms, columns in result:
            if times_ms is not before:  # series that have the same ticks share their times
                before, seconds = times_ms, times_ms / 1000.0
            if len(seconds):
                answer[entity] = Series(seconds, columns[0])
        return answer

    def minutes(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None, container: str = ""
    ) -> dict[str, Points]:
        """1-minute points (average, highest, count) by entity, of minutes that begin at start <= time < end.

        They reach back `minute_days`; the minutes of the last ticks are computed on the spot.
        """
        selector, start_ms, end_ms = SeriesSelector(metric, entities, container), round(start * 1000), round(end * 1000)
        parts = self._blocks(MINUTES, selector, start_ms - 1, end_ms - 1)
        whole = (-(-start_ms // MINUTE_MS) * MINUTE_MS - 1, -(-end_ms // MINUTE_MS) * MINUTE_MS - 1)
        for entity, part in self._recent_parts(selector, *whole):
            points = Points.of(part.times_ms, part.columns[0])
            columns = np.array([points.average, points.highest, points.count])
            parts[entity].append(Part(part.segment, points.starts_ms, columns))
        extents = {
            segment: (first // MINUTE_MS * MINUTE_MS, last // MINUTE_MS * MINUTE_MS)
            for segment, (first, last) in self._extents(MINUTES).items()
        }
        result = {
            entity: blocks.points(times, columns).merged(MINUTE_MS) for entity, times, columns in latest(parts, extents)
        }
        return {entity: points for entity, points in result.items() if len(points)}

    def averages(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> dict[str, Series]:
        """Averages of five minutes by entity, of these or of all, at the times they begin; from 1-minute points."""
        result = self.minutes(metric, start, end, entities)
        return {entity: points.averages(FIVE_MINUTES_MS) for entity, points in result.items()}

    def _blocks(self, tier: int, selector: SeriesSelector, start_ms: int, end_ms: int) -> defaultdict[str, list[Part]]:
        parts: defaultdict[str, list[Part]] = defaultdict(list)
        for entity, part in self._read(
            lambda file: blocks.read(file, tier, selector, start_ms, end_ms, self._cannot_decode)
        ):
            parts[entity].append(part)
        return parts

    def _recent_parts(self, selector: SeriesSelector, start_ms: int, end_ms: int) -> list[tuple[str, Part]]:
        """Samples of the recent ticks with start < time <= end, by entity, segment by segment."""
        names, scale = self.recent.catalog.matching(selector), codec.steps_per_unit(selector.metric)
        return [(names[one], part) for one, part in self.recent.head.parts(list(names), start_ms, end_ms, scale)]

    def _head_has_all(self, start_ms: int, end_ms: int) -> bool:
        """Return whether a window needs no blocks: the recent ticks reach back to its start and have nothing older."""
        head = self.recent.head
        if not (head.is_one_segment and head.last and head.oldest_ms - 1 <= start_ms):
            return False
        return not any(first <= end_ms and end > head.last[1] for first, end in self._blocks_extents(RAW).values())

    def _extents(self, tier: int) -> Extents:
        return widened(self._blocks_extents(tier), self.recent.head.extents())

    def _blocks_extents(self, tier: int) -> Extents:
        if tier not in self._file_extents:
            self._file_extents[tier] = dict(self._read(lambda file: blocks.extents(file, tier).items()))
        return self._file_extents[tier]

    def _read(self, query: Callable[[sqlite3.Connection], Iterable[_Row]]) -> list[_Row]:
        if (file := self.connection) is None:
            return []
        try:
            result = list(query(file))
        except sqlite3.Error as error:
            self._was_read(error)
            return []
        self._was_read(None)
        return result

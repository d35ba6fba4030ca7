"""Answers from a store: the recent ticks in memory, the older ones in the file, each moment in its latest recording."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from agent.numerics.aggregate import WindowStatistics, statistics
from agent.store import blocks, rollup, runs
from agent.store.blocks import Damaged
from agent.store.catalog import Catalog
from agent.store.head import Head
from agent.store.rollup import FIVE_MINUTES_MS, MINUTE_MS, Points
from agent.store.runs import Extents, Part
from agent.store.schema import MINUTES, RAW
from agent.store.series import EMPTY, Integers, Series

_DAY_MS = 86_400_000
_EVER = 1 << 62
_Row = TypeVar("_Row")


class Queries:
    """Reads one store. Where the file cannot be read the answers come from memory alone."""

    def __init__(
        self,
        catalog: Catalog,
        head: Head,
        connection: sqlite3.Connection | None,
        read: Callable[[sqlite3.Error | None], bool],
        damaged: Damaged,
    ) -> None:
        """Reads nothing yet.

        Args:
            catalog: The series.
            head: The recent ticks.
            connection: The file; None without one.
            read: Told that the file was read, or why it could not be; answers whether it may be read again.
            damaged: Told of chunks that cannot be read, which are left out.
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
        series = self._catalog.number(metric, entity, container)
        return EMPTY if series is None else self._window([series], start, end).get(series, EMPTY)

    def windows(self, metric: str, start: float, end: float) -> dict[str, Series]:
        """The same for every entity that has samples of this metric in the window."""
        entities = self._catalog.entities(metric)
        found = self._window(list(entities.values()), start, end)
        return {entity: found[series] for entity, series in entities.items() if series in found}

    def statistics(
        self, metric: str, entity: str, start: float, end: float, container: str = ""
    ) -> WindowStatistics | None:
        """Average, deviation, percentiles, highest, last, count and span of a window; None when it has no samples."""
        found = self.window(metric, entity, start, end, container)
        return statistics(found.times, found.values) if len(found) else None

    def minutes(self, metric: str, start: float, end: float) -> dict[str, Points]:
        """1-minute points (average, highest, count) by entity, of minutes that begin at start <= time < end."""
        names = {series: entity for entity, series in self._catalog.entities(metric).items()}
        start_ms, end_ms = round(start * 1000), round(end * 1000)
        found = self._minutes(list(names), start_ms, end_ms)
        return {names[one]: points for one, points in found.items()}

    def minutes_of(self, metric: str, entity: str, start: float, end: float, container: str = "") -> Points | None:
        """The same for one series; None when it has none."""
        series = self._catalog.number(metric, entity, container)
        return None if series is None else self._minutes([series], round(start * 1000), round(end * 1000)).get(series)

    def averages(self, metric: str, start: float, end: float, period_seconds: int = 300) -> dict[str, Series]:
        """Averages of whole periods by entity, at the times the periods begin; from 1-minute points."""
        found = self.minutes(metric, start, end)
        return {entity: rollup.averages(points, period_seconds * 1000) for entity, points in found.items()}

    def daily_maxima(self, metric: str, entity: str, container: str = "") -> dict[int, tuple[float, float]]:
        """Highest sample and highest 5-minute average by day (days since 1970, UTC)."""
        series = self._catalog.number(metric, entity, container)
        if series is None:
            return {}
        query = "SELECT day, highest, highest_average FROM days WHERE series = ? ORDER BY day"
        found = {day: (high, average) for day, high, average in self._rows(query, (series,))}
        parts = [part for _, part in self._head.parts([series], -_EVER, _EVER)]
        recent = runs.joined(parts, self._head.extents())
        fives = rollup.points(_milliseconds(recent), recent.values, FIVE_MINUTES_MS)
        for day, high, average in zip(fives.starts_ms // _DAY_MS, fives.highest, fives.average, strict=True):
            known = found.get(int(day), (high, average))
            found[int(day)] = (max(known[0], float(high)), max(known[1], float(average)))
        return dict(sorted(found.items()))

    def _window(self, series: Sequence[int], start: float, end: float) -> dict[int, Series]:
        start_ms, end_ms = round(start * 1000), round(end * 1000)
        parts: defaultdict[int, list[Part]] = defaultdict(list)
        head = self._head
        if not self._head_has_all(start_ms, end_ms):
            for one, part in self._read(
                lambda file: blocks.read_raw(file, series, self._catalog.scale, start_ms, end_ms, self._damaged)
            ):
                parts[one].append(part)
        for one, part in head.parts(series, start_ms, end_ms):
            parts[one].append(part)
        extents = self._runs(RAW)
        joined = {one: runs.joined(found, extents) for one, found in parts.items()}
        return {one: found for one, found in joined.items() if len(found)}

    def _head_has_all(self, start_ms: int, end_ms: int) -> bool:
        """Whether a window needs no blocks: the recent ticks reach back to its start, and nothing older is in it."""
        head = self._head
        if not (len(head) and head.is_one_run and head.oldest_ms - 1 <= start_ms):
            return False
        last = head.last
        beyond = last[1] if last else start_ms
        return not any(first <= end_ms and end > beyond for first, end in self._file_extents(RAW).values())

    def _minutes(self, series: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Points]:
        parts: defaultdict[int, list[tuple[int, Points]]] = defaultdict(list)
        for one, run, points in self._read(
            lambda file: blocks.read_minutes(file, series, self._catalog.scale, start_ms, end_ms, self._damaged)
        ):
            parts[one].append((run, points))
        whole = (-(-start_ms // MINUTE_MS) * MINUTE_MS - 1, -(-end_ms // MINUTE_MS) * MINUTE_MS - 1)
        for one, part in self._head.parts(series, *whole):
            parts[one].append((part.run, rollup.points(_milliseconds(part.series), part.series.values, MINUTE_MS)))
        extents = {
            run: (first // MINUTE_MS * MINUTE_MS, last // MINUTE_MS * MINUTE_MS)
            for run, (first, last) in self._runs(MINUTES).items()
        }
        answer = {}
        for one, found in parts.items():
            seen = [
                points if mask is None else points.where(mask)
                for run, points in found
                for mask in [runs.shown(run, points.starts_ms, extents)]
            ]
            points = rollup.merged(rollup.concatenated(seen), MINUTE_MS)
            if len(points):
                answer[one] = points
        return answer

    def _runs(self, tier: int) -> Extents:
        """All runs, the recent ticks included."""
        found, head = self._file_extents(tier), self._head.extents()
        return runs.widened(found, head) if head else found

    def _file_extents(self, tier: int) -> Extents:
        if tier not in self._extents:
            self._extents[tier] = dict(self._read(lambda file: iter(blocks.extents(file, tier).items())))
        return self._extents[tier]

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple[int, float, float]]:
        return list(self._read(lambda file: file.execute(query, values)))

    def _read(self, ask: Callable[[sqlite3.Connection], Iterator[_Row]]) -> Iterator[_Row]:
        if self._connection is not None:
            try:
                yield from ask(self._connection)
            except sqlite3.Error as error:
                if not self._was_read(error):
                    self._connection = None
            else:
                self._was_read(None)


def _milliseconds(series: Series) -> Integers:
    return np.rint(series.times * 1000).astype(np.int64)

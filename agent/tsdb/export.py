"""Series as CSV in the layout of the public usage traces, which the backtest reads.

The first column is ``ts``, the beginning of the period in whole seconds since 1970 (of single samples: their time, to
the millisecond); then comes one column per entity (pods by uid), sorted. CPU is in milli-cores, memory in MiB,
everything else in its own unit. An empty field is a gap; zero is a measured zero. Periods follow each other without a
gap, so that a row is a step; single samples have a row per tick.
"""

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import numpy as np

from agent.samples import CPU, MEMORY, NODE, SYS
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.schema import MINUTES, RAW
from agent.tsdb.series import EMPTY, Floats, Points, Series

RAW_SECONDS: Final = 0
"""Resolution of single samples."""
_SLICE_SECONDS: Final = 6 * 3600
"""How much of the minutes is read at a time; every shorter period is a part of it."""
_RAW_SLICE_SECONDS: Final = 600
_SERIES_SLICE: Final = 24
"""So much longer is what is read of one series at a time than of all."""
_UNITS: Final = {CPU: 1000.0}
_MIB: Final = float(1 << 20)
_FILES: Final = {CPU: "cpu_millicores.csv.gz", MEMORY: "mem_mib.csv.gz"}


def file_name(metric: str) -> str:
    """The file that a metric has in a folder of its own."""
    return _FILES.get(metric, f"{metric}.csv.gz")


def collect(
    database: DatabaseReader, metric: str, start: float, end: float, period_seconds: int, *, highest: bool = False
) -> dict[str, Series]:
    """What is to be written, by entity.

    Args:
        database: Where it is.
        metric: Which metric.
        start: Excluded for single samples, included for periods. [seconds since 1970]
        end: Included for single samples, excluded for periods. [seconds since 1970]
        period_seconds: Length of a period, whole minutes; `RAW_SECONDS` for single samples.
        highest: The highest sample of each period instead of the average.
    """
    if period_seconds == RAW_SECONDS:
        return database.windows(metric, start, end)
    found = database.minutes(metric, start, end)
    return {entity: periods(minutes, period_seconds, highest=highest) for entity, minutes in found.items()}


def periods(minutes: Points, period_seconds: int, *, highest: bool = False) -> Series:
    """Averages (or highest samples) of longer periods, at the times they begin."""
    points = minutes.merged(period_seconds * 1000)
    return Series(points.starts_ms / 1000.0, points.highest if highest else points.average)


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """One series of a window; as it may be of weeks, its points can be had a slice of time after the other."""

    database: DatabaseReader
    """Where it is."""
    metric: str
    """Which metric."""
    entity: str
    """Whose."""
    container: str
    """Its container; empty for the whole entity."""

    def read(self, start: float, end: float, period_seconds: int) -> Series:
        """All of it; the arguments are those of `collect`."""
        if period_seconds == RAW_SECONDS:
            return self.database.window(self.metric, self.entity, start, end, self.container)
        minutes = self.database.minutes(self.metric, start, end, (self.entity,), self.container).get(self.entity)
        return EMPTY if minutes is None else periods(minutes, period_seconds)

    def slices(self, start: float, end: float, period_seconds: int) -> Iterator[Series]:
        """The same slice by slice."""
        for begin, after in _spans(self.database, start, end, period_seconds, _SERIES_SLICE):
            yield self.read(begin, after, period_seconds)


def _spans(
    database: DatabaseReader, start: float, end: float, period_seconds: int, times: int = 1
) -> Iterator[tuple[float, float]]:
    """The window in slices, of which each begins where a period does, as far as anything was recorded."""
    raw = period_seconds == RAW_SECONDS
    recorded = database.time_range(RAW if raw else MINUTES)
    if recorded is None:
        return
    length = times * (_RAW_SLICE_SECONDS if raw else max(_SLICE_SECONDS, period_seconds))
    begin, end = max(start, recorded[0]), min(end, recorded[1])
    while begin < end:
        after = min((begin // length + 1) * length, end)
        yield begin, after
        begin = after


def pods(entities: Iterable[str]) -> list[str]:
    """The entities that are pods."""
    return [one for one in entities if one not in (NODE, SYS)]


@dataclass(frozen=True, slots=True)
class MetricExport:
    """One metric of a window, as it is to be written.

    It is read a slice of time after the other, once for the names of its columns and once for its lines: an
    export runs inside the agent's container, whose memory the agent needs, and a window may be weeks long.
    """

    database: DatabaseReader
    """Where it is."""
    metric: str
    """Which metric; says the unit."""
    start: float
    """As for `collect`. [seconds since 1970]"""
    end: float
    """As for `collect`. [seconds since 1970]"""
    period_seconds: int
    """As for `collect`. [s]"""
    highest: bool = False
    """As for `collect`."""

    def entities(self) -> list[str]:
        """Who has anything in the window, sorted."""
        return sorted({name for columns in self._slices() for name in columns})

    def rows(self, entities: Iterable[str]) -> Iterator[list[str]]:
        """The lines of the file: a header with these entities, sorted, then one line per time."""
        names = sorted(entities)
        yield ["ts", *names]
        places = {name: place for place, name in enumerate(names, 1)}
        due: float | None = None
        for found in self._slices():
            columns = {name: series for name, series in found.items() if name in places and len(series)}
            if not columns:
                continue
            times = _times(columns, self.period_seconds)
            while due is not None and due < times[0]:  # periods follow each other without a gap
                yield [_shown_time(due), *[""] * len(names)]
                due += self.period_seconds
            due = times[-1] + self.period_seconds if self.period_seconds != RAW_SECONDS else None
            table = np.full((len(times), len(columns)), np.nan)
            for number, series in enumerate(columns.values()):
                table[np.searchsorted(times, series.times), number] = series.values * _unit(self.metric)
            into = [places[name] for name in columns]
            for time, values in zip(times.tolist(), table, strict=True):
                line = [_shown_time(time), *[""] * len(names)]
                for place, value in zip(into, values.tolist(), strict=True):
                    if value == value:  # noqa: PLR0124 - what is no number differs from itself
                        line[place] = f"{value:.10g}"
                yield line

    def _slices(self) -> Iterator[dict[str, Series]]:
        """What was recorded, slice by slice; each begins where a period does."""
        for begin, after in _spans(self.database, self.start, self.end, self.period_seconds):
            yield collect(self.database, self.metric, begin, after, self.period_seconds, highest=self.highest)


def write(path: Path, lines: Iterable[list[str]]) -> int:
    """Write the lines to a file, compressed when its name ends so; it appears when it is whole.

    Returns:
        How many lines it has, its header left out.

    Raises:
        OSError: It cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
                    count = write_to(io.BufferedWriter(packed), lines)
            else:
                count = write_to(raw, lines)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return count


def write_to(stream: IO[bytes] | io.BufferedWriter, lines: Iterable[list[str]]) -> int:
    """Write the lines to an open file; answers how many, the header left out."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer, count = csv.writer(text, lineterminator="\n"), -1
    for line in lines:
        writer.writerow(line)
        count += 1
    text.flush()
    text.detach()
    return count


def _shown_time(time: float) -> str:
    return f"{time:.3f}".rstrip("0").rstrip(".")


def _times(columns: Mapping[str, Series], period_seconds: int) -> Floats:
    times = np.unique(np.concatenate([series.times for series in columns.values()]))
    if period_seconds == RAW_SECONDS:
        return times
    return np.arange(times[0], times[-1] + period_seconds / 2, period_seconds, dtype=float)


def _unit(metric: str) -> float:
    return 1.0 / _MIB if metric.startswith(MEMORY) else _UNITS.get(metric, 1.0)

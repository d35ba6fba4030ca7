"""Series as CSV in the layout of the public usage traces, which the backtest reads.

The first column is ``ts``, the beginning of the period in whole seconds since 1970 (of single samples: their time, to
the millisecond); then comes one column per entity (pods by uid), sorted. CPU is in milli-cores, memory in MiB,
everything else in its own unit. An empty field is a gap; zero is a measured zero. Periods follow each other without a
gap, so that a row is a step; single samples have a row per tick.
"""

import csv
import gzip
import io
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import numpy as np

from agent.samples import CPU, MEMORY, NODE, SYS
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.schema import MINUTES, RAW
from agent.tsdb.series import Series

RAW_SECONDS: Final = 0  # resolution of single samples
_SLICE_SECONDS: Final = 6 * 3600  # how much of the minutes is read at a time; every shorter period is a part of it
_RAW_SLICE_SECONDS: Final = 600
_SERIES_SLICE: Final = 24  # slices of named series are longer by this factor
_UNITS: Final = {CPU: 1000.0}
_MIB: Final = float(1 << 20)
_FILES: Final = {CPU: "cpu_millicores.csv.gz", MEMORY: "mem_mib.csv.gz"}


def file_name(metric: str) -> str:
    return _FILES.get(metric, f"{metric}.csv.gz")


def pods(entities: Iterable[str]) -> list[str]:
    return [entity for entity in entities if entity not in (NODE, SYS)]


@dataclass(frozen=True, slots=True)
class SeriesExport:
    """Series of one metric in a window, single samples or periods.

    They are read slice by slice, for an export once for the names of its columns and once for its
    lines: it runs inside the agent's container with its memory limit, and a window may be weeks long.
    """

    database: DatabaseReader
    metric: str
    start: float  # excluded for single samples, included for periods [seconds since 1970]
    end: float  # included for single samples, excluded for periods [seconds since 1970]
    period_seconds: int  # length of a period, whole minutes; `RAW_SECONDS` for single samples
    entities: Collection[str] | None = None  # the entities; None for all
    container: str = ""  # of this container; empty for whole entities
    highest: bool = False  # the highest sample of each period instead of the average

    def read(self, start: float, end: float) -> dict[str, Series]:
        """A part of the window, by entity; averages (or highest samples) of periods at the times they begin."""
        wanted = self.metric, start, end, self.entities, self.container
        if self.period_seconds == RAW_SECONDS:
            return self.database.windows(*wanted)
        result = {
            name: points.merged(self.period_seconds * 1000) for name, points in self.database.minutes(*wanted).items()
        }
        return {
            name: Series(points.starts_ms / 1000.0, points.highest if self.highest else points.average)
            for name, points in result.items()
        }

    def slices(self) -> Iterator[dict[str, Series]]:
        """Return the samples, slice by slice; each slice begins where a period does."""
        raw = self.period_seconds == RAW_SECONDS
        recorded = self.database.time_range(RAW if raw else MINUTES)
        if recorded is None:
            return
        length = _RAW_SLICE_SECONDS if raw else max(_SLICE_SECONDS, self.period_seconds)
        length *= 1 if self.entities is None else _SERIES_SLICE
        begin, end = max(self.start, recorded[0]), min(self.end, recorded[1])
        while begin < end:
            after = min((begin // length + 1) * length, end)
            yield self.read(begin, after)
            begin = after

    def names(self) -> list[str]:
        return sorted({name for columns in self.slices() for name in columns})

    def rows(self, entities: Iterable[str]) -> Iterator[list[str]]:
        """The lines of the file: a header with these entities, sorted, then one line per time."""
        names = sorted(entities)
        yield ["ts", *names]
        places = {name: place for place, name in enumerate(names)}
        unit = 1.0 / _MIB if self.metric.startswith(MEMORY) else _UNITS.get(self.metric, 1.0)
        period, due = self.period_seconds, np.inf
        for result in self.slices():
            columns = {places[name]: series for name, series in result.items() if name in places and len(series)}
            if not columns:
                continue
            times = np.unique(np.concatenate([series.times for series in columns.values()]))
            if period != RAW_SECONDS:  # periods follow each other without a gap
                times = np.arange(min(times[0], due), times[-1] + period / 2, period)
                due = times[-1] + period
            table = np.full((len(times), len(columns)), np.nan)
            for number, series in enumerate(columns.values()):
                table[np.searchsorted(times, series.times), number] = series.values * unit
            for time, values in zip(times.tolist(), table, strict=True):
                line = [""] * len(names)
                for place, value in zip(columns, values.tolist(), strict=True):
                    if value == value:  # noqa: PLR0124 - NaN differs from itself
                        line[place] = f"{value:.10g}"
                yield [f"{time:.3f}".rstrip("0").rstrip("."), *line]


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
    """Write the lines to an open file; return their number without the header."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer, count = csv.writer(text, lineterminator="\n"), -1
    for line in lines:
        writer.writerow(line)
        count += 1
    text.flush()
    text.detach()
    return count

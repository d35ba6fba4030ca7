"""Wide CSV: a row per time and a column per series; read row by row, refused cell by cell."""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from headroom.backtest.sources import Options
from headroom.backtest.sources.grid import Steps, check_time, shown
from headroom.backtest.sources.text_file import open_text
from headroom.backtest.trace import TraceError

_PEEKED: Final = 200
"""Rows whose times decide the step."""
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class Table:
    """A table on steps of five minutes."""

    names: tuple[str, ...]
    """Its columns."""
    times: FloatArray
    """Shape (T,). [seconds since 1970]"""
    values: FloatArray
    """Shape (T, V), NaN where nothing was measured."""
    notes: tuple[str, ...]
    """What was repaired."""


def read_table(path: Path, options: Options) -> Table:
    """Read a table whose first column is ``ts``, in seconds since 1970.

    An empty cell is a gap. Rows may be in any order, and closer together than five minutes.

    Raises:
        TraceError: it is no such table; the message names row and column.
    """
    with open_text(path) as stream:
        lines = csv_rows(path, stream)
        names = header(path, lines, "ts")
        rows = ((time, values) for time, values in _rows(path, lines, names) if options.has(time))
        peeked = list(islice(rows, _PEEKED))
        steps = Steps(len(names), str(path))
        begun = [time for time, _ in peeked]
        if begun:
            steps.begin(begun if begun == sorted(begun) else _times(path, options))
        for time, values in chain(peeked, rows):
            steps.add(time, values)
    times, values = steps.table()
    return Table(names, times, values, tuple(steps.notes()))


def csv_rows(path: Path, stream: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of their line; blank lines are passed over.

    Raises:
        TraceError: it is no CSV.
    """
    reader = csv.reader(stream)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise TraceError(f"{path}: line {reader.line_num} is no CSV: {error}") from error


def dict_rows(path: Path, stream: Iterator[str], needed: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows by the names of their columns, each with what a message about it begins with; a missing cell is empty.

    Raises:
        TraceError: it is no CSV, or lacks a column.
    """
    lines = csv_rows(path, stream)
    _, columns = next(lines, (0, []))
    columns = [column.strip() for column in columns]
    missing = [name for name in needed if name not in columns]
    if missing:
        raise TraceError(f"{path}: has no column {missing[0]!r}; it needs {', '.join(needed)}")
    for line, row in lines:
        cells = [cell.strip() for cell in row] + [""] * (len(columns) - len(row))
        yield f"{path}: line {line}", dict(zip(columns, cells, strict=False))


def header(path: Path, lines: Iterator[tuple[int, list[str]]], first: str) -> tuple[str, ...]:
    """The names of the columns after the first one.

    Args:
        path: for messages.
        lines: whose first one is the header.
        first: what the first column must be called.

    Raises:
        TraceError: there is no such header.
    """
    _, found = next(lines, (0, []))
    if not found:
        raise TraceError(f"{path}: is empty")
    cells = [cell.strip() for cell in found]
    if cells[0] != first:
        raise TraceError(
            f"{path}: its first line must be a header that begins with {first!r} and has commas between its columns, "
            f"got: {shown(','.join(found))}"
        )
    names = cells[1:]
    if not names:
        raise TraceError(f"{path}: has no column but {first!r}")
    if "" in names:
        raise TraceError(f"{path}: column {names.index('') + 2} of its header has no name")
    for name in names:
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise TraceError(f"{path}: column {shown(name)} of its header is no name")
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise TraceError(f"{path}: column {shown(twice)} is there twice")
    return tuple(names)


def amounts(cells: list[str], path: Path, line: int, names: tuple[str, ...]) -> FloatArray:
    """The cells of a row as numbers, NaN where a cell is empty.

    Raises:
        TraceError: a cell is no number, infinite or negative, or there are too many or too few.
    """
    if len(cells) != len(names):
        raise TraceError(f"{path}: line {line} has {len(cells) + 1} columns, its header has {len(names) + 1}")
    try:
        values = np.array([float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        values = np.array([_amount(cell, path, line, name) for cell, name in zip(cells, names, strict=True)])
    wrong = (values < 0.0) | np.isinf(values)
    if wrong.any():
        place = int(wrong.argmax())
        what = "negative" if values[place] < 0.0 else "infinite"
        raise TraceError(
            f"{path}: line {line}, column {shown(names[place])}: {shown(cells[place])} is {what}; leave the cell "
            "empty where nothing was measured"
        )
    return values


def _rows(
    path: Path, lines: Iterator[tuple[int, list[str]]], names: tuple[str, ...]
) -> Iterator[tuple[float, FloatArray]]:
    for line, row in lines:
        time = check_time(row[0], lambda line=line: f"{path}: line {line}, column 'ts'")  # type: ignore[misc]
        yield time, amounts(row[1:], path, line, names)


def _times(path: Path, options: Options) -> list[float]:
    """When all rows were: a few unordered ones do not show how far apart rows are."""
    with open_text(path) as stream:
        found = (
            check_time(row[0], lambda line=line: f"{path}: line {line}, column 'ts'")  # type: ignore[misc]
            for line, row in islice(csv_rows(path, stream), 1, None)
        )
        return [time for time in found if options.has(time)]


def _amount(cell: str, path: Path, line: int, name: str) -> float:
    if not cell.strip():
        return math.nan
    try:
        return float(cell)
    except ValueError:
        raise TraceError(
            f"{path}: line {line}, column {shown(name)}: {shown(cell)} is no number; leave the cell empty where "
            "nothing was measured"
        ) from None

"""Files of traces, compressed or not: wide CSV (a row per time, a column per series), rows by column, JSON.

Tables are read row by row; what cannot be used is refused with the file, row and column.
"""

import csv
import gzip
import json
import lzma
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np

from agent.api import FloatArray
from kubectl_headroom.backtest.sources import Options
from kubectl_headroom.backtest.sources.grid import Steps, Table, shown
from kubectl_headroom.backtest.trace import TraceError

Json = Mapping[str, Any]
Lines = Iterator[tuple[int, list[str]]]
ENDINGS: Final = ("", ".gz", ".xz")  # optional endings of file names: such files are unpacked on reading
LARGEST: Final = 1 << 28  # most characters of one JSON document
_PEEKED: Final = 200  # rows that decide the step
_LONGEST_NAME: Final = 253
_MILLISECONDS: Final = 1e11  # a time above this (the year 5138) is in milliseconds


def find(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder, compressed or not; None when there is none."""
    return next((path for ending in ENDINGS if (path := folder / f"{name}{ending}").is_file()), None)


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Return the file as text, unpacked on reading; raises TraceError if it cannot be read, here or later."""
    try:
        with _opened(path) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is no text in UTF-8 ({error.reason} at byte {error.start})") from error
    except EOFError as error:
        raise TraceError(f"{path}: is cut off; copy it again") from error
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise TraceError(f"{path}: cannot be unpacked: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def objects(path: Path, kind: str, command: str) -> Iterator[Json]:
    """The objects of a kind in a JSON document: a list of them, as kubectl prints it, or one.

    Raises TraceError if it is no JSON, or has other objects; the message names the command that writes such files.
    """
    with open_text(path) as stream:
        text = stream.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise TraceError(f"{path}: is longer than {LARGEST >> 20} million characters; give several shorter files")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "a number or its nesting has no end"
        raise TraceError(f"{path}: is no JSON ({why}); it is written by {command}") from error
    items = document.get("items") if isinstance(document, Mapping) else document
    for item in items if isinstance(items, list) else [document]:
        # The items of a list of one kind, as the API itself returns them, have no kind of their own.
        result = item.get("kind", kind) if isinstance(item, Mapping) else type(item).__name__
        if result != kind:
            raise TraceError(f"{path}: has a {result}, not a {kind}; it is written by {command}")
        yield item


def read_table(path: Path, options: Options) -> Table:
    """Read a table with the first column ``ts``, in seconds since 1970.

    An empty cell is a gap. Rows may be in any order, and closer together than five minutes. Raises TraceError if it is
    no such table; the message names row and column.
    """
    with open_text(path) as stream:
        lines = csv_rows(path, stream)
        names = header(path, lines)
        timed = ((_time(row[0], path, line), line, row) for line, row in lines)
        rows = ((time, amounts(row[1:], path, line, names)) for time, line, row in timed)
        wanted = ((time, values) for time, values in rows if options.has(time))
        peeked = list(islice(wanted, _PEEKED))
        steps = Steps(len(names), str(path))
        begun = [time for time, _ in peeked]
        if begun:
            steps.begin(begun if begun == sorted(begun) else _times(path, options))
        for time, values in chain(peeked, wanted):
            steps.add(time, values)
    times, values = steps.table()
    return Table(names, times, values, tuple(steps.notes()))


def csv_rows(path: Path, stream: Iterator[str]) -> Lines:
    """Rows with the number of their line; blank lines are ignored; TraceError if it is no CSV."""
    reader = csv.reader(stream)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise TraceError(f"{path}: line {reader.line_num} is no CSV: {error}") from error


def dict_rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows by the names of their columns, each with what a message about it begins with; a missing cell is empty.

    Raises TraceError if it is no CSV, or lacks a column.
    """
    with open_text(path) as stream:
        lines = csv_rows(path, stream)
        columns = [column.strip() for column in next(lines, (0, []))[1]]
        if missing := [name for name in needed if name not in columns]:
            raise TraceError(f"{path}: has no column {missing[0]!r}; it needs {', '.join(needed)}")
        for line, row in lines:
            cells = [cell.strip() for cell in row] + [""] * (len(columns) - len(row))
            yield f"{path}: line {line}", dict(zip(columns, cells, strict=False))


def header(path: Path, lines: Lines) -> tuple[str, ...]:
    """The names of the columns after the first one, ``ts``; TraceError without such a header."""
    _, result = next(lines, (0, []))
    if not result:
        raise TraceError(f"{path}: is empty")
    cells = [cell.strip() for cell in result]
    if cells[0] != "ts":
        raise TraceError(
            f"{path}: its first line must be a header that begins with 'ts' and has commas between its columns, "
            f"got: {shown(','.join(result))}"
        )
    names = cells[1:]
    if not names:
        raise TraceError(f"{path}: has no column but 'ts'")
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

    Raises TraceError if a cell is no number, infinite or negative, or there are too many or too few.
    """
    if len(cells) != len(names):
        raise TraceError(f"{path}: line {line} has {len(cells) + 1} columns, its header has {len(names) + 1}")
    try:
        values = np.array([float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        values = np.array([_cell(cell, path, line, name) for cell, name in zip(cells, names, strict=True)])
    wrong = (values < 0.0) | np.isinf(values)
    if wrong.any():
        place = int(wrong.argmax())
        what = "negative" if values[place] < 0.0 else "infinite"
        raise TraceError(_wrong_cell(cells[place], path, line, names[place], what))
    return values


def amount(row: Mapping[str, str], column: str, where: str, *, required: bool = False) -> float:
    """The number of at least 0 in a cell of `dict_rows`; 0 where it may be empty, and is.

    Raises TraceError if it is none.
    """
    text = row[column]
    number = 0.0 if not text and not required else _float(text)
    if not 0.0 <= number < math.inf:
        empty = "" if required else ", or empty"
        raise TraceError(f"{where}, column {column!r}: {shown(text)} must be a number of at least 0{empty}")
    return number


def _time(text: str, path: Path, line: int) -> float:
    time = _float(text)
    where = f"{path}: line {line}, column 'ts'"
    if not 0.0 <= time < math.inf:
        raise TraceError(f"{where}: {shown(text)} is no time; it must be in seconds since 1970")
    if time >= _MILLISECONDS:
        raise TraceError(f"{where}: {shown(text)} looks like milliseconds; it must be in seconds since 1970")
    return time


def _times(path: Path, options: Options) -> list[float]:
    """Return the interval between rows once all are in order: a few out of order hide it."""
    with open_text(path) as stream:
        result = (_time(row[0], path, line) for line, row in islice(csv_rows(path, stream), 1, None))
        return [time for time in result if options.has(time)]


def _cell(cell: str, path: Path, line: int, name: str) -> float:
    try:
        return float(cell) if cell.strip() else math.nan
    except ValueError:
        raise TraceError(_wrong_cell(cell, path, line, name, "no number")) from None


def _wrong_cell(cell: str, path: Path, line: int, name: str, what: str) -> str:
    where = f"{path}: line {line}, column {shown(name)}"
    return f"{where}: {shown(cell)} is {what}; leave the cell empty where nothing was measured"


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan

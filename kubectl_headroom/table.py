"""A table: aligned columns in a pipe, colours on a terminal."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TextIO

from headroom.runtime.sanitize import printable

_GAP: Final = "   "
_RIGHT: Final = ">"
_WIDEST: Final = 10_000  # the width of an output without a screen [characters]
_NARROWEST: Final = 30
"""Sentences in a column narrower than this are harder to read than lines that the terminal breaks. [characters]"""


@dataclass(frozen=True, slots=True)
class Column:
    """Title and alignment of a column."""

    title: str  # the heading
    align: str = "<"  # "<" for text, ">" for numbers
    wide: bool = False  # whether only `-o wide` shows it


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a row."""

    text: str  # the printed text
    style: str = ""  # a rich style for terminals, such as "red"


Row = Sequence[Cell]


def write(
    columns: Sequence[Column],
    rows: Sequence[Row],
    out: TextIO | None = None,
    *,
    wide: bool = False,
    headers: bool = True,
) -> None:
    """Print a table: with colours where they are wanted, else as plain text without any control characters.

    Args:
        columns: the columns.
        rows: the cells, as many per row as there are columns.
        out: where to; standard output by default.
        wide: also the columns that are for wide screens.
        headers: also the titles of the columns.
    """
    target = out or sys.stdout
    if target.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        _coloured(*_chosen(columns, rows, wide=wide), target, headers=headers)
    else:
        target.write(plain(columns, rows, wide=wide, headers=headers))


def plain(columns: Sequence[Column], rows: Sequence[Row], *, wide: bool = False, headers: bool = True) -> str:
    """The table as plain text, one line per row, columns as wide as they need to be."""
    columns, rows = _chosen(columns, rows, wide=wide)
    titles = [[column.title for column in columns]] if headers else []
    lines = [*titles, *([cell.text for cell in row] for row in rows)]
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(columns))]
    return "".join(_line(line, columns, widths) for line in lines)


def _chosen(columns: Sequence[Column], rows: Sequence[Row], *, wide: bool) -> tuple[Sequence[Column], Sequence[Row]]:
    """Drop the columns for wide screens, unless this is one; each cell on one line."""
    chosen = [index for index, column in enumerate(columns) if wide or not column.wide]
    shown = [[Cell(printable(row[index].text), row[index].style) for index in chosen] for row in rows]
    return [columns[index] for index in chosen], shown


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (f"{text:{column.align}{width}}" for text, column, width in zip(texts, columns, widths, strict=True))
    return _GAP.join(padded).rstrip() + "\n"


def _coloured(columns: Sequence[Column], rows: Sequence[Row], out: TextIO, *, headers: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - a pipe does not pay for it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    padding = 0, len(_GAP), 0, 0
    table = Table(box=None, pad_edge=False, padding=padding, header_style="bold", show_header=headers)
    folded = _folded(columns, rows, out)
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column.align == _RIGHT else "left"
        table.add_column(column.title, justify=justify, overflow="fold", no_wrap=index != folded)
    for row in rows:
        table.add_row(*(Text(cell.text, style=cell.style) for cell in row))
    width = _WIDEST if folded is None or not out.isatty() else None
    Console(file=out, highlight=False, force_terminal=True, width=width, no_color=False).print(table)


def _folded(columns: Sequence[Column], rows: Sequence[Row], out: TextIO) -> int | None:
    """Return the column that is folded to fit the terminal: the last, if it has text and the others are narrow enough.

    Numbers and names are never folded: half a number on a line of its own is read as another number.
    """
    last = len(columns) - 1
    if last < 0 or columns[last].align == _RIGHT or not out.isatty():
        return None
    widths = sum(
        max([len(column.title), *(len(row[index].text) for row in rows)]) + len(_GAP)
        for index, column in enumerate(columns[:last])
    )
    return last if shutil.get_terminal_size().columns - widths >= _NARROWEST else None

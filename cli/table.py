"""A table: aligned columns in a pipe, colours on a terminal."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TextIO

_GAP: Final = "   "
_RIGHT: Final = ">"


@dataclass(frozen=True, slots=True)
class Column:
    """Title and alignment of a column."""

    title: str
    """What stands above it."""
    align: str = "<"
    """"<" for text, ">" for numbers."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a row."""

    text: str
    """What is printed."""
    style: str = ""
    """A rich style for terminals, such as "red"."""


Row = Sequence[Cell]


def write(columns: Sequence[Column], rows: Sequence[Row], out: TextIO | None = None) -> None:
    """Print a table: with colours when `out` is a terminal, else as plain text without any control characters.

    Args:
        columns: the columns.
        rows: the cells, as many per row as there are columns.
        out: where to; standard output by default.
    """
    target = out or sys.stdout
    if target.isatty():
        _coloured(columns, rows, target)
    else:
        target.write(plain(columns, rows))


def plain(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """The table as plain text, one line per row, columns as wide as they need to be."""
    lines = [[column.title for column in columns], *([cell.text for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "".join(_line(line, columns, widths) for line in lines)


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (f"{text:{column.align}{width}}" for text, column, width in zip(texts, columns, widths, strict=True))
    return _GAP.join(padded).rstrip() + "\n"


def _coloured(columns: Sequence[Column], rows: Sequence[Row], out: TextIO) -> None:
    from rich.console import Console  # noqa: PLC0415 - a pipe does not pay for it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.align == _RIGHT else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell.text, style=cell.style) for cell in row))
    Console(file=out, highlight=False).print(table)

"""A table: aligned columns in a pipe, colours on a terminal."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from cli import colour

_GAP: Final = "   "
_RIGHT: Final = ">"
_WIDEST: Final = 10_000
"""No line of a table is folded where nobody's screen ends. [characters]"""


@dataclass(frozen=True, slots=True)
class Column:
    """Title and alignment of a column."""

    title: str
    """What stands above it."""
    align: str = "<"
    """"<" for text, ">" for numbers."""
    wide: bool = False
    """Whether only `-o wide` shows it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a row."""

    text: str
    """What is printed."""
    style: str = ""
    """A rich style for terminals, such as "red"."""


Row = Sequence[Cell]


def write(columns: Sequence[Column], rows: Sequence[Row], out: TextIO | None = None, *, wide: bool = False) -> None:
    """Print a table: with colours where they are wanted, else as plain text without any control characters.

    Args:
        columns: the columns.
        rows: the cells, as many per row as there are columns.
        out: where to; standard output by default.
        wide: also the columns that are for wide screens.
    """
    target = out or sys.stdout
    if colour.wanted(target):
        _coloured(*_chosen(columns, rows, wide=wide), target)
    else:
        target.write(plain(columns, rows, wide=wide))


def plain(columns: Sequence[Column], rows: Sequence[Row], *, wide: bool = False) -> str:
    """The table as plain text, one line per row, columns as wide as they need to be."""
    columns, rows = _chosen(columns, rows, wide=wide)
    lines = [[column.title for column in columns], *([cell.text for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "".join(_line(line, columns, widths) for line in lines)


def _chosen(columns: Sequence[Column], rows: Sequence[Row], *, wide: bool) -> tuple[Sequence[Column], Sequence[Row]]:
    """Without what is for wide screens alone, unless this is one."""
    chosen = [index for index, column in enumerate(columns) if wide or not column.wide]
    return [columns[index] for index in chosen], [[row[index] for index in chosen] for row in rows]


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
    width = None if out.isatty() else _WIDEST
    Console(file=out, highlight=False, force_terminal=True, width=width, no_color=False).print(table)

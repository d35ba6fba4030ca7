"""What was measured as tables: the one table for the terminal, and Markdown. Pure but for printing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.markup import escape
from rich.table import Table

from tools.bench.measurement import NONE, Grid, Item, Measurement, Picture

HEAD: Final = ("what", "budget", "reference", "measured", "kept")
_KEPT: Final = {True: "yes", False: "no", None: ""}


def cells(items: Iterable[Item]) -> list[list[str]]:
    """Lines of the one table, without its head."""
    return [
        [one.what, one.budget, one.reference, one.measured, _KEPT[one.within]]
        for one in items
        if isinstance(one, Measurement)
    ]


def one_table(parts: Mapping[str, Sequence[Item]], failed: Mapping[str, str]) -> Table:
    """Everything side by side, part after part.

    Args:
        parts: what each measured.
        failed: why others did not, by name.
    """
    table = Table(title="Measured beside the budgets")
    for title in HEAD:
        table.add_column(title, overflow="fold")
    for items in parts.values():
        table.add_section()
        for row in cells(items):
            shown = ["" if cell == NONE else escape(cell) for cell in row]
            table.add_row(*shown, style="bold red" if row[-1] == _KEPT[False] else None)
    for name in failed:
        table.add_row(escape(name), "", "", escape(failed[name]), "", style="red")
    return table


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]])


def sections(items: Sequence[Item], pictures: str = "") -> str:
    """All that a part measured, as Markdown.

    Args:
        items: what it yielded.
        pictures: where its pictures are, as the page links to them.
    """
    parts = [markdown([HEAD, *rows])] if (rows := cells(items)) else []
    for one in items:
        if isinstance(one, Grid):
            parts.append(f"{one.title}\n\n{markdown(one.cells)}")
        elif isinstance(one, Picture):
            parts.append(f"![{one.title}]({pictures}{one.name}.svg)")
    return "\n\n".join(parts)

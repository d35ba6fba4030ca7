"""Results of benchmarks: rows of figures beside budget and reference, tables of their own, and their Markdown."""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).parents[2]  # of the repository
NONE: Final = "none"  # a budget or reference that there is not
HEAD: Final = ("what", "budget", "reference", "measured", "within budget")
_BOUND: Final = re.compile(r"(?P<sign><=|>=) *(?P<number>[\d,]*\.?\d+)")
_WITHIN: Final = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, with its budget and reference."""

    what: str  # the thing that was measured, with its size
    measured: str  # the figure with its unit
    budget: str = NONE  # the budget that the design sets
    reference: str = NONE  # the same of a peer
    value: float | None = None
    """The figure that the budget bounds, in the budget's unit; None where there is no budget or no figure."""

    @property
    def within(self) -> bool | None:
        """Return whether the figure is within its budget; None where one of both is missing."""
        bound = _BOUND.search(self.budget)
        if bound is None or self.value is None:
            return None
        limit = float(bound["number"].replace(",", ""))
        return self.value <= limit if bound["sign"] == "<=" else self.value >= limit


@dataclass(frozen=True, slots=True)
class Table:
    """A table with columns of its own."""

    title: str  # its content, in a sentence
    cells: Sequence[Sequence[str]]  # rows of cells; the first is the head


Item = Row | Table


def markdown(cells: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells]
    return "\n".join([lines[0], f"|{'---|' * len(cells[0])}", *lines[1:]])


def text(items: Iterable[Item]) -> str:
    """Return all that a benchmark measured as Markdown: its rows first."""
    result = list(items)
    rows = [
        [row.what, row.budget, row.reference, row.measured, _WITHIN[row.within]]
        for row in result
        if isinstance(row, Row)
    ]
    parts = [markdown([HEAD, *rows])] if rows else []
    parts += [f"{table.title}\n\n{markdown(table.cells)}" for table in result if isinstance(table, Table)]
    return "\n\n".join(parts)


def machine() -> str:
    """Return processor, memory and versions of this machine in one line, without its name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = f"{psutil.virtual_memory().total / (1 << 30):.1f} GiB"
    system = f"{platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}"
    return f"{platform.machine()} {' '.join(models[:1])}: {os.cpu_count()} CPUs, {memory}, {system}"


def short(figure: float | None) -> str:
    """Return a figure with three significant digits; a dash for None."""
    if figure is None:
        return "-"
    return f"{figure:.3g}" if abs(figure) < 100 else f"{figure:,.0f}"  # noqa: PLR2004 - three digits before the point

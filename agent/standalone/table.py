"""An overview as lines of text. Pure."""

import textwrap
import time
from collections.abc import Sequence
from typing import Final

from agent.samples import CPU, MEMORY
from agent.standalone.overview import Overview, Row

_HEADS: Final = (
    ("", "", "", "cores", "", "", "memory", ""),
    ("", "used", "peak", "reclaim", "used", "peak", "reclaim", "history"),
)
_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_LEAST_ROWS: Final = 3
_LEAST_NAME: Final = 15
_WHOLE: Final = 100.0


def cores(value: float | None) -> str:
    """Format cores with two decimals: 0.284 -> "0.28"; a dash for an unknown amount."""
    return "-" if value is None else f"{value:.2f}"


def size(value: float | None) -> str:
    """Format bytes with three digits or so: 3328599654 -> "3.1Gi"; a dash for an unknown amount."""
    if value is None:
        return "-"
    for name, unit in _UNITS:
        if value >= unit:
            amount = value / unit
            return f"{amount:.0f}{name}" if amount >= _WHOLE else f"{amount:.1f}{name}"
    return f"{value:.0f}"


def table(
    view: Overview, title: str, notes: Sequence[str], *, height: int | None = None, width: int | None = None
) -> list[str]:
    """Return the lines; the title follows the time in the first one.

    At most `height` lines, if that is enough for the shortest table: pods are omitted first. Text is wrapped and names
    are cut to `width`.
    """
    when = time.strftime("%H:%M:%S", time.localtime(view.time))
    cpus = f"{view.capacity[CPU]:g}" if CPU in view.capacity else "?"
    total = f"{cpus} cores and {size(view.capacity.get(MEMORY))} of memory"
    first = [*_broken([f"{when}  {title}; {total}; model {view.model}"], width), ""]
    last = _broken(notes, width)
    if last:
        last = ["", *last]
    shown, others = view.pods, len(first) + len(last) + len(_HEADS) + len(view.classes) + 1
    if height is not None and len(shown) + others > height:
        shown = shown[: max(height - others - 1, _LEAST_ROWS)]  # with a line for the number of omitted rows
        if len(shown) < len(view.pods):
            last = [f"… and {len(view.pods) - len(shown)} more pods", *last]
    rows = [*_HEADS, *map(_cells, view.classes), *map(_cells, shown)]
    if width is not None:
        rows = _narrowed(rows, width)
    return [*first, *_aligned(rows, len(_HEADS) + len(view.classes)), *last]


def _broken(texts: Sequence[str], width: int | None) -> list[str]:
    return [line for text in texts for line in (textwrap.wrap(text, width) if width else [text])]


def _narrowed(rows: Sequence[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """Return rows with names that leave enough columns for the numbers."""
    numbers = sum(2 + max(map(len, column)) for column in list(zip(*rows, strict=True))[1:])
    columns = max(width - numbers, _LEAST_NAME)
    return [(row[0] if len(row[0]) <= columns else row[0][: columns - 1] + "…", *row[1:]) for row in rows]


def _cells(row: Row) -> tuple[str, ...]:
    numbers = [
        shown(amounts.get(metric))
        for metric, shown in ((CPU, cores), (MEMORY, size))
        for amounts in (row.used, row.peak, row.reclaimable)
    ]
    return row.name, *numbers, row.history


def _aligned(rows: Sequence[tuple[str, ...]], classes: int) -> list[str]:
    """Columns as wide as they must be; the first and the last to the left. An empty line parts classes and pods."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for number, row in enumerate(rows):
        if number == classes:
            lines.append("")
        middle = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]).rstrip())
    return lines

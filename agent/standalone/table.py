"""An overview as lines of text. Pure."""

import textwrap
import time
from collections.abc import Sequence
from typing import Final

from agent.samples import CPU, MEMORY
from agent.standalone.overview import Overview, Row
from agent.standalone.text import cores, size

_GROUPS: Final = ("", "", "", "cores", "", "", "memory", "")
_HEAD: Final = ("", "used", "peak", "reclaim", "used", "peak", "reclaim", "history")
_LEAST_ROWS: Final = 3
_LEAST_NAME: Final = 15


def table(
    view: Overview, title: str, notes: Sequence[str], *, height: int | None = None, width: int | None = None
) -> list[str]:
    """The lines.

    At most `height` lines where there is room for the least of it: pods are left out first. Text is broken and names
    are cut to `width`.
    """
    when = time.strftime("%H:%M:%S", time.localtime(view.time))
    room = " and ".join(
        f"{text} {noun}"
        for text, noun in (
            (f"{view.capacity[CPU]:g}" if CPU in view.capacity else "?", "cores"),
            (size(view.capacity.get(MEMORY)), "of memory"),
        )
    )
    first = [*_broken([f"{when}  {title}; {room}; model {view.model}"], width), ""]
    broken = _broken(notes, width)
    last = ["", *broken] if broken else []
    heads = (_GROUPS, _HEAD)
    shown = _fitting(view.pods, height, len(first) + len(last) + len(heads) + len(view.classes) + 1)
    rows = [*heads, *map(_cells, view.classes), *map(_cells, shown)]
    if len(shown) < len(view.pods):
        last = [f"… and {len(view.pods) - len(shown)} more pods", *last]
    if width is not None:
        rows = _narrowed(rows, width)
    return [*first, *_aligned(rows, len(heads) + len(view.classes)), *last]


def _fitting(pods: Sequence[Row], height: int | None, others: int) -> Sequence[Row]:
    """The pods that fit, with a line that says how many do not."""
    if height is None or len(pods) + others <= height:
        return pods
    return pods[: max(height - others - 1, _LEAST_ROWS)]


def _broken(texts: Sequence[str], width: int | None) -> list[str]:
    return [line for text in texts for line in (textwrap.wrap(text, width) if width else [text])]


def _narrowed(rows: Sequence[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """Rows whose names are so short that the numbers fit beside them."""
    others = sum(2 + max(len(row[column]) for row in rows) for column in range(1, len(_HEAD)))
    room = max(width - others, _LEAST_NAME)
    return [(row[0] if len(row[0]) <= room else row[0][: room - 1] + "…", *row[1:]) for row in rows]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        cores(row.used.get(CPU)),
        cores(row.peak.get(CPU)),
        cores(row.reclaimable.get(CPU)),
        size(row.used.get(MEMORY)),
        size(row.peak.get(MEMORY)),
        size(row.reclaimable.get(MEMORY)),
        row.history,
    )


def _aligned(rows: Sequence[tuple[str, ...]], classes: int) -> list[str]:
    """Columns as wide as they must be; the first and the last to the left. An empty line parts classes and pods."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for number, row in enumerate(rows):
        if number == classes:
            lines.append("")
        middle = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]).rstrip())
    return lines

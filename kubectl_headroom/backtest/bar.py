"""A bar on standard error, where that is a terminal, after a text about the present work; it vanishes at the end."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TextIO

from kubectl_headroom.progress import PATIENCE_SECONDS, drawn_on

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """A bar whose text changes; drawn when the work takes long, on a terminal (by default standard error) alone."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock, self._since = out or sys.stderr, clock, clock()
        self._drawn: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()
        self._drawn = None

    def update(self, fraction: float, text: str) -> None:
        """So much is done, 0..1, and this comes next."""
        if not self._out.isatty() or self._clock() - self._since < PATIENCE_SECONDS:
            return
        if self._drawn is None:
            # Only long work on a terminal pays for it.
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
            self._drawn = drawn_on(self._out, *columns, TimeElapsedColumn())
            self._drawn.add_task("", total=1.0)
            self._drawn.start()
        self._drawn.update(self._drawn.task_ids[0], description=text, completed=min(max(fraction, 0.0), 1.0))
        self._drawn.refresh()

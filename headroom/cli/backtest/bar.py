"""One bar on standard error, where that is a terminal, with what is being done before it; it vanishes at the end."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from headroom.cli.progress import PATIENCE_SECONDS, drawn_on

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A bar whose text changes; drawn when the work takes long.

    Args:
        out: where to; standard error by default. Nothing is drawn unless it is a terminal.
        clock: time that only goes forward. [s]
    """

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out or sys.stderr
        self._draws = self._out.isatty()
        self._clock = clock
        self._since = clock()
        self._drawn: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn is not None:
            self._drawn.stop()
        self._drawn = None

    def update(self, fraction: float, text: str) -> None:
        """So much is done, 0..1, and this comes next."""
        if not self._draws or self._clock() - self._since < PATIENCE_SECONDS:
            return
        if self._drawn is None:
            self._drawn = _bar(self._out)
            self._task = self._drawn.add_task("", total=1.0)
            self._drawn.start()
        if self._task is not None:
            self._drawn.update(self._task, description=text, completed=min(max(fraction, 0.0), 1.0))
            self._drawn.refresh()


def _bar(out: TextIO) -> "Progress":
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as there

    text = TextColumn("{task.description}", markup=False)
    return drawn_on(out, text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn())

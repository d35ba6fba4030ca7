"""Progress of long work: bars on standard error, where that is a terminal; they vanish when the work is done."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

PATIENCE_SECONDS: Final = 1.0  # work that takes no longer shows no bar [s]


class Bars:
    """Bars by name; the first is drawn when work takes long, and all vanish when the last is full.

    Args:
        out: where to; standard error by default. Nothing is drawn unless it is a terminal.
        clock: time that only goes forward. [s]
    """

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out or sys.stderr
        self._draws = self._out.isatty()
        self._clock = clock
        self._since = clock()
        self._state: dict[str, tuple[int, int | None]] = {}
        self._drawn: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def page(self, path: str, done: int, total: int | None) -> None:
        self.update(path.rsplit("/", 1)[-1], done, total)

    def update(self, name: str, done: int, total: int | None) -> None:
        """So much of something is done.

        Args:
            name: the text before the bar.
            done: how much.
            total: of how much; None: not known.
        """
        if not self._draws:
            return
        if not self._state:
            self._since = self._clock()
        self._state[name] = (done, total)
        if all(part == whole for part, whole in self._state.values()):
            self.close()
        elif self._clock() - self._since >= PATIENCE_SECONDS:
            self._draw()

    def close(self) -> None:
        """Take the bars away."""
        if self._drawn is not None:
            self._drawn.stop()
        self._drawn = None
        self._tasks.clear()
        self._state.clear()

    def _draw(self) -> None:
        if self._drawn is None:
            self._drawn = _bars(self._out)
            self._drawn.start()
        for name, (done, total) in self._state.items():
            if name not in self._tasks:
                self._tasks[name] = self._drawn.add_task(name, total=total)
            self._drawn.update(self._tasks[name], completed=done, total=total)
        self._drawn.refresh()


def _bars(out: TextIO) -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415 - as in `drawn_on`

    return drawn_on(out, TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())


def drawn_on(out: TextIO, *columns: "ProgressColumn") -> "Progress":
    """Return bars with these columns that vanish at the end, and are drawn on demand."""
    from rich.console import Console  # noqa: PLC0415 - only long work on a terminal pays for it
    from rich.progress import Progress  # noqa: PLC0415

    return Progress(
        *columns,
        console=Console(file=out),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


@contextmanager
def steps(name: str, total: int, bars: Bars | None = None) -> Iterator[Callable[[], None]]:
    """Show a bar over a number of steps; the yielded function is called after each.

    Args:
        name: the text before the bar.
        total: how many steps there are.
        bars: where it is drawn; bars of its own by default.
    """
    shown, done = bars or Bars(), 0
    shown.update(name, 0, total)

    def step() -> None:
        nonlocal done
        done += 1
        shown.update(name, done, total)

    try:
        yield step
    finally:
        shown.close()

"""The place of the table: refreshed in place on a terminal, one after the other everywhere else."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from headroom.runtime.sanitize import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


class Screen:
    """A terminal on which the last table is replaced, or a stream."""

    def __init__(self, out: TextIO) -> None:
        """Write nothing yet. ``TERM=dumb`` makes a terminal a stream."""
        self._out = out
        self._display: Live | None = None
        self._written = False
        self.live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"  # whether it is refreshed in place

    @property
    def height(self) -> int | None:
        """Lines of the terminal; None for a stream, which has no end."""
        return self._display.console.height if self._display else None

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a stream, whose lines may have any length."""
        return self._display.console.width if self._display else None

    def show(self, lines: Sequence[str]) -> None:
        """Show lines: in place of the last ones on a terminal, after an empty line on a stream.

        Raises OSError: the reader has closed it.
        """
        text = "\n".join(map(printable, lines))
        if self._display:
            from rich.text import Text  # noqa: PLC0415 - only a terminal pays for it

            self._display.update(Text(text, no_wrap=True, overflow="crop"), refresh=True)
        else:
            self._out.write(("\n" if self._written else "") + f"{text}\n")
            self._out.flush()
            self._written = True

    @contextlib.contextmanager
    def opened(self, logger: logging.Logger | None = None) -> Iterator[None]:
        """Refresh in place on a terminal, with the log above the table while it would go to the same terminal."""
        if not self.live:
            yield
            return
        from rich.console import Console  # noqa: PLC0415 - only a terminal pays for it
        from rich.live import Live  # noqa: PLC0415

        console = Console(file=self._out, force_terminal=True, highlight=False)
        logger = logger or logging.getLogger()
        handlers = list(logger.handlers)
        same = sys.stderr.isatty()
        if same:
            above = _Above(console)
            above.setFormatter(handlers[0].formatter if handlers else None)
            logger.handlers[:] = [above]
        try:
            with Live(
                console=console,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=same,
                vertical_overflow="crop",
            ) as self._display:
                yield
        finally:
            self._display = None
            logger.handlers[:] = handlers


class _Above(logging.Handler):
    """Prints the first line of each record above the table."""

    def __init__(self, console: "Console") -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(printable(self.format(record).partition("\n")[0]), markup=False, emoji=False)

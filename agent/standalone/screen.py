"""Where the table goes: refreshed in place on a terminal, one after the other everywhere else."""

import contextlib
import logging
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TextIO

from headroom.runtime.sanitize import printable

_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # the other screen, no cursor
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_TO_END_OF_LINE: Final = "\x1b[K"
_TO_END_OF_SCREEN: Final = "\x1b[J"
_MESSAGES: Final = 4


class Screen:
    """A terminal whose whole screen is ours until `close`, or a stream."""

    def __init__(self, out: TextIO, environment: Mapping[str, str] | None = None) -> None:
        """Touches nothing yet. ``TERM=dumb`` in the environment makes a terminal a stream."""
        environment = os.environ if environment is None else environment
        self._out = out
        self._last: list[str] = []
        self._entered = False
        self.live = out.isatty() and environment.get("TERM", "dumb") != "dumb"  # whether it is refreshed in place
        self.messages: deque[str] = deque(maxlen=_MESSAGES)
        """The last lines of the log, where the log would go to the same terminal."""

    @property
    def height(self) -> int | None:
        """Lines of the terminal; None for a stream, which has no end."""
        return self._size()[1] - len(self.messages) if self.live else None

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a stream, whose lines may be long."""
        return self._size()[0] if self.live else None

    def show(self, lines: Sequence[str]) -> None:
        """Show lines: in place of the last ones on a terminal, after an empty line on a stream.

        Raises OSError: the reader has closed it.
        """
        lines = [printable(line) for line in lines]
        if not self.live:
            self._write(("\n" if self._last else "") + "".join(f"{line}\n" for line in lines))
            self._last = lines
            return
        columns, height = self._size()
        self._last = lines
        shown = [line[:columns] for line in [*lines, *self.messages][:height]]
        start = _HOME if self._entered else _ENTER + _HOME
        self._entered = True
        self._write(start + "\r\n".join(line + _TO_END_OF_LINE for line in shown) + _TO_END_OF_SCREEN)

    def close(self) -> None:
        """Give the terminal back, with the last lines on it."""
        if self._entered:
            self._entered = False
            with contextlib.suppress(OSError):
                self._write(_LEAVE + "".join(f"{line}\n" for line in self._last))

    @contextlib.contextmanager
    def with_log(self, logger: logging.Logger | None = None) -> Iterator[None]:
        """Show the log under the table while it would go to the same terminal."""
        logger = logger or logging.getLogger()
        if not (self.live and sys.stderr.isatty()):
            yield
            return
        handlers = list(logger.handlers)
        tail = _Tail(self.messages)
        tail.setFormatter(handlers[0].formatter if handlers else None)
        logger.handlers[:] = [tail]
        try:
            yield
        finally:
            logger.handlers[:] = handlers

    def _size(self) -> tuple[int, int]:
        try:
            columns, lines = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            columns, lines = 0, 0
        return columns or 120, lines or 40  # a terminal that does not know its size says 0

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class _Tail(logging.Handler):
    """Keeps the last lines."""

    def __init__(self, lines: deque[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record).partition("\n")[0])

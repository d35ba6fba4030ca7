"""A terminal is refreshed in place and given back; a stream is written to."""

import io
import logging
import os
import pty
from collections.abc import Iterator
from typing import TextIO

import pytest

from agent.standalone.screen import Screen

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Terminal(io.StringIO):
    """Says that it is a terminal (fake)."""

    def isatty(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """It has no file, and so no size."""
        raise io.UnsupportedOperation("fileno")


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A real terminal: its program's side, and the other end."""
    outer, inner = pty.openpty()
    with os.fdopen(inner, "w", encoding="utf-8") as out:
        yield out, outer
    os.close(outer)


def test_stream_gets_tables_in_turn() -> None:
    """Without a terminal tables follow each other, with an empty line between and no control characters."""
    out = io.StringIO()
    screen = Screen(out, {"TERM": "xterm"})
    assert (screen.live, screen.height) == (False, None)
    screen.show(["a"])
    screen.show(["b", "c"])
    screen.close()
    assert out.getvalue() == "a\n\nb\nc\n"


def test_names_control_no_terminal() -> None:
    """What a pod is called is untrusted: nothing but the screen's own sequences reaches a terminal."""
    hostile = "shop/\x1b[2Jcart\nFORGED\u202e"
    for out in (io.StringIO(), Terminal()):
        screen = Screen(out, {"TERM": "xterm"})
        screen.show([hostile])
        screen.close()
        text = out.getvalue()
        assert "\\x1b[2Jcart\\nFORGED\\u202e" in text
        assert not [each for each in ("\x1b[2J", "\u202e", "\nFORGED") if each in text]


def test_terminal_is_refreshed() -> None:
    """On a terminal the last table is written over, and the screen is given back with it."""
    out = Terminal()
    screen = Screen(out, {"TERM": "xterm"})
    assert screen.live
    screen.show(["a"])
    screen.show(["b"])
    assert (out.getvalue().count(ENTER), out.getvalue().count(LEAVE)) == (1, 0)
    assert out.getvalue().count("\x1b[H") == 2
    screen.close()
    screen.close()
    assert out.getvalue().count(LEAVE) == 1
    assert out.getvalue().endswith("b\n")


def test_real_terminal_is_fitted(terminal: tuple[TextIO, int]) -> None:
    """Lines are cut at the terminal's width and height."""
    out, other = terminal
    import fcntl  # noqa: PLC0415 - one test sets a terminal's size
    import struct  # noqa: PLC0415
    import termios  # noqa: PLC0415

    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 3, 5, 0, 0))
    screen = Screen(out, {"TERM": "xterm"})
    assert screen.height == 3
    screen.show(["123456789", "b", "c", "d"])
    text = os.read(other, 4096).decode()
    assert "12345\x1b[K" in text
    assert "6" not in text.replace("\x1b[?1049h", "")
    assert "d" not in text


def test_dumb_terminal_is_stream() -> None:
    """A terminal that cannot move its cursor is written to like a file."""
    for environment in ({"TERM": "dumb"}, {}):
        assert not Screen(Terminal(), environment).live


def test_log_stands_below_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the log would go to the same terminal its last lines are under the table; then it is as before."""
    monkeypatch.setattr("sys.stderr", Terminal())
    logger, out = logging.getLogger("a log that goes to the terminal"), Terminal()
    before = logging.StreamHandler(io.StringIO())
    before.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(before)
    screen = Screen(out, {"TERM": "xterm"})
    with screen.with_log(logger):
        for number in range(9):
            logger.warning("event %d\nmore", number)
        screen.show(["table"])
    assert list(screen.messages) == [f"WARNING event {number}" for number in range(5, 9)]
    assert "WARNING event 8" in out.getvalue()
    assert logger.handlers == [before]


def test_log_elsewhere_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that goes to a file stays there."""
    monkeypatch.setattr("sys.stderr", io.StringIO())
    logger = logging.getLogger("a log that goes to a file")
    before = logging.NullHandler()
    logger.addHandler(before)
    with Screen(Terminal(), {"TERM": "xterm"}).with_log(logger):
        assert logger.handlers == [before]

"""A terminal is refreshed in place and given back; a stream is written to."""

import fcntl
import io
import logging
import os
import pty
import struct
import termios

import pytest

from agent.standalone.screen import Screen

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
XTERM = {"TERM": "xterm"}


class Terminal(io.StringIO):
    """Says that it is a terminal; it has no file, and so no size (fake)."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


@pytest.mark.parametrize(
    ("out", "environment"), [(io.StringIO(), XTERM), (Terminal(), {"TERM": "dumb"}), (Terminal(), {})]
)
def test_stream_gets_tables_in_turn(out: io.StringIO, environment: dict[str, str]) -> None:
    """With an empty line between and no control characters; so does a terminal that cannot move its cursor."""
    screen = Screen(out, environment)
    assert (screen.live, screen.height) == (False, None)
    screen.show(["a"])
    screen.show(["b", "c"])
    screen.close()
    assert out.getvalue() == "a\n\nb\nc\n"


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_names_of_pods_control_no_terminal(out: io.StringIO) -> None:
    screen = Screen(out, XTERM)
    screen.show(["shop/\x1b[2Jcart\nFORGED\u202e"])
    screen.close()
    text = out.getvalue()
    assert "\\x1b[2Jcart\\nFORGED\\u202e" in text
    assert not [each for each in ("\x1b[2J", "\u202e", "\nFORGED") if each in text]


def test_terminal_is_refreshed_and_given_back_with_the_last_table() -> None:
    out = Terminal()
    screen = Screen(out, XTERM)
    assert screen.live
    screen.show(["a"])
    screen.show(["b"])
    assert [out.getvalue().count(each) for each in (ENTER, LEAVE, "\x1b[H")] == [1, 0, 2]
    screen.close()
    screen.close()
    assert out.getvalue().count(LEAVE) == 1
    assert out.getvalue().endswith("b\n")


def test_lines_are_cut_at_a_terminals_width_and_height() -> None:
    outer, inner = pty.openpty()
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 3, 5, 0, 0))
    with os.fdopen(inner, "w", encoding="utf-8") as out:
        screen = Screen(out, XTERM)
        assert screen.height == 3
        screen.show(["123456789", "b", "c", "d"])
        text = os.read(outer, 4096).decode()
    os.close(outer)
    assert "12345\x1b[K" in text
    assert "6" not in text.replace(ENTER, "")
    assert "d" not in text


@pytest.mark.parametrize("stderr", [Terminal(), io.StringIO()])
def test_log_that_goes_to_the_same_terminal_stands_below_the_table(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO
) -> None:
    """Its last lines, as long as the table is shown; one that goes to a file stays there."""
    monkeypatch.setattr("sys.stderr", stderr)
    logger, out = logging.getLogger("a log of this test"), Terminal()
    before = logging.StreamHandler(io.StringIO())
    before.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    monkeypatch.setattr(logger, "handlers", [before])
    screen = Screen(out, XTERM)
    with screen.with_log(logger):
        same = logger.handlers == [before]
        for number in range(9):
            logger.warning("event %d\nmore", number)
        screen.show(["table"])
    assert same is not stderr.isatty()
    assert list(screen.messages) == [f"WARNING event {number}" for number in range(5, 9) if not same]
    assert ("WARNING event 8" in out.getvalue()) is not same
    assert logger.handlers == [before]

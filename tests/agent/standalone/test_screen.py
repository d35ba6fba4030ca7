import io
import logging

import pytest

from agent.standalone.screen import Screen

ALTERNATE = "\x1b[?1049h"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _size(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "40"), ("LINES", "5")):
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(("out", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb"), (Terminal(), None)])
def test_stream_gets_tables_in_turn(out: io.StringIO, term: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty line between and no control characters; so does a terminal that cannot move its cursor."""
    monkeypatch.delenv("TERM") if term is None else monkeypatch.setenv("TERM", term)
    screen = Screen(out)
    with screen.opened():
        assert (screen.live, screen.height, screen.width) == (False, None, None)
        screen.show(["a"])
        screen.show(["b", "c"])
    assert out.getvalue() == "a\n\nb\nc\n"


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_names_of_pods_control_no_terminal(out: io.StringIO) -> None:
    screen = Screen(out)
    with screen.opened():
        screen.show(["a/\x1b[2Jcart\nFORGED\u202e"])
    text = out.getvalue()
    assert "\\x1b[2Jcart\\nFORGED\\u202e" in text
    assert not [entry for entry in ("\x1b[2J", "\u202e", "\nFORGED") if entry in text]


def test_terminal_is_refreshed_in_place() -> None:
    """The last table stays, on the same screen; lines are cut at its width and height."""
    out = Terminal()
    screen = Screen(out)
    with screen.opened():
        assert (screen.height, screen.width) == (5, 40)
        screen.show(["first"])
        screen.show(["[b]x[/b]" * 9, *"bcdef"])
    text = out.getvalue()
    assert ALTERNATE not in text
    assert "\x1b[2K" in text.partition("first")[2]  # the first is erased
    assert ("[b]x[/b]" * 5) in text
    assert ("[b]x[/b]" * 6) not in text
    assert "\ne" in text.replace("\r", "")


@pytest.mark.parametrize("stderr", [Terminal(), io.StringIO()])
def test_log_of_the_same_terminal_is_above(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO) -> None:
    """Its first lines, as long as the table is shown; one that goes to a file stays there."""
    monkeypatch.setattr("sys.stderr", stderr)
    logger, out = logging.getLogger("a log of this test"), Terminal()
    before = logging.StreamHandler(io.StringIO())
    before.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    monkeypatch.setattr(logger, "handlers", [before])
    screen = Screen(out)
    with screen.opened(logger):
        same = logger.handlers == [before]
        screen.show(["table"])
        logger.warning("event [b]\nmore")
    assert same is not stderr.isatty()
    assert ("WARNING event [b]" in out.getvalue()) is not same
    assert "more" not in out.getvalue()
    assert logger.handlers == [before]

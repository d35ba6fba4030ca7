"""Output that depends on the terminal: colours, bars, refreshed screens."""

import io

import pytest

from headroom.kube import ApiServer, ApiUnavailable
from headroom.kube.connection import Connection
from kubectl_headroom import progress, watching
from kubectl_headroom.errors import CommandError
from kubectl_headroom.table import Cell, Column, plain, write
from tests.support.world import Clock

COLUMNS = (Column("NAME"), Column("CPU", ">"))
ROWS = [(Cell("long-name", "bold"), Cell("5m")), (Cell("b"), Cell("1500m", "red"))]
API = ApiServer(Connection("http://nowhere", None, lambda: None), "test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_pipe_gets_plain_text() -> None:
    """A pipe gets aligned columns and no control characters."""
    out = io.StringIO()
    write(COLUMNS, ROWS, out)
    assert out.getvalue() == "NAME          CPU\nlong-name      5m\nb           1500m\n"


def test_terminal_gets_same_words() -> None:
    """A terminal gets the same cells, whatever their colours."""
    out = Terminal()
    write(COLUMNS, ROWS, out)
    for text in ("NAME", "long-name", "1500m"):
        assert text in out.getvalue()


def test_cells_are_not_markup() -> None:
    out = Terminal()
    write(COLUMNS, [(Cell("nodeConfigs[0] [red]web"), Cell(""))], out)
    assert "nodeConfigs[0] [red]web" in out.getvalue()


def test_no_trailing_spaces() -> None:
    assert plain((Column("A"), Column("B")), [(Cell("x"), Cell(""))]) == "A   B\nx\n"


def test_numbers_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal no cell is broken in two, as with kubectl, except sentences in the last column."""
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    columns = [Column(f"COLUMN-{index}", ">") for index in range(6)]
    write(columns, [[Cell(f"{index}{'5' * 8}m") for index in range(6)]], out)
    assert len(out.getvalue().splitlines()) == 2
    assert all(f"{index}55555555m" in out.getvalue() for index in range(6))
    out = Terminal()
    write((Column("NAME"), Column("WHY")), [(Cell("web-1"), Cell("because of this and that, and more of it"))], out)
    assert len(out.getvalue().splitlines()) == 3


@pytest.mark.parametrize(
    ("variables", "coloured"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)]
)
def test_colours_on_terminals_alone(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, coloured: bool
) -> None:
    """A terminal gets colours, a pipe none; NO_COLOR and a terminal without colours turn them off."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, content in variables.items():
        monkeypatch.setenv(name, content)
    terminal, pipe = Terminal(), io.StringIO()
    for out in (terminal, pipe):
        write((Column("A"),), [(Cell("x", "red"),)], out)
    assert ("\x1b[" in terminal.getvalue(), "\x1b[" in pipe.getvalue()) == (coloured, False)


def test_wide_columns_are_for_wide_tables() -> None:
    columns, rows = (Column("A"), Column("B", wide=True), Column("C")), [[Cell("1"), Cell("2"), Cell("3")]]
    narrow, wide = io.StringIO(), io.StringIO()
    write(columns, rows, narrow)
    write(columns, rows, wide, wide=True)
    assert (narrow.getvalue(), wide.getvalue()) == ("A   C\n1   3\n", "A   B   C\n1   2   3\n")


def test_short_work_shows_no_bar() -> None:
    out = Terminal()
    bars = progress.Bars(out, Clock())
    bars.page("/api/v1/pods", 500, 1000)
    bars.page("/api/v1/pods", 1000, 1000)
    assert out.getvalue() == ""


def test_long_work_shows_bars_and_takes_them_away() -> None:
    """Long lists show how far they are; when the last is complete, nothing of it stays on the screen."""
    out, clock = Terminal(), Clock()
    bars = progress.Bars(out, clock)
    bars.page("/api/v1/pods", 500, 2000)
    clock.now = 1.5
    bars.page("/api/v1/pods", 1000, 2000)
    bars.page("/api/v1/nodes", 500, None)
    assert "pods" in out.getvalue()
    assert "1000/2000" in out.getvalue()
    bars.page("/api/v1/nodes", 700, 700)
    bars.page("/api/v1/pods", 2000, 2000)
    drawn = out.getvalue()
    assert "\x1b[?25h" in drawn  # the cursor is shown again
    bars.close()
    assert out.getvalue() == drawn


def test_pipe_gets_no_bars() -> None:
    out, clock = io.StringIO(), Clock()
    bars = progress.Bars(out, clock)
    with progress.steps("Checking", 3, bars) as step:
        for _ in range(3):
            clock.now += 10
            step()
    assert out.getvalue() == ""


def test_steps_count() -> None:
    """A bar over steps is drawn once they take long, and goes away when work ends early."""
    out, clock = Terminal(), Clock()
    with progress.steps("Checking", 3, progress.Bars(out, clock)) as step:
        clock.now = 2.0
        step()
    drawn = out.getvalue()
    assert "1/3" in drawn
    assert "\x1b[?25h" in drawn.rpartition("1/3")[2]  # the cursor is shown again


class Enough(Exception):  # noqa: N818 - it ends a loop
    """Press Ctrl-C."""


async def _watch(out: io.StringIO, output: str, answers: list[str | Exception]) -> None:
    left = list(answers)

    async def ask(_: ApiServer) -> None:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        out.write(answer)

    async def pause(seconds: float) -> None:
        assert seconds == 7
        if not left:
            raise Enough

    with pytest.raises(Enough):
        await watching.watch_loop(API, ask, 7, output, out, pause)


async def test_watching_a_pipe() -> None:
    """In a pipe answers follow one another, YAML ones as documents."""
    out = io.StringIO()
    await _watch(out, "table", ["a\n", "b\n"])
    assert out.getvalue() == "a\n\nb\n"
    out = io.StringIO()
    await _watch(out, "yaml", ["a: 1\n", "a: 2\n"])
    assert out.getvalue() == "a: 1\n---\na: 2\n"


async def test_watching_a_terminal() -> None:
    out = Terminal()
    await _watch(out, "table", ["a\n", "b\n"])
    assert out.getvalue().count("\x1b[2J") == 2


async def test_failures_do_not_end_a_watch(capsys: pytest.CaptureFixture[str]) -> None:
    """An unreachable API server, or a missing object, is reported and requested again."""
    out = io.StringIO()
    await _watch(out, "table", [ApiUnavailable("The API server is away"), CommandError("There is no pod"), "a\n"])
    assert out.getvalue().strip() == "a"
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "kubectl headroom: The API server is away; trying again in 7 s",
        "kubectl headroom: There is no pod; trying again in 7 s",
    ]

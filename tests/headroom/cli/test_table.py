import io

import pytest

from headroom.cli.table import Cell, Column, plain, write

COLUMNS = (Column("NAME"), Column("CPU", ">"))
ROWS = [(Cell("long-name", "bold"), Cell("5m")), (Cell("b"), Cell("1500m", "red"))]


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
    """Square brackets in a cell are printed, not taken for styles."""
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

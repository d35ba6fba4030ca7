"""The page about a database."""

from pathlib import Path

import pytest

from agent.store.inspection import report
from agent.store.schema import StoreError
from agent.store.settings import StoreSettings
from agent.store.tsdb import Tsdb
from tests.agent.store.ticks import fill, finish


def test_page_names_everything(tmp_path: Path) -> None:
    """Tables and tiers of a database in use are listed."""
    path = tmp_path / "t.db"
    with Tsdb.open(path, StoreSettings(block_ticks=60)) as store:
        finish(store, fill(store, 500))
        page = report(path)
    assert "head:" in page
    assert "samples, level 0:" in page
    assert "minutes, level 0:" in page


def test_missing_database_is_one_line(tmp_path: Path) -> None:
    """A database that is not there, or is something else, is one line."""
    with pytest.raises(StoreError, match="no database at"):
        report(tmp_path / "t.db")
    (tmp_path / "t.db").write_text("something else")
    with pytest.raises(StoreError, match="cannot read"):
        report(tmp_path / "t.db")

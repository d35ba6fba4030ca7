"""Schema versions: an older file is set aside, a newer one is left alone."""

import logging
from pathlib import Path

import pytest

from agent.samples import CPU
from agent.tsdb import schema
from agent.tsdb.schema import StoreNewer
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, connection, fill


def test_older_schema_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A database of a schema that was never released is kept under another name, and a new one is begun."""
    path = tmp_path / "t.db"
    with Tsdb.open(path) as store:
        fill(store, 5)
        connection(store).execute(f"PRAGMA user_version = {schema.VERSION - 1}")
    with caplog.at_level(logging.ERROR), Tsdb.open(path) as store:
        assert not store.window(CPU, "a", START - 1, START + 5)
    assert "t.db has schema 2, which no release has had; this one is 3; it is kept as t.db.damaged-" in caplog.text
    assert len(list(tmp_path.glob("t.db.damaged-*"))) >= 1


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """A database of a newer version is left alone, byte for byte, and the way out is named."""
    path = tmp_path / "t.db"
    with Tsdb.open(path) as store:
        fill(store, 5)
        connection(store).execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match=r"t\.db was written by a newer Headroom .*or move the file away"):
        Tsdb.open(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("t.db.*-*"))

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agent import database
from agent.samples import CPU
from agent.tsdb import schema
from agent.tsdb.schema import StoreError, StoreNewer
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, connection, fill, finish

SMALL = StoreSettings(block_ticks=60)


def _other_tables(path: Path, version: int = 0) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance REAL)")
        file.execute("INSERT INTO accounts (balance) VALUES (12.5)")
        file.execute(f"PRAGMA user_version = {version}")
        file.commit()


def _same_names(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file:
        for table in ("series", "layouts", "head", "blocks", "chunks", "days", "checkpoints", "marks"):
            file.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, mine TEXT)")
        file.execute("PRAGMA user_version = 2")
        file.commit()


def _truncated(path: Path) -> None:
    with Tsdb.open(path, SMALL) as store:
        finish(store, fill(store, 600))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _no_text(path: Path, text: bytes) -> None:
    with Tsdb.open(path, SMALL) as store:
        finish(store, fill(store, 10))
    path.write_bytes(path.read_bytes().replace(text, text[:-1] + b"\x80"))


def _no_amounts(path: Path) -> None:
    with Tsdb.open(path, SMALL) as store:
        finish(store, fill(store, 10))
    with contextlib.closing(sqlite3.connect(path)) as file:
        (packed,) = file.execute("SELECT amounts FROM head WHERE id = 5").fetchone()
        file.execute("UPDATE head SET amounts = ? WHERE id = 5", (packed[:7] + b"\x20" + packed[8:],))
        file.commit()


def _older(path: Path) -> None:
    with Tsdb.open(path) as store:
        fill(store, 5)
        connection(store).execute(f"PRAGMA user_version = {schema.VERSION - 1}")


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "precious").write_text("keep me")


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_bytes(b"this is no database" * 1000), "damaged"),
    "few bytes": (lambda path: path.write_bytes(b"x"), "damaged"),
    "noise": (lambda path: path.write_bytes(bytes(range(256)) * 64), "damaged"),
    "truncated": (_truncated, "damaged"),
    "a name that is no text": (lambda path: _no_text(path, b"checkpoints"), "damaged"),
    "a definition that is none": (lambda path: _no_text(path, b"CREATE TABLE"), "damaged"),
    "a tick of no amounts": (_no_amounts, "damaged"),
    "a schema that was never released": (_older, "damaged"),
    "another program's": (_other_tables, "foreign"),
    "another program's of our version": (lambda path: _other_tables(path, 1), "foreign"),
    "another program's of a later version": (lambda path: _other_tables(path, 99), "foreign"),
    "another program's with our names": (_same_names, "foreign"),
    "a folder": (_folder, "foreign"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_unusable_is_set_aside(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged database is renamed, logged in one line and counted, and work goes on."""
    path = tmp_path / "t.db"
    make, name = UNUSABLE[what]
    make(path)
    before = None if path.is_dir() else path.read_bytes()
    caplog.clear()
    with caplog.at_level(logging.WARNING), Tsdb.open(path, SMALL) as store:
        fill(store, 3)
        assert store.size().set_aside == 1
    (aside,) = [entry for entry in tmp_path.glob(f"t.db.{name}-*") if entry.suffix.rpartition("-")[2].isdigit()]
    assert before is None or aside.read_bytes() == before
    (message,) = (record.getMessage() for record in caplog.records)
    assert str(path) in message
    assert aside.name in message
    assert "starting with an empty database" in message
    with Tsdb.open(path, SMALL) as store:
        assert len(store.window(CPU, "a", 0, START + 9)) == 3
        assert store.size().set_aside == 0


def test_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with Tsdb.open(path) as store:
        fill(store, 5)
        connection(store).execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match=r"t\.db was written by a newer Headroom .*or move the file away"):
        Tsdb.open(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("t.db.*-*"))


def test_empty_file_becomes_the_database(tmp_path: Path) -> None:
    (tmp_path / "t.db").touch()
    with Tsdb.open(tmp_path / "t.db") as store:
        fill(store, 3)
    assert not list(tmp_path.glob("t.db.*-*"))


def test_one_damaged_database_is_kept_and_all_of_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    for number in range(3):
        path.write_bytes(b"garbage %d" % number * 1000)
        Tsdb.open(path).close()
        path.unlink()
        _other_tables(path)
        Tsdb.open(path).close()
        path.unlink()
    assert len(list(tmp_path.glob("t.db.damaged-*"))) == 1
    assert len(list(tmp_path.glob("t.db.foreign-*"))) == 3


def test_damaged_chunk_is_a_gap(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A chunk that cannot be read costs its own samples alone, is said once, and is deleted."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        now = fill(store, 400)
        finish(store, now)
        block, series = connection(store).execute("SELECT block, series FROM chunks ORDER BY block, series").fetchone()
        connection(store).execute("UPDATE chunks SET data = x'00' WHERE block = ? AND series = ?", (block, series))
        for _ in range(2):
            assert len(store.window(CPU, "node", 0, now)) == 340
        assert len(store.window(CPU, "a", 0, now)) == 400
        assert caplog.text.count("damaged chunk") == 1
        assert store.size().damaged_chunks == 1
        finish(store, now)
        query = "SELECT count(*) FROM chunks WHERE block = ? AND series = ?"
        assert connection(store).execute(query, (block, series)).fetchone() == (0,)
        assert not list(tmp_path.glob("*.damaged-*"))


@pytest.mark.parametrize("pages", ["all", "middle"])
def test_garbage_under_way_is_noticed(tmp_path: Path, pages: str, caplog: pytest.LogCaptureFixture) -> None:
    """When pages of a file in use turn to garbage it is set aside; the ticks in memory go on into a new one."""
    path = tmp_path / "t.db"
    with Tsdb.open(path, SMALL) as store:
        now = fill(store, 900, maintain=False)
        finish(store, now)
        recent = store.size().head_ticks
        connection(store).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection(store).execute("PRAGMA cache_size = 0")
        connection(store).execute("PRAGMA shrink_memory")
        with path.open("r+b") as file:
            size = path.stat().st_size
            file.seek(0 if pages == "all" else 4096 * 2)
            file.write(b"\xa5" * (size - 4096 * 2))
        for number in range(1, 4):
            store.window(CPU, "a", 0, now)
            fill(store, 1, start=now + number)
        assert store.problem == ""
        assert store.size().set_aside == 1
        assert len(store.window(CPU, "a", now - recent, now + 3)) == recent + 3
    assert caplog.text.count("starting with an empty database") == 1
    with Tsdb.open(path, SMALL) as store:
        assert len(store.window(CPU, "a", now - recent, now + 3)) == recent + 3


def test_lost_log_tail_costs_the_tail(tmp_path: Path) -> None:
    """A power loss that leaves a part of the log, and garbage behind it, costs the last ticks and nothing else."""
    path = tmp_path / "t.db"
    with Tsdb.open(path, SMALL) as store:
        fill(store, 100, maintain=False)
        store.checkpoint()
        fill(store, 100, start=START + 100)
        file, log = path.read_bytes(), path.with_name("t.db-wal").read_bytes()
    for number in range(12):
        home = tmp_path / str(number)
        home.mkdir()
        cut = len(log) * number // 12 + number * 7
        (home / "t.db").write_bytes(file)
        (home / "t.db-wal").write_bytes(log[:cut] + b"\x5a" * (number % 3) * 5000)
        with Tsdb.open(home / "t.db", SMALL) as store:
            result = (store.window(CPU, "a", 0, START + 999).times - START).tolist()
        assert result == list(range(len(result)))
        assert len(result) >= 100
        assert not list(home.glob("*.damaged-*"))


@pytest.mark.parametrize("arguments", [("query", "cpu", "--points"), ("query", "cpu"), ("export", "--metric", "cpu")])
def test_damage_is_counted_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """An unreadable chunk counts once, however often `headroom-agent db` reads it."""
    with Tsdb.open(tmp_path / "agent.db", StoreSettings(block_ticks=60)) as store:
        finish(store, fill(store, 400, maintain=False))
    with sqlite3.connect(tmp_path / "agent.db") as file:
        file.execute("UPDATE chunks SET data = x'0011' WHERE block = 1 AND series = 1")
    file.close()
    with pytest.raises(StoreError, match=r"^1 chunks cannot be read: block 1, series 1"):
        database.main([*arguments, "--window", "1d", "--resolution", "raw", "--data-dir", str(tmp_path)])

"""Schema versions: an older file is brought up to date without loss, a newer one is left alone."""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlite_utils

from agent.samples import CPU, MEMORY
from agent.tsdb import blocks, codec, schema
from agent.tsdb.rollup import Points
from agent.tsdb.schema import StoreCorrupt, StoreError, StoreNewer
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, connection, fill, finish

TICKS = 300
FLUSHED = 180


@contextlib.contextmanager
def _raw(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        yield file


def _version_1(path: Path) -> None:
    """A file as the first version left it: one block, and recent ticks whose series are in no order."""
    with _raw(path) as file:
        schema._STEPS[1](sqlite_utils.Database(file))
        file.execute("PRAGMA user_version = 1")
        rows = [(1, CPU, "node"), (2, MEMORY, "node"), (3, CPU, "a")]
        file.executemany("INSERT INTO series (id, metric, entity) VALUES (?, ?, ?)", rows)
        times = np.arange(FLUSHED) * 1000 + round(START * 1000)
        cpu = codec.encode([np.arange(FLUSHED) * 10])
        minutes = np.arange(3) * 60_000 + round(START * 1000)
        points = Points(minutes, np.array([0.0295, 0.0895, 0.1495]), np.array([0.059, 0.119, 0.179]), np.full(3, 60))
        for number, (tier, stamps, data) in enumerate(
            [(0, times, cpu), (1, minutes, blocks.encode_minutes(minutes, points, 10_000.0))], start=1
        ):
            block = (number, tier, 0, int(stamps[0]), int(stamps[-1]), codec.encode_times(stamps))
            file.execute(
                "INSERT INTO blocks (id, tier, level, start_ms, end_ms, times) VALUES (?, ?, ?, ?, ?, ?)", block
            )
            file.execute("INSERT INTO chunks (block, series, data) VALUES (?, 3, ?)", (number, data))
        file.execute("INSERT INTO days VALUES (?, 3, 0.179, 0.0895, 16.11, 180)", (int(START // 86400),))
        file.execute("INSERT INTO layouts (id, series) VALUES (7, ?)", (np.array([3, 1, 2], "<u4").tobytes(),))
        file.execute("INSERT INTO layouts (id, series) VALUES (8, ?)", (np.array([2, 3, 1], "<u4").tobytes(),))
        for number in range(FLUSHED, TICKS):
            amounts = {1: number * 20, 2: 4096 * number, 3: number * 10}
            order = (3, 1, 2) if number % 2 else (2, 3, 1)
            packed = np.array([amounts[one] for one in order], "<i8").tobytes()
            row = (round((START + number) * 1000), 7 if number % 2 else 8, packed)
            file.execute("INSERT INTO head (time_ms, layout, amounts) VALUES (?, ?, ?)", row)
        file.execute("INSERT INTO checkpoints VALUES ('learned', 1.0, x'0102')")


def test_version_1_is_read_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file of the first version has all of its samples, minutes and checkpoints after the steps."""
    path = tmp_path / "t.db"
    _version_1(path)
    with caplog.at_level(logging.INFO), Tsdb.open(path, StoreSettings(block_ticks=60)) as store:
        assert "schema 1 -> 2" in caplog.text
        assert "schema 2 -> 3" in caplog.text
        window = store.window(CPU, "a", START - 1, START + TICKS)
        assert (window.times - START).tolist() == list(range(TICKS))
        assert window.values == pytest.approx(np.arange(TICKS) / 1000)
        assert store.window(MEMORY, "node", START - 1, START + TICKS).values.tolist() == [
            4096.0 * number for number in range(FLUSHED, TICKS)
        ]
        assert store.minutes(CPU, START, START + TICKS)["a"].count.tolist() == [60] * 5
        assert store.load_checkpoints() == {"learned": b"\x01\x02"}
        assert connection(store).execute("SELECT samples FROM blocks ORDER BY id").fetchall() == [(FLUSHED,), (3,)]
        now = fill(store, 200, start=START + TICKS)
        finish(store, now)
        assert len(store.window(CPU, "a", START - 1, now)) == TICKS + 200
    with Tsdb.open(path) as store:
        assert len(store.window(CPU, "a", START - 1, now)) == TICKS + 200
        assert not list(tmp_path.glob("t.db.*-*"))


def test_step_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is interrupted leaves the file as it was, and is made the next time."""
    path = tmp_path / "t.db"
    _version_1(path)

    def interrupted(database: Any) -> None:  # noqa: ANN401 - as the library has it
        step(database)
        raise KeyboardInterrupt

    step = schema._STEPS[2]
    monkeypatch.setitem(schema._STEPS, 2, interrupted)
    with pytest.raises(KeyboardInterrupt):
        Tsdb.open(path)
    with _raw(path) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    monkeypatch.setitem(schema._STEPS, 2, step)
    with Tsdb.open(path) as store:
        assert len(store.window(CPU, "a", START - 1, START + TICKS)) == TICKS


def test_steps_make_what_is_checked(tmp_path: Path) -> None:
    """After each step a file has exactly the columns that identify its version."""
    with _raw(tmp_path / "t.db") as file:
        for version, step in schema._STEPS.items():
            step(sqlite_utils.Database(file))
            file.execute(f"PRAGMA user_version = {version}")
            file.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            assert schema.kind(file) == (schema.Kind.OURS, version)
    assert max(schema._STEPS) == schema.VERSION


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


def test_refusals_are_told_apart() -> None:
    """A handler of damage does not handle a newer version."""
    assert issubclass(StoreNewer, StoreError)
    assert not issubclass(StoreNewer, StoreCorrupt)

"""A disk that is full, read-only, busy or gone: samples wait in memory, and are written when it is back."""

import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.samples import CPU, MEMORY, Sample
from agent.tsdb.schema import StoreUnavailable
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, connection, fill, finish, samples

SMALL = StoreSettings(block_ticks=20, memory_ticks=100)


@contextlib.contextmanager
def full_disk(store: Tsdb) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    connection(store).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def read_only(store: Tsdb) -> Iterator[None]:
    connection(store).execute("PRAGMA query_only = ON")
    yield
    connection(store).execute("PRAGMA query_only = OFF")


@contextlib.contextmanager
def busy(store: Tsdb) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def times(store: Tsdb, entity: str = "a") -> list[float]:
    result: list[float] = (store.window(CPU, entity, 0, 1e11).times - START).tolist()
    return result


@pytest.mark.parametrize("outage", [full_disk, read_only, busy])
def test_outage_loses_nothing(
    tmp_path: Path, outage: Callable[[Tsdb], contextlib.AbstractContextManager[None]]
) -> None:
    """While the file cannot be written windows have every tick, new pods too; then all is written by itself."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        fill(store, 50)
        with outage(store):
            for number in range(50, 60):
                now = START + number
                with pytest.raises(StoreUnavailable, match=r"cannot write .*t\.db.*held in memory"):
                    store.append(now, samples(now, entities=("node", "a", "new")))
                store.maintain(now)
            with pytest.raises(StoreUnavailable):
                store.save_checkpoints({"a": b"1"})
            assert times(store) == list(range(60))
            assert times(store, "new") == list(range(50, 60))
            assert store.size().unwritten_ticks == 10
            reported = store.problem
        fill(store, 1, start=START + 60)
        assert reported
        assert store.problem == ""
        assert store.size().unwritten_ticks == 0
        shutil.copytree(tmp_path, tmp_path / "copy")
    with Tsdb.open(tmp_path / "copy" / "t.db", SMALL) as store:  # as kill -9 would have left it
        assert times(store) == list(range(61))
        assert times(store, "new") == list(range(50, 60))


def test_long_outage_is_bounded(tmp_path: Path) -> None:
    """After too long an outage the oldest ticks in memory go; those that were written before it are all kept."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        fill(store, 50, maintain=False)
        with full_disk(store):
            for number in range(50, 250):
                with contextlib.suppress(StoreUnavailable):
                    store.append(START + number, samples(START + number))
            assert store.size().head_ticks <= 100
            assert times(store)[-100:] == list(range(250 - store.size().head_ticks, 250))
        now = fill(store, 5, start=START + 250)
        finish(store, now)
        result = times(store)
        assert result[:50] == list(range(50))
        assert result[50:] == list(range(int(result[50]), 255))
        assert result[50] <= 160
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        assert times(store) == result


def test_pods_that_left_in_an_outage_are_forgotten(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store, read_only(store):
        for number in range(550):
            names = tuple(f"pod-{number}-{index}" for index in range(3))
            with contextlib.suppress(StoreUnavailable):
                store.append(START + number, samples(START + number, entities=names))
        assert store.size().series <= 1000 + 356 * 6 < 550 * 6


def test_full_disk_at_start(tmp_path: Path) -> None:
    """A database that cannot be created on a full disk is one log line, and a store in memory replaces it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(StoreUnavailable, match=r"cannot write .*t\.db"):
            Tsdb.open(tmp_path / "t.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with Tsdb.in_memory(SMALL) as store:
        now = fill(store, 300)
        finish(store, now)
        store.save_checkpoints({"a": b"1"})
        store.checkpoint()
        assert times(store) == list(range(300))
        assert store.size().head_ticks < 60
        assert store.load_checkpoints() == {"a": b"1"}
        assert store.size().file_bytes == 0
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        assert times(store) == []


def test_deleted_file_is_made_again(tmp_path: Path) -> None:
    """A database deleted under a running agent is recreated from memory once that is noticed."""
    folder = tmp_path / "data"
    with Tsdb.open(folder / "t.db", SMALL) as store:
        fill(store, 30)
        shutil.rmtree(folder)
        with contextlib.suppress(StoreUnavailable):
            store.checkpoint()
        for number in range(30, 60):
            with contextlib.suppress(StoreUnavailable):
                store.append(START + number, samples(START + number))
        assert store.problem == ""
        assert times(store) == list(range(60))
    with Tsdb.open(folder / "t.db", SMALL) as store:
        assert times(store) == list(range(60))


def test_reader_cannot_grow_the_log(tmp_path: Path) -> None:
    """A reader that takes too long makes the log no longer than its bound; samples wait, and are written then."""
    settings = StoreSettings(max_bytes=4 << 20)
    chance = np.random.default_rng(1)
    with Tsdb.open(tmp_path / "t.db", settings) as store:
        fill(store, 1)
        with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM head").fetchall()
            for number in range(1, 150):
                now, noise = START + number, chance.integers(0, 1 << 40, 300)
                tick = [Sample(MEMORY, f"p{index}", now, float(noise[index])) for index in range(300)]
                with contextlib.suppress(StoreUnavailable):
                    store.append(now, tick)
            assert "another program reads the database for too long" in store.problem
            assert store.size().file_bytes <= settings.max_bytes
        for number in range(150, 160):
            store.append(START + number, tick)
        assert len(store.window(MEMORY, "p7", START, START + 500)) == 159
        assert store.size().unwritten_ticks == 0


@pytest.fixture
def database_file(tmp_path: Path) -> Iterator[Path]:
    """A small volume of its own; needs the right to mount."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting needs root")
    folder = tmp_path / "volume"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("this container may not mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_real_volume_fills_up(database_file: Path) -> None:
    """On a volume that another program fills samples wait in memory; when space is free they are written."""
    with Tsdb.open(database_file / "t.db", SMALL) as store:
        fill(store, 50)
        hog = database_file / "hog"
        with hog.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            for _ in range(1000):
                file.write(bytes(4096))
        for number in range(50, 90):
            with contextlib.suppress(StoreUnavailable):
                store.append(START + number, samples(START + number))
        assert "full" in store.problem
        assert times(store) == list(range(90))
        hog.unlink()
        fill(store, 10, start=START + 90)
        assert store.problem == ""
    with Tsdb.open(database_file / "t.db", SMALL) as store:
        assert times(store) == list(range(100))


def test_read_only_volume_is_one_line_that_names_the_file(database_file: Path) -> None:
    with Tsdb.open(database_file / "t.db", SMALL) as store:
        fill(store, 5)
    subprocess.run(["mount", "-o", "remount,ro", str(database_file)], check=True)
    with pytest.raises(StoreUnavailable, match=r"cannot write .*Read-only file system"):
        Tsdb.open(database_file / "t.db", SMALL)
    subprocess.run(["mount", "-o", "remount,rw", str(database_file)], check=True)
    with Tsdb.open(database_file / "t.db", SMALL) as store:
        assert times(store) == list(range(5))

"""After a power failure acknowledged data is there, whichever unflushed pages the disk has written."""

import random
from pathlib import Path

import numpy as np
import pytest

from agent.samples import CPU, Sample
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from agent.tsdb.verification import verify
from tests.agent.tsdb.power import Disk, unreliable_disk
from tests.agent.tsdb.ticks import START

SETTINGS = StoreSettings(block_ticks=12, memory_ticks=40, raw_seconds=10**6)
TICKS, FLUSH_EVERY, FAIL_EVERY = 300, 7, 5


def _tick(number: int) -> list[Sample]:
    now = START + number
    return [Sample(CPU, "node", now, number / 1000), Sample(CPU, f"pod-{number // 20}", now, 0.5)]


def _left(folder: Path) -> tuple[int, int]:
    """The last tick and the checkpoint of a database that must be sound and without a hole."""
    with Tsdb.open(folder / "t.db", SETTINGS) as store:
        assert store.size().set_aside == 0, "the file had to be set aside"
        result = store.window(CPU, "node", START - 1, START + TICKS)
        learned = int(store.load_checkpoints().get("learned", b"-1"))
    numbers = np.rint(result.times - START).astype(int).tolist()
    assert numbers == list(range(len(numbers)))
    assert np.rint(result.values * 1000).astype(int).tolist() == numbers
    with DatabaseReader.open(folder / "t.db") as database:
        verdict = verify(database)
        assert verdict.is_sound, verdict.findings
    return len(numbers) - 1, learned


@pytest.mark.parametrize("seed", range(3))
def test_power_loss_costs_only_unflushed_data(tmp_path: Path, seed: int) -> None:
    """Ticks and learned things from before the last flush are there after any failure; the rest has no hole."""
    chance, home, failures = random.Random(seed), tmp_path / "home", 0  # noqa: S311 - no secret
    home.mkdir()
    with unreliable_disk(home) as disk, Tsdb.open(home / "t.db", SETTINGS) as store:
        safe, learned = (-1, -1), -1
        for number in range(TICKS):
            store.append(START + number, _tick(number))
            store.maintain(START + number, seconds=0.01)
            if number % 4 == 0:
                store.save_checkpoints({"learned": b"%d" % number})
                learned = number
            if number % FLUSH_EVERY == 0:
                store.checkpoint()
                safe = number, learned
            if number % FAIL_EVERY == 0:
                failures += 1
                _fail(disk, tmp_path / f"left-{number}", chance, safe)
        assert disk.flushes >= TICKS // FLUSH_EVERY
    assert failures == TICKS // FAIL_EVERY


def _fail(disk: Disk, folder: Path, chance: random.Random, safe: tuple[int, int]) -> None:
    folder.mkdir()
    disk.fail(folder, chance, chance.choice((0.0, 0.5, 1.0)))
    last, learned = _left(folder)
    assert last >= safe[0]
    assert learned >= safe[1]


@pytest.mark.parametrize(("share", "left"), [(0.0, 0), (1.0, 2)])
def test_disk_forgets(tmp_path: Path, share: float, left: int) -> None:
    """The disk of these tests forgets: no tick waits for it, so until the next flush each of them may be gone."""
    home, folder = tmp_path / "home", tmp_path / "left"
    home.mkdir()
    folder.mkdir()
    with unreliable_disk(home) as disk, Tsdb.open(home / "t.db", SETTINGS) as store:
        flushed = disk.flushes
        store.append(START, _tick(0))
        store.append(START + 1, _tick(1))
        assert disk.flushes - flushed <= 1, "the head of a new log, and nothing else"
        disk.fail(folder, random.Random(1), share)  # noqa: S311 - no secret
    with Tsdb.open(folder / "t.db", SETTINGS) as store:
        assert len(store.window(CPU, "node", 0, START + 9)) == left

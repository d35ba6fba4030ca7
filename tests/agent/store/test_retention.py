"""The database stays small: old data goes, then the oldest."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from agent.samples import CPU, MEMORY, Sample
from agent.store.compaction import DAY_MS, MERGE_BLOCKS
from agent.store.schema import StoreError
from agent.store.settings import StoreSettings
from agent.store.tsdb import Tsdb
from tests.agent.store.ticks import START, fill, finish

SMALL = StoreSettings(block_ticks=60, raw_seconds=900)


def test_old_samples_go(tmp_path: Path) -> None:
    """Raw samples live as long as configured; their minutes stay."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        now = fill(store, 3000)
        finish(store, now + 601)
        first = store.window(CPU, "a", 0, now).times[0]
        edge = now + 601 - 900
        assert edge - 300 <= first <= edge + 1
        assert store.minutes(CPU, START, now)["a"].starts_ms[0] == START * 1000


def test_small_blocks_are_merged(tmp_path: Path) -> None:
    """Many small blocks of minutes become one, and read the same."""
    with Tsdb.open(tmp_path / "t.db", StoreSettings(block_ticks=60, raw_seconds=10**6)) as store:
        now = fill(store, 60 * (MERGE_BLOCKS + 2) * 2, step=5.0, maintain=False)
        before = store.minutes(CPU, START, now)["a"]
        finish(store, now)
        levels = {row[0] for row in store._connection.execute("SELECT level FROM blocks WHERE tier = 1")}
        assert 1 in levels
        after = store.minutes(CPU, START, now)["a"]
        assert np.array_equal(before.starts_ms, after.starts_ms)
        assert np.array_equal(before.count, after.count)
        assert after.average == pytest.approx(before.average, abs=1e-4)
        assert np.array_equal(before.highest, after.highest)


def test_policy_may_ask_for_more(tmp_path: Path) -> None:
    """Minutes are kept for max(8, windowDays + 1) days."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        fill(store, 200)
        finish(store, START + 200)
        store.keep_minutes(14)
        finish(store, START + 14 * 86400)
        assert len(store.minutes(CPU, START, START + 99)["a"])
        store.keep_minutes(3)
        finish(store, START + 9 * 86400)
        assert not len(store.minutes(CPU, START, START + 59).get("a", ()))


def test_departed_series_are_forgotten(tmp_path: Path) -> None:
    """A pod of which nothing is left is no longer known; one that is there keeps its number."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        store.append(START, [Sample(CPU, "departed", START, 1.0)])
        later = START + 40 * 86400
        now = fill(store, 300, start=later)
        finish(store, now + 601)
        assert store.daily_maxima(CPU, "departed") == {}
        names = {row[0] for row in store._connection.execute("SELECT entity FROM series")}
        assert names == {"node", "a"}
        assert len(store.window(CPU, "a", later - 1, now)) == 300
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        assert len(store.window(CPU, "a", later - 1, now)) == 300


def test_size_is_bounded(tmp_path: Path) -> None:
    """When the file is full the oldest samples go, and new ones are still kept."""
    settings = StoreSettings(block_ticks=60, raw_seconds=10**7, max_bytes=4 << 20)
    chance = np.random.default_rng(1)
    with Tsdb.open(tmp_path / "t.db", settings) as store:
        now = START
        for number in range(900):
            now = START + number
            noise = chance.integers(0, 1 << 40, 500)
            store.append(now, [Sample(MEMORY, f"p{one}", now, float(noise[one])) for one in range(500)])
            store.maintain(now, steps=1000)
            if number % 100 == 0:
                store.checkpoint()
        assert store.size().used_bytes <= 4 << 20
        assert len(store.window(MEMORY, "p7", now - 10, now)) == 10
        oldest = store.window(MEMORY, "p7", 0, now).times[0]
        assert oldest > START + 60


def test_future_data_is_dropped(tmp_path: Path) -> None:
    """What a wrong clock dated far ahead does not stay for ever."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        fill(store, 300, start=START + 400 * 86400)
        finish(store, START)
        now = fill(store, 300)
        finish(store, now + 601)
        ahead = store._connection.execute("SELECT count(*) FROM blocks WHERE end_ms > ?", (START * 1000 + 2 * DAY_MS,))
        assert ahead.fetchone()[0] == 0


@pytest.mark.parametrize("wrong", [0.0, START - 400 * 86400, START + 400 * 86400])
def test_wrong_clock_forgets_nothing(tmp_path: Path, wrong: float) -> None:
    """A machine that starts with a wrong clock, set after some minutes, loses no history."""
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        now = fill(store, 300)
        finish(store, now)
        before = store.minutes(CPU, START, now)["a"]
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        fill(store, 300, start=wrong)
        fill(store, 30, start=now + 400)
        assert np.array_equal(store.minutes(CPU, START, now)["a"].starts_ms, before.starts_ms)
        assert store.daily_maxima(CPU, "a")


def test_full_disk_keeps_memory(tmp_path: Path) -> None:
    """A tick that cannot be written is still there for windows."""
    with Tsdb.open(tmp_path / "t.db") as store:
        fill(store, 3)
        real = store._connection

        class Full:
            """A connection whose disk is full (fake)."""

            def execute(self, statement: str, values: tuple[bytes, ...] = ()) -> sqlite3.Cursor:
                """Refuse to write."""
                if statement.startswith("INSERT"):
                    raise sqlite3.OperationalError("database or disk is full")
                return real.execute(statement, values)

        store._connection = Full()  # type: ignore[assignment]
        try:
            with pytest.raises(StoreError, match="full"):
                store.append(START + 3, [Sample(CPU, "a", START + 3, 1.0)])
        finally:
            store._connection = real
        assert store.window(CPU, "a", START + 2, START + 3).values.tolist() == [1.0]


@pytest.mark.parametrize("settings", [{"raw_seconds": 0}, {"max_bytes": 1}, {"block_ticks": -1}])
def test_bad_settings_are_named(settings: dict[str, int]) -> None:
    """A setting that cannot be is refused by name."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        StoreSettings(**settings)

from pathlib import Path

import numpy as np
import pytest

from agent.samples import CPU, MEMORY, Sample
from agent.tsdb.compaction import MERGE_BLOCKS
from agent.tsdb.retention import DAY_MS, trusted_now
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, connection, fill, finish

SMALL = StoreSettings(block_ticks=60, raw_seconds=900)
COARSE = StoreSettings(block_ticks=6, raw_seconds=3600, minute_days=2)
"""For ticks of ten minutes: a block is an hour, and 36 of them are merged."""
STEP, DAY = 600.0, 86400.0
DAY_TICKS = 144
MERGED = MERGE_BLOCKS * 3600 + 7200


def test_raw_samples_go_after_their_time_and_minutes_stay(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        now = fill(store, 2000)
        finish(store, now + 601)
        first = store.window(CPU, "a", 0, now).times[0]
        flushed = now - store.size().head_ticks
        assert flushed - 900 - 300 <= first <= flushed - 900 + 60
        assert store.minutes(CPU, START, now)["a"].starts_ms[0] == START * 1000


def test_merged_blocks_read_the_same(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", StoreSettings(block_ticks=10, raw_seconds=10**6, memory_ticks=10**5)) as store:
        now = fill(store, 10 * (MERGE_BLOCKS + 2) * 2, step=30.0, maintain=False)
        before = store.minutes(CPU, START, now)["a"]
        finish(store, now)
        levels = {row[0] for row in connection(store).execute("SELECT level FROM blocks WHERE tier = 1")}
        assert 1 in levels
        after = store.minutes(CPU, START, now)["a"]
        assert np.array_equal(before.starts_ms, after.starts_ms)
        assert np.array_equal(before.count, after.count)
        assert after.average == pytest.approx(before.average, abs=1e-4)
        assert np.array_equal(before.highest, after.highest)


def test_minutes_go_after_their_days_which_a_policy_may_raise(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        store.set_minute_retention(3)
        now = fill(store, 7 * DAY_TICKS, step=STEP)
        finish(store, now)
        first = store.minutes(CPU, START, now)["a"].starts_ms[0] / 1000
        assert now - 4 * DAY - MERGED <= first <= now - 4 * DAY
        store.set_minute_retention(1)
        finish(store, now + 3601)
        first = store.minutes(CPU, START, now)["a"].starts_ms[0] / 1000
        assert now - 2 * DAY - MERGED <= first <= now - 2 * DAY


def test_series_without_samples_is_forgotten_and_others_keep_their_number(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        store.append(START - 60, [Sample(CPU, "departed", START - 60, 1.0)])
        now = fill(store, 6 * DAY_TICKS, step=STEP)
        finish(store, now)
        names = {row[0] for row in connection(store).execute("SELECT entity FROM series")}
        assert names == {"node", "a"}
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        assert len(store.window(CPU, "a", now - 1800, now)) == 3


def test_full_file_with_its_log_drops_the_oldest_samples_and_keeps_new_ones(tmp_path: Path) -> None:
    settings = StoreSettings(block_ticks=60, raw_seconds=10**7, max_bytes=4 << 20)
    chance = np.random.default_rng(1)
    with Tsdb.open(tmp_path / "t.db", settings) as store:
        store.save_checkpoints({"large": chance.bytes(2 << 20)})
        most, now = 0, START
        for number in range(400):
            now = START + number
            noise = chance.integers(0, 1 << 50, 200)
            store.append(now, [Sample(MEMORY, f"p{index}", now, float(noise[index])) for index in range(200)])
            store.maintain(now, seconds=0.01)
            most = max(most, store.size().file_bytes)
        finish(store, now)
        assert most <= 4 << 20
        assert store.size().dropped_blocks
        assert len(store.window(MEMORY, "p7", now - 10, now)) == 10
        assert store.window(MEMORY, "p7", 0, now).times[0] > START + 60
        assert len(store.load_checkpoints()["large"]) == 2 << 20


@pytest.mark.long
def test_full_store_drops_the_oldest_minutes_and_keeps_samples_of_windows(tmp_path: Path) -> None:
    settings = StoreSettings(block_ticks=20, max_bytes=4 << 20)
    chance = np.random.default_rng(1)
    with Tsdb.open(tmp_path / "t.db", settings) as store:
        store.save_checkpoints({"large": chance.bytes(9 << 18)})
        now = START
        for number in range(3000):
            now = START + number * 20
            amounts = chance.integers(0, 1 << 50, 40)
            store.append(now, [Sample(MEMORY, f"p{index}", now, float(amounts[index])) for index in range(40)])
            store.maintain(now, seconds=0.1)
        assert store.size().dropped_blocks
        assert len(store.window(MEMORY, "p7", now - 1800, now)) == 90
        minutes = store.minutes(MEMORY, 0, now)["p7"]
        assert now - 3600 > minutes.starts_ms[0] / 1000 > START + 3600


@pytest.mark.parametrize("wrong", [0.0, START - 400 * DAY, START + 400 * DAY])
def test_clock_wrong_by_years_loses_no_history(tmp_path: Path, wrong: float) -> None:
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        now = fill(store, 100, step=STEP)
        finish(store, now)
        before = store.minutes(CPU, START, now)["a"]
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        finish(store, fill(store, 30, start=wrong, step=STEP))
        now = fill(store, 30, start=now + 400)
        finish(store, now)
        assert np.array_equal(
            store.minutes(CPU, START, before.starts_ms[-1] / 1000 + 1)["a"].starts_ms, before.starts_ms
        )


def test_samples_dated_far_ahead_do_not_stay_for_ever(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        finish(store, fill(store, 30, start=START + 400 * DAY, step=STEP))
        finish(store, fill(store, 3 * DAY_TICKS, step=STEP))
        ahead = connection(store).execute("SELECT count(*) FROM blocks WHERE end_ms > ?", (START * 1000 + 10 * DAY_MS,))
        assert ahead.fetchone()[0] == 0


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], None),  # nothing recorded
        ([(4.0, 4.4), (4.5, 4.9)], None),  # less than a day behind the clock
        ([(4.0, 5.0), (5.0, 6.0), (6.0, 6.5)], 6.5),  # steady for days
        ([(4.0, 5.0), (8.0, 8.5)], 5.5),  # back after three days away
        ([(4.0, 5.0), (400.0, 400.5)], 5.5),  # a leap that a day of recording does not back yet
        ([(4.0, 5.0), (400.0, 401.0), (401.0, 401.2)], 401.2),  # one that it does
    ],
)
def test_clock_needs_a_day(blocks: list[tuple[float, float]], expected: float | None) -> None:
    """A clock ages data only as far as a day of recording confirms it."""
    starts, ends = np.array(blocks, dtype=float).reshape(-1, 2).T
    lengths = ends - starts
    since = np.cumsum(lengths[::-1])[::-1] - lengths
    table = [np.rint(entry * DAY_MS).astype(np.int64) for entry in (starts, ends, since)]
    result = trusted_now(int(ends.max(initial=9.0) * DAY_MS), *table)
    assert result == pytest.approx(-(1 << 62) if expected is None else expected * DAY_MS)


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="memory_ticks"):
        StoreSettings(memory_ticks=100)

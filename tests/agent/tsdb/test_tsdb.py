from pathlib import Path

import numpy as np
import pytest

from agent.samples import CPU, MEMORY, Sample
from agent.tsdb.schema import StoreError
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, fill, finish, samples

SMALL = StoreSettings(block_ticks=60)


def test_window_is_half_open(tmp_path: Path) -> None:
    """A window has the samples after its start up to its end, so that neighbours share none."""
    with Tsdb.open(tmp_path / "t.db") as store:
        fill(store, 10)
        window = store.window(CPU, "a", START + 2, START + 5)
        assert window.times.tolist() == [START + 3, START + 4, START + 5]
        assert window.values.tolist() == [0.003, 0.004, 0.005]


def test_windows_are_by_entity(tmp_path: Path) -> None:
    """A metric's windows name every entity that has samples in them, and no other."""
    with Tsdb.open(tmp_path / "t.db") as store:
        store.append(START, samples(START, entities=("gone",)))
        store.append(START + 1, samples(START + 1, entities=("a", "b")))
        assert set(store.windows(CPU, START, START + 1)) == {"a", "b"}
        assert len(store.window(CPU, "absent", 0, START + 9)) == 0
        assert store.windows("nothing", 0, START + 9) == {}


def test_samples_read_the_same_before_and_after_compression_and_over_the_seam(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        fill(store, 119, maintain=False)
        before = store.window(CPU, "a", START + 10, START + 200)
        now = fill(store, 400, start=START + 119, maintain=False)
        finish(store, now)
        assert store.size().head_ticks < 200
        after = store.window(CPU, "a", START + 10, START + 118)
        assert np.array_equal(before.times, after.times)
        assert np.array_equal(before.values, after.values)
        whole = store.window(CPU, "a", START - 1, now)
        assert len(whole) == 519
        assert np.all(np.diff(whole.times) == 1)


def test_tick_without_a_series_is_a_gap_in_blocks_too(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        for number in range(200):
            now = START + number
            entities = ("node", "a") if number % 3 else ("node",)
            store.append(now, samples(now, entities=entities))
        finish(store, START + 200)
        times = store.window(CPU, "a", START - 1, START + 200).times - START
        assert times.tolist() == [number for number in range(200) if number % 3]


def test_restart_keeps_samples_blocks_and_checkpoints(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        now = fill(store, 500)
        store.save_checkpoints({"a": b"1", "b": b"2"}, now)
        before = store.window(MEMORY, "node", 0, now)
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        after = store.window(MEMORY, "node", 0, now)
        assert np.array_equal(before.values, after.values)
        assert len(after) == 500
        assert store.load_checkpoints() == {"a": b"1", "b": b"2"}
        store.save_checkpoints({"b": b"3"})
        assert store.load_checkpoints() == {"b": b"3"}
        fill(store, 100, start=now + 1)
        assert len(store.window(CPU, "a", 0, now + 200)) == 600


def test_tick_with_a_value_that_is_no_number_is_refused_whole(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db") as store:
        with pytest.raises(ValueError, match="finite"):
            store.append(START, [Sample(CPU, "a", START, 1.0), Sample(CPU, "b", START, float("nan"))])
        store.append(START + 1, samples(START + 1))
        assert len(store.window(CPU, "a", 0, START + 1)) == 1


def test_minutes_and_averages_agree_with_samples_sealed_or_not(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        now = fill(store, 900, maintain=False)
        unsealed = store.averages(CPU, START, now + 1)["a"]
        finish(store, now)
        minutes = store.minutes(CPU, START, now + 1)["a"]
        assert minutes.count.tolist() == [60] * 15
        assert minutes.highest[0] == 0.059
        assert minutes.average[0] == pytest.approx(np.mean(np.arange(60)) / 1000, abs=1e-4)
        fives = store.averages(CPU, START, now + 1)["a"]
        assert fives.times.tolist() == [START, START + 300, START + 600]
        assert fives.values == pytest.approx(unsealed.values, abs=1e-4)
        assert fives.values[2] == pytest.approx(np.mean(np.arange(600, 900)) / 1000, abs=1e-4)


def test_second_agent_on_the_same_file_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db"), pytest.raises(StoreError, match="in use by another agent"):
        Tsdb.open(tmp_path / "t.db")
    Tsdb.open(tmp_path / "t.db").close()


def test_unwritable_folder_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write the data directory .*--data-dir"):
        Tsdb.open(tmp_path / "file" / "t.db")


def test_checkpoint_moves_the_log_into_the_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.db", tmp_path / "copy" / "t.db"
    with Tsdb.open(path) as store:
        fill(store, 50)
        store.checkpoint()
        copy.parent.mkdir()
        copy.write_bytes(path.read_bytes())
    with Tsdb.open(copy) as store:
        assert len(store.window(CPU, "a", 0, START + 99)) == 50


def test_series_of_containers_and_pods_are_apart(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        for number in range(200):
            now = START + number
            store.append(now, [Sample(CPU, "a", now, 0.5), Sample(CPU, "a", now, 0.25, container="web")])
        finish(store, now)
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        assert set(store.window(CPU, "a", 0, now, container="web").values) == {0.25}
        assert set(store.windows(CPU, 0, now)["a"].values) == {0.5}
        assert not len(store.window(CPU, "a", 0, now, container="none"))

import tracemalloc
from pathlib import Path

import pytest

from agent.samples import CPU, Sample
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, connection

SETTINGS = StoreSettings(block_ticks=10, memory_ticks=30)
STEP = 60.0
AT_A_TIME, TICKS, RECENT = 10, 1000, 10 + 60
DEPARTED = AT_A_TIME * (TICKS - RECENT)
"""Pods that have surely left the recent ticks: a page of them, and uncompressed ones."""
KIB = 1 << 10


def _churn(store: Tsdb, ticks: int = TICKS) -> float:
    """Every tick has the node, one pod that stays, and ten that are never seen again."""
    now = START
    for number in range(ticks):
        now = START + number * STEP
        short = [Sample(CPU, f"short-{number:05d}-{index:02d}", now, 0.25) for index in range(AT_A_TIME)]
        store.append(now, [Sample(CPU, "node", now, 6.0), Sample(CPU, "steady", now, 1.0), *short])
        store.maintain(now, seconds=1.0)
    return now


@pytest.mark.long
def test_open_store_holds_recent_series_alone_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with Tsdb.open(path, SETTINGS) as store:
        _churn(store)
        assert store.size().series > DEPARTED
        assert len(store.recent.catalog) <= 2 + AT_A_TIME * RECENT
    tracemalloc.start()
    with Tsdb.open(path, SETTINGS):
        held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < DEPARTED * 75, f"{held / KIB:.0f} KiB for {DEPARTED} departed pods"


@pytest.mark.long
def test_samples_of_departed_pods_stay_in_the_file(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SETTINGS) as store:
        now = _churn(store)
        gone = "short-00900-07"
        assert store.window(CPU, gone, START, now).values.tolist() == [0.25]
        assert store.minutes(CPU, START, now)[gone].average.tolist() == [0.25]
        minutes = store.minutes(CPU, START, now)
        assert len(minutes) == 2 + AT_A_TIME * (TICKS - 1)
        assert len(minutes["steady"]) == TICKS - 1
        assert len(store.windows(CPU, START + 899 * STEP, START + 909 * STEP)) == 2 + 10 * AT_A_TIME


def test_series_may_come_back(tmp_path: Path) -> None:
    """A pod that was away for longer than the recent ticks reach is one series in every query."""
    with Tsdb.open(tmp_path / "t.db", SETTINGS) as store:
        store.append(START - STEP, [Sample(CPU, "back", START - STEP, 1.0)])
        now = _churn(store, 100)
        for number in range(1, 80):
            when = now + number * STEP
            store.append(when, [Sample(CPU, "back", when, 2.0), Sample(CPU, "node", when, 6.0)])
            store.maintain(when, seconds=1.0)
        result = store.window(CPU, "back", START - 2 * STEP, when)
        assert result.values.tolist() == [1.0, *[2.0] * 79]
        assert len(store.minutes(CPU, START - 2 * STEP, when + STEP)["back"]) == 80
    with Tsdb.open(tmp_path / "t.db", SETTINGS) as store:
        assert store.window(CPU, "back", START - 2 * STEP, when).values.tolist() == [1.0, *[2.0] * 79]


def test_unused_layouts_leave_the_file(tmp_path: Path) -> None:
    """Which series ticks had is forgotten with these ticks, though the very first set of series goes on."""
    with Tsdb.open(tmp_path / "t.db", SETTINGS) as store:
        for number in range(400):
            names = ("node", f"short-{number}") if number % 4 == 0 else ("node",)
            store.append(START + number, [Sample(CPU, name, START + number, 1.0) for name in names])
            store.maintain(START + number, seconds=1.0)
        assert connection(store).execute("SELECT count(*) FROM layouts").fetchone()[0] < 20

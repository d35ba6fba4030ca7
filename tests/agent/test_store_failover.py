"""An agent without its disk: memory replaces it, and the database takes over once it opens."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path

import pytest

from agent.samples import CPU, NODE
from agent.settings import TrainSettings
from agent.store_failover import RETRY_SECONDS, Opener, StoreFailover, in_background
from agent.tsdb import checkpoints
from agent.tsdb.schema import StoreError, StoreNewer
from agent.tsdb.tsdb import Tsdb
from tests.agent.made_pipeline import START, Steady, made_pipeline


class Disk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.away = True
        self.opened = 0

    def open(self) -> Tsdb:
        if self.away:
            raise StoreError("cannot write t.db: No space left on device")
        self.opened += 1
        return Tsdb.open(self.path)


class Agent:
    def __init__(self, disk: Disk) -> None:
        self.now = START
        self.failover = StoreFailover(disk.open, remembered=lambda: checkpoints.load_read_only(disk.path))
        self.failover.clock = lambda: self.now
        self.failover.background = _at_once
        settings = TrainSettings(interval_seconds=5.0)
        self.pipeline = made_pipeline(self.failover, {"steady": Steady()}, settings=settings, clock=lambda: self.now)

    def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.pipeline.run_once(self.now)
            self.now += 1.0

    def learned(self) -> float:
        return float(self.pipeline.training.trainer.histories[CPU].moments.counts[0])


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "t.db")


def _at_once(work: Opener) -> Future[Tsdb]:
    result: Future[Tsdb] = Future()
    try:
        result.set_result(work())
    except StoreError as error:
        result.set_exception(error)
    return result


def _stored(path: Path) -> list[float]:
    with Tsdb.open(path) as store:
        return [float(time) for time in store.window(CPU, NODE, START - 1, START + 1e6).times]


def test_starts_without_disk(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(disk)
    agent.tick(30)
    assert len(agent.pipeline.store.window(CPU, NODE, START - 1, agent.now)) == 30
    assert agent.learned() >= 5
    assert "No space left" in agent.pipeline.failing["database"]
    assert caplog.text.count("cannot write t.db: No space left on device. Samples stay in memory") == 1
    assert agent.pipeline.store_failing_since == START
    assert agent.pipeline.node_measured_at == agent.now - 1
    agent.pipeline.close(agent.now)
    assert not disk.path.exists()


def test_disk_that_is_back_has_all_samples_and_nothing_is_learned_twice(disk: Disk) -> None:
    agent = Agent(disk)
    agent.tick(300)
    learned = agent.learned()
    disk.away = False
    agent.tick(round(RETRY_SECONDS) + 5)
    assert agent.pipeline.failing == {}
    assert agent.pipeline.store_failing_since is None
    assert agent.pipeline.store.path == disk.path
    assert learned < agent.learned() <= learned + 4
    agent.tick(10)
    agent.pipeline.close(agent.now)
    assert disk.opened == 1
    assert _stored(disk.path) == [START + number for number in range(300 + round(RETRY_SECONDS) + 15)]


def test_absent_disk_is_retried_every_ten_seconds(disk: Disk) -> None:
    agent = Agent(disk)
    attempts = []

    def count(work: Opener) -> Future[Tsdb]:
        attempts.append(agent.now - START)
        return _at_once(work)

    agent.failover.background = count
    agent.tick(35)
    assert len(attempts) == 3
    assert all(later - earlier >= RETRY_SECONDS for earlier, later in pairwise(attempts))


def test_history_on_disk_wins(disk: Disk, tmp_path: Path) -> None:
    """A database that could not even be read has weeks that this run knows nothing of: they are taken up again."""
    disk.away = False
    before = Agent(disk)
    before.tick(100)
    before.pipeline.close(before.now)
    learned, disk.away = before.learned(), True
    hidden = disk.path.rename(tmp_path / "hidden.db")
    agent = Agent(disk)
    agent.now = before.now
    agent.tick(20)
    assert agent.learned() < learned
    hidden.rename(disk.path)
    disk.away = False
    agent.tick(30)
    assert agent.learned() >= learned + 5
    agent.pipeline.close(agent.now)


def test_readable_history_is_used(disk: Disk) -> None:
    """A readable database that cannot be written is no cold start; no data is lost once it is writable."""
    disk.away = False
    before = Agent(disk)
    before.tick(100)
    before.pipeline.close(before.now)
    learned, disk.away = before.learned(), True
    agent = Agent(disk)
    agent.now = before.now
    assert agent.learned() == learned
    agent.tick(20)
    further = agent.learned()
    assert further > learned
    disk.away = False
    agent.tick(30)
    assert agent.learned() > further
    assert agent.pipeline.failing == {}
    agent.pipeline.close(agent.now)


def test_newer_database_is_refused(disk: Disk) -> None:
    def newer() -> Tsdb:
        raise StoreNewer("t.db was written by a newer Headroom")

    disk.open = newer  # type: ignore[method-assign] # the error's text matters
    with pytest.raises(StoreNewer):
        Agent(disk)


def test_database_takes_over_although_the_clock_was_set_back(disk: Disk) -> None:
    agent = Agent(disk)
    agent.tick(20)
    wall = agent.now - 3600.0
    disk.away = False
    for number in range(20):
        agent.pipeline.run_once(wall + number)
        agent.now += 1.0
    assert agent.pipeline.store.path == disk.path
    agent.pipeline.close(wall + 20)


def test_opening_is_off_the_tick() -> None:
    """A disk that does not answer holds up a thread, not the tick; its errors are reported here."""
    requested, go = threading.Event(), threading.Event()

    def hang() -> Tsdb:
        requested.set()
        go.wait()
        raise ZeroDivisionError

    opening = in_background(hang)
    requested.wait()
    assert not opening.done()
    go.set()
    with pytest.raises(StoreError, match="ZeroDivisionError"):
        opening.result(timeout=30)


Check = Callable[[Path], None]


@pytest.mark.parametrize(
    "prepare", [lambda _: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"no database")]
)
def test_missing_or_foreign_file_remembers_nothing(tmp_path: Path, prepare: Check) -> None:
    prepare(tmp_path / "t.db")
    assert checkpoints.load_read_only(tmp_path / "t.db") == {}

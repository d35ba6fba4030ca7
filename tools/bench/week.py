"""A simulated week of the agent with 110 pods: the real pipeline, store and publisher under a clock moved by hand.

The days have a tick every 15 seconds, the first hour and the last five one every second: the data held in memory
and kept raw is what a node has. A tenth of the pods is replaced every day, and 2,000 pods of jobs come and go a day. In
the first hour and the last twelve the publisher reports to a server of our own, which takes merge patches and counts
their bytes (of the last twelve). The disk is spared: the log is flushed every minute, the checkpoint is saved every
five.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.process import set_mmap_threshold
from agent.settings import TrainSettings
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tools.bench.costs import total
from tools.bench.reporting import Reporting
from tools.bench.rows import Row
from tools.bench.workload import PODS, Collected, Workload

DAY: Final = 86_400
SHORT_PODS_A_DAY: Final = 2000
START: Final = 1_735_689_600.0
COARSE_SECONDS: Final = 15
FLUSH_SECONDS, SAVE_SECONDS = 60, 300.0
UPKEEP_SECONDS: Final = 0.2
MIB: Final = 1 << 20


class SimulatedAgent:
    """An agent whose time is moved by hand.

    Args:
        database: Where it is kept; a new agent goes on with what another left there.
        settings: Bounds of the database.
        second: When it begins, since the start of the simulation. [s]
        workload: What runs then.
    """

    def __init__(
        self, database: Path, settings: StoreSettings | None = None, second: int = 0, workload: Workload | None = None
    ) -> None:
        self.workload, self.metrics, self.database = workload or Workload(), Metrics(), database
        self.pipeline = Pipeline(
            {"workload": Collected(self.workload, START)},
            self.workload,
            StoreFailover(lambda: Tsdb.open(database, settings)),
            lambda store: CheckpointedTrainer(store, TrainSettings(checkpoint_seconds=SAVE_SECONDS)),
            self.metrics,
        )
        self.reporting = Reporting(self.pipeline, self.workload, self.metrics)
        self._turn = asyncio.Runner()
        self._second = second

    def pass_until(self, second: int, *, reports: bool) -> None:
        """Make a tick, reports when they are due, and the work of each minute and day."""
        now = START + second
        if second // DAY > self._second // DAY:
            self.workload.replace_some(PODS // 10)
        self.workload.run_jobs(second, SHORT_PODS_A_DAY)
        self.pipeline.run_once(now)
        if second - self._second > 1:  # the upkeep of all the ticks that there would be in between
            self.pipeline.store.maintain(now, UPKEEP_SECONDS)
        if second // FLUSH_SECONDS > self._second // FLUSH_SECONDS:
            self.pipeline.store.checkpoint()
        if reports:
            self._turn.run(self.reporting.at(now))
        self._second = second

    def sizes(self) -> tuple[float, float]:
        """Return resident memory and the size of the database's file. [MiB]"""
        return psutil.Process().memory_info().rss / MIB, self.database.stat().st_size / MIB

    def close(self) -> str:
        """End it; return what failed at last."""
        self._turn.run(self.reporting.close())
        self._turn.close()
        failing = dict(self.pipeline.failing)
        self.pipeline.close(START + self._second)
        return ", ".join(f"{step}: {problem}" for step, problem in failing.items())


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Simulate the week; the memory of this process is counted, load generator included."""
    set_mmap_threshold()  # as the agent does
    end, settle, fine, reported = (4320, 60, 120, 600) if quick else (7 * DAY, 3600, 5 * 3600, 12 * 3600)
    ticks = [*range(settle), *range(settle, end - fine, COARSE_SECONDS), *range(end - fine, end + 1)]
    by_day: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        agent = SimulatedAgent(Path(folder) / "agent.db")
        for before, second in pairwise(ticks):
            if before < end - reported <= second:
                agent.reporting.begin()
            agent.pass_until(second, reports=second <= settle or second >= end - reported)
            if second % 3600 == 0:
                by_day[second // DAY], _ = agent.sizes()
        rss, _ = agent.sizes()
        samples, reports = total(agent.metrics.samples), list(agent.reporting.rows(reported))
        if failing := agent.close():
            raise RuntimeError(f"the week was not as it should be: {failing}")
        _, size = agent.sizes()
    what = f"after {end / DAY:g} simulated days, {PODS} pods, a tenth replaced, {SHORT_PODS_A_DAY:,} short pods a day"
    yield Row(f"database {what}", f"{size:.1f} MiB ({samples / 1e6:.1f} million samples)", "<= 256 MiB", value=size)
    days = ", ".join(f"{entry:.0f}" for entry in by_day.values())
    measured = f"{rss:.0f} MiB, this benchmark included (day by day: {days} MiB)"
    yield Row(f"RSS {what}", measured, "<= 90 MiB", value=rss)
    yield from reports

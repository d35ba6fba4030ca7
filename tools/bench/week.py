"""A simulated week of the agent with 110 pods: the real pipeline, store and publisher under a clock moved by hand.

The days have a tick every 15 seconds, the first hour and the last five one every second, so that what is held in memory
and kept raw is what a node has. A tenth of the pods is replaced every day. In the first hour and the last twelve the
publisher reports to a server of our own, which takes merge patches and counts their bytes (of the last twelve). The
disk is spared: the log is flushed every minute, what was learned is saved every five.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.settings import TrainSettings
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from tools.bench.costs import total
from tools.bench.reporting import Reporting
from tools.bench.rows import Row
from tools.bench.workload import PODS, Collected, Workload

DAY = 86_400
START = 1_735_689_600.0
FLUSH_SECONDS, SAVE_SECONDS = 60, 300.0
MIB, KIB = 1 << 20, 1 << 10


@dataclass(frozen=True, slots=True)
class Plan:
    """How long the simulation is, and how fine."""

    days: float = 7.0  # all of it
    fine_seconds: int = 5 * 3600  # the last part, with a tick every second [s]
    coarse_step: int = 15  # time between two ticks before that [s]
    settle_seconds: int = 3600  # the first part, with a tick every second and reports: what the memory grows from [s]
    report_seconds: int = 12 * 3600  # the last part, in which reports are made [s]

    def ticks(self) -> Iterator[int]:
        """Seconds since the start."""
        end = int(self.days * DAY)
        yield from range(1, self.settle_seconds)
        yield from range(self.settle_seconds, end - self.fine_seconds, self.coarse_step)
        yield from range(end - self.fine_seconds, end + 1)


FULL, QUICK = Plan(), Plan(days=0.05, fine_seconds=120, settle_seconds=60, report_seconds=600)


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Simulate the week; the memory of this process is counted."""
    plan = QUICK if quick else FULL
    workload, metrics = Workload(), Metrics()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "agent.db"
        course = _Course()
        pipeline = Pipeline(
            {"workload": Collected(workload, START)},
            workload,
            StoreFailover(lambda: Tsdb.open(database)),
            lambda store: CheckpointedTrainer(store, TrainSettings(checkpoint_seconds=SAVE_SECONDS)),
            metrics,
        )
        reporting = Reporting(pipeline, workload, metrics)
        begin, turn = int(plan.days * DAY) - plan.report_seconds, asyncio.Runner()
        for before, second in pairwise(plan.ticks()):
            if second // DAY > before // DAY:
                workload.replace_some(PODS // 10)
            pipeline.run_once(START + second)
            if second % FLUSH_SECONDS == 0:
                pipeline.store.checkpoint()
            if before < begin <= second:
                reporting.begin()
            if second <= plan.settle_seconds or second >= begin:
                turn.run(reporting.at(START + second))
            course.see(second)
        turn.run(reporting.close())
        turn.close()
        failing, samples = pipeline.failing, total(metrics.samples)
        pipeline.close(START + plan.days * DAY)
        size = database.stat().st_size
    if failing:
        raise RuntimeError(f"the week was not as it should be: {failing}")
    yield _size_row(plan, size, samples)
    yield course.row(plan)
    yield from reporting.rows(plan.report_seconds)


class _Course:
    """Resident memory, day by day."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._by_day: dict[int, int] = {}

    def see(self, second: int) -> None:
        """Look at each full hour; cheap at any other time."""
        if second % 3600 == 0:
            self._by_day[second // DAY] = self._process.memory_info().rss

    def row(self, plan: Plan) -> Row:
        """Growth from the end of the first day to the end."""
        found = [rss / MIB for rss in self._by_day.values()] or [self._process.memory_info().rss / MIB]
        days = ", ".join(f"{one:.0f}" for one in found)
        what = f"RSS over {plan.days:g} simulated days, {PODS} pods, a tenth replaced a day: growth after the first day"
        measured = f"{found[-1] - found[0]:+.1f} MiB (day by day: {days} MiB, this benchmark included)"
        return Row(what, measured)


def _size_row(plan: Plan, size: int, samples: float) -> Row:
    what = f"database after {plan.days:g} simulated days, {PODS} pods, a tenth replaced a day"
    measured = f"{size / MIB:.1f} MiB ({samples / 1e6:.1f} million samples)"
    return Row(what, measured, "<= 256 MiB", value=size / MIB)

"""A simulated week of the agent with 110 pods: the real pipeline, store and publisher under a clock moved by hand.

The days have a tick every 15 seconds, the first hour and the last five one every second, so that what is held in memory
and kept raw is what a node has. A tenth of the pods is replaced every day. In the first hour and the last twelve the
publisher reports to a server of our own, which takes merge patches and counts their bytes (of the last twelve). The
disk is spared: the log is flushed every minute, what was learned is saved every five.

`python -m tools.bench.week` runs it alone, in a process whose memory is nothing but this.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
from tools.bench.drawing import drawing, lines
from tools.bench.machine import ROOT
from tools.bench.measurement import Item, Measurement, Picture, total
from tools.bench.reporting import Reporting
from tools.bench.results import item, plain
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


def measure(*, quick: bool = False) -> Iterator[Item]:
    """Run the week in a process of its own."""
    command = [sys.executable, "-m", "tools.bench.week", *(["--quick"] if quick else [])]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        yield item(json.loads(line))


def simulate(plan: Plan) -> Iterator[Item]:
    """The week, here."""
    workload, metrics = Workload(), Metrics()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "agent.db"
        course = _Course(database)
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
    yield course.picture()


class _Course:
    """Resident memory and the size of the database, hour by hour.

    Args:
        database: its file.
    """

    def __init__(self, database: Path) -> None:
        self._process, self._database = psutil.Process(), database
        self._by_day: dict[int, int] = {}
        self._memory: list[tuple[float, float]] = []
        self._disk: list[tuple[float, float]] = []

    def see(self, second: int) -> None:
        """Look at each full hour; cheap at any other time."""
        if second % 3600 == 0:
            rss = self._process.memory_info().rss
            self._by_day[second // DAY] = rss
            self._memory.append((second / DAY, rss / MIB))
            self._disk.append((second / DAY, self._database.stat().st_size / MIB))

    def picture(self) -> Picture:
        """Both over time."""
        with drawing(columns=2) as (axes, finish):
            lines(axes[0], {"memory": self._memory}, "days", "resident memory, benchmark included [MiB]")
            lines(axes[1], {"database": self._disk}, "days", "database [MiB]")
            return finish("agent-week", "Memory and database of the agent over a simulated week")

    def row(self, plan: Plan) -> Measurement:
        """Growth from the end of the first day to the end."""
        found = [rss / MIB for rss in self._by_day.values()] or [self._process.memory_info().rss / MIB]
        days = ", ".join(f"{one:.0f}" for one in found)
        what = f"RSS over {plan.days:g} simulated days, {PODS} pods, a tenth replaced a day: growth after the first day"
        measured = f"{found[-1] - found[0]:+.1f} MiB (day by day: {days} MiB, this benchmark included)"
        return Measurement(what, measured, "none", "none")


def _size_row(plan: Plan, size: int, samples: float) -> Measurement:
    what = f"database after {plan.days:g} simulated days, {PODS} pods, a tenth replaced a day"
    measured = f"{size / MIB:.1f} MiB ({samples / 1e6:.1f} million samples)"
    return Measurement(what, measured, "<= 256 MiB", value=size / MIB)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows as JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.week", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an hour instead of a week")
    for row in simulate(QUICK if parser.parse_args(arguments).quick else FULL):
        print(json.dumps(plain(row)))


if __name__ == "__main__":
    main()

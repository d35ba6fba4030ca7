"""31 simulated days of an agent with 110 pods, a tenth of them replaced a day, beside 2,000 pods of jobs a day.

Memory and database stay flat, and memory within its budget.

Pipeline, store, learner and publisher are the real ones, under a clock moved by hand. The first simulated hours tell
how fast this machine is; from that follows how many seconds lie between two ticks, so that a month fits into the time.
What is kept for days fills the database and the memory at first; the verdict is about the days after that.
"""

import asyncio
import math
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import psutil

from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.prediction.policy import in_force
from agent.process import set_mmap_threshold
from agent.settings import TrainSettings
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tools.bench.reporting import Reporting
from tools.bench.workload import PODS, Collected, Workload
from tools.soak.progress import Progress, run
from tools.soak.trend import Trend

DAY, DAYS = 86_400, 31
SHORT_PODS_A_DAY = 2000
START = 1_735_689_600.0
STEPS = (15, 20, 30, 60, 120, 300)  # seconds between two ticks, one of which is chosen
FINE_SECONDS, TRIAL_SECONDS, TRIAL_STEP = 1800, 4 * 3600, 60
"""First a tick a second, which fills what is kept tick by tick; then some that tell how fast this machine is."""
SPARE = 0.8  # the share of the time that is planned for: other work may begin on this machine
LOOK_DAYS = 2
"""Every so many simulated days it is seen whether the rest still fits, and if not, ticks are further apart from there
on; but not any more in the days that are judged, which must be alike."""
FLUSH_SECONDS, SAVE_SECONDS = 60, 300.0
REPORTING_SECONDS = 3600  # reports are made in the first hour of each day: they cost several times what a tick does
LAST_SHARE = 0.9
"""Of the time, after which no other tick is made: what comes after the restart costs as much as some days."""
MIB = 1 << 20
RSS_MIB_A_DAY, DATABASE_MIB_A_DAY = 0.5, 0.5
"""Growth that still counts as flat: 15 MiB a month, a seventeenth of the agent's limit and of the database's bound."""
RSS_MIB = 90.0  # what the agent may take with so many short pods
COARSE_BLOCK_TICKS = 12
UPKEEP_SECONDS = 0.2
"""Ticks are far apart in the month; were there 600 in a block, the recent ones would reach back for most of a day."""
DATABASE_MIB = StoreSettings().max_bytes / MIB


@dataclass(slots=True)
class Sizes:
    """What was seen at the end of each simulated day."""

    days: list[float] = field(default_factory=list)  # days since the beginning
    rss: list[float] = field(default_factory=list)  # resident memory [MiB]
    database: list[float] = field(default_factory=list)  # the database's file [MiB]

    def see(self, day: float, rss: float, database: float) -> str:
        """Note a day, and say it."""
        self.days.append(day)
        self.rss.append(rss)
        self.database.append(database)
        return f"day {day:3.0f}: RSS {rss:6.1f} MiB, database {database:5.1f} MiB"

    def judge(self, progress: Progress, settled: float) -> None:
        """Tell whether both are flat.

        Args:
            progress: Takes the verdict.
            settled: Days until everything that is kept for some days is full. [days]
        """
        first = next((place for place, day in enumerate(self.days) if day >= settled), len(self.days))
        days = self.days[first:]
        for what, values, most in (
            ("resident memory", self.rss, RSS_MIB_A_DAY),
            ("the database", self.database, DATABASE_MIB_A_DAY),
        ):
            claim = f"{what} is flat once {settled:.0f} days are kept: at most {most:g} MiB a day"
            trend = Trend.of(days, values[first:])
            if trend is None:
                found = (
                    f"{self.days[-1] if self.days else 0:.0f} days were simulated: too few to say; give it more time"
                )
                progress.check(claim, found, passed=False)
                continue
            found = f"{trend.slope:+.2f} MiB a day over {days[-1] - days[0]:.0f} days, {trend.level:.0f} MiB on average"
            progress.check(claim, found, passed=trend.slope <= most)
        bound = f"resident memory stays within {RSS_MIB:.0f} MiB"
        largest = max(self.rss, default=0.0)
        progress.check(bound, f"{largest:.1f} MiB at most", passed=0 < largest <= RSS_MIB)
        largest = max(self.database, default=0.0)
        bound = f"the database stays within its bound of {DATABASE_MIB:.0f} MiB"
        progress.check(bound, f"{largest:.1f} MiB at most", passed=0 < largest <= DATABASE_MIB)


class Month:
    """An agent whose time is moved by hand."""

    def __init__(
        self,
        database: Path,
        settings: StoreSettings | None = None,
        second: int = 0,
        workload: Workload | None = None,
    ) -> None:
        """Begin, or go on with what an agent left.

        Args:
            database: Where it is kept.
            settings: Its bounds.
            second: When, since the beginning of the month. [s]
            workload: What runs then.
        """
        self.workload, self.metrics = workload or Workload(), Metrics()
        self.database = database
        self.pipeline = Pipeline(
            {"workload": Collected(self.workload, START)},
            self.workload,
            StoreFailover(lambda: Tsdb.open(database, settings)),
            lambda store: CheckpointedTrainer(store, TrainSettings(checkpoint_seconds=SAVE_SECONDS)),
            self.metrics,
        )
        self._reporting = Reporting(self.pipeline, self.workload, self.metrics)
        self._turn = asyncio.Runner()
        self._second = second

    def pass_until(self, second: int) -> None:
        """A tick, reports when they are due, and what comes with the minute and the day."""
        now = START + second
        if second // DAY > self._second // DAY:
            self.workload.replace_some(PODS // 10)
        self.workload.run_jobs(second, SHORT_PODS_A_DAY)
        self.pipeline.run_once(now)
        if second - self._second > 1:  # the upkeep of all the ticks that there would be in between
            self.pipeline.store.maintain(now, UPKEEP_SECONDS)
        if second // FLUSH_SECONDS > self._second // FLUSH_SECONDS:
            self.pipeline.store.checkpoint()
        if second % DAY < REPORTING_SECONDS:
            self._turn.run(self._reporting.at(now))
        self._second = second

    def fine(self, second: int) -> int:
        """A tick a second for as long as samples are kept tick by tick in memory; answers when it ended."""
        for fine in range(second + 1, second + FINE_SECONDS):
            self.pass_until(fine)
        return second + FINE_SECONDS

    def sizes(self) -> tuple[float, float]:
        """Resident memory and the database's file. [MiB]"""
        return psutil.Process().memory_info().rss / MIB, self.database.stat().st_size / MIB

    def close(self) -> str:
        """End it; what failed at last."""
        self._turn.run(self._reporting.close())
        self._turn.close()
        failing = dict(self.pipeline.failing)
        self.pipeline.close(START + self._second)
        return ", ".join(f"{step}: {problem}" for step, problem in failing.items())


def step_for(days: float, tick_seconds: float, left_seconds: float) -> int:
    """Time between two ticks with which some days fit into the time that is left; the longest if none is enough.

    Args:
        days: What is still to be simulated. [days]
        tick_seconds: What a tick costs with everything that comes with it. [s]
        left_seconds: The time that is left. [s]
    """
    wanted = days * DAY * tick_seconds / max(left_seconds, 1.0)
    return next((step for step in STEPS if step >= wanted), STEPS[-1])


class Pace:
    """How far ticks are apart."""

    def __init__(self, progress: Progress, settled: float) -> None:
        self._progress, self._settled = progress, settled
        self.step = TRIAL_STEP  # time between two ticks [s]
        self._look_at, self._ticks, self._began = TRIAL_SECONDS, 0, time.monotonic()

    def after(self, second: int) -> None:
        """A tick was made: see from time to time whether the rest of the month still fits.

        Args:
            second: The tick's. [seconds since the beginning]
        """
        self._ticks += 1
        if second < self._look_at or second > self._settled * DAY:
            return
        cost = (time.monotonic() - self._began) / self._ticks
        fits = step_for(DAYS - second / DAY, cost, SPARE * self._progress.left())
        if self._look_at == TRIAL_SECONDS or fits > self.step:
            self.step = fits
            self._progress.log(f"a tick takes {cost * 1000:.1f} ms: from here on one every {fits} s, for {DAYS} days")
        self._look_at, self._ticks, self._began = second + LOOK_DAYS * DAY, 0, time.monotonic()


def simulate(progress: Progress, month: Month, settled: float, sizes: Sizes) -> int:
    """The whole month, or as much of it as there is time for.

    Args:
        progress: Takes what is seen day by day, and knows the time.
        month: The agent.
        settled: Days until everything that is kept for some days is full. [days]
        sizes: Takes the sizes at the end of each day.

    Returns:
        The second at which it ended.
    """
    pace, second = Pace(progress, settled), month.fine(0)
    while second <= DAYS * DAY and progress.left(LAST_SHARE) > 0:
        month.pass_until(second)
        if second // DAY > len(sizes.days):
            progress.log(sizes.see(second // DAY, *month.sizes()))
        pace.after(second)
        second += pace.step
    return second


def trial(progress: Progress) -> None:
    """Simulate a month of an agent, then a restart and half an hour of a tick a second."""
    set_mmap_threshold()  # as the agent does
    settled, sizes, failing = settled_days(), Sizes(), []
    with tempfile.TemporaryDirectory(prefix="headroom-soak-") as folder:
        database, coarse = Path(folder) / "agent.db", StoreSettings(block_ticks=COARSE_BLOCK_TICKS)
        month = Month(database, coarse)
        second = simulate(progress, month, settled, sizes)
        failing.append(month.close())
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:  # as a restart is: another process
            second, *reached, problem = process.submit(restarted, database, second, month.workload).result()
        progress.log(f"after a restart: {sizes.see(second / DAY, *reached)}")
        failing.append(problem)
    sizes.judge(progress, settled)
    problems = ", ".join(filter(None, failing))
    progress.check("no step of the agent fails", problems or "none did", passed=not problems)


def restarted(database: Path, second: int, workload: Workload) -> tuple[int, float, float, str]:
    """Half an hour of a tick a second of an agent that goes on with what another left.

    Args:
        database: What it left.
        second: When it ended. [seconds since the beginning]
        workload: What runs on.

    Returns:
        The second at which it ended, resident memory and the database's file [MiB], and what failed at last.
    """
    set_mmap_threshold()
    month = Month(database, second=second, workload=workload)
    second = month.fine(second)
    return second, *month.sizes(), month.close()


def settled_days() -> float:
    """Days until everything that is kept for days is full: 1-minute points, and the policy's window."""
    window = math.ceil(in_force(None, None).window_days) + 1  # as `Tsdb.set_minute_retention` has it
    return float(max(StoreSettings().minute_days, window) + 1)


if __name__ == "__main__":
    run(trial)

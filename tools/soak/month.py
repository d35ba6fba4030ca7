"""31 simulated days of an agent with 110 pods, a tenth of them replaced a day, beside 2,000 pods of jobs a day.

Memory and database stay flat, and memory within its budget.

Pipeline, store, learner and publisher are the real ones, under a clock moved by hand. The first simulated hours tell
how fast this machine is; from that follows how many seconds lie between two ticks, so that a month fits into the time.
Data kept for days fills the database and the memory at first; the verdict is about the days after that.
"""

import math
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from agent.prediction.policy import in_force
from agent.process import set_mmap_threshold
from agent.tsdb.settings import StoreSettings
from tools.bench.week import DAY, MIB, SimulatedAgent
from tools.bench.workload import Workload
from tools.soak.progress import Progress, run
from tools.soak.trend import Trend

DAYS = 31
STEPS = (15, 20, 30, 60, 120, 300)  # seconds between two ticks, one of which is chosen
FINE_SECONDS, TRIAL_SECONDS, TRIAL_STEP = 1800, 4 * 3600, 60
"""Ticks: first one a second, to fill the recent samples; then some to measure the speed of this machine."""
SPARE = 0.8  # the share of the time that is planned for: other work may begin on this machine
LOOK_DAYS = 2
"""Every so many simulated days it is seen whether the rest still fits, and if not, ticks are further apart from there
on, but not in the evaluated days, which must be alike."""
REPORTING_SECONDS = 3600  # reports are made in the first hour of each day: they cost several times what a tick does
LAST_SHARE = 0.9
"""Share of the time after which no other tick is made: the part after the restart costs as much as some days."""
RSS_MIB_A_DAY, DATABASE_MIB_A_DAY = 0.5, 0.5
"""Growth that still counts as flat: 15 MiB a month, a seventeenth of the agent's limit and of the database's bound."""
RSS_MIB = 90.0  # the agent's limit with so many short pods
COARSE_BLOCK_TICKS = 12
"""Ticks are far apart in the month; were there 600 in a block, the recent ones would reach back for most of a day."""
DATABASE_MIB = StoreSettings().max_bytes / MIB


@dataclass(slots=True)
class Sizes:
    """The state at the end of each simulated day."""

    days: list[float] = field(default_factory=list)  # days since the beginning
    rss: list[float] = field(default_factory=list)  # resident memory [MiB]
    database: list[float] = field(default_factory=list)  # the database's file [MiB]

    def see(self, day: float, rss: float, database: float) -> str:
        """Note a day, and return it as a line."""
        self.days.append(day)
        self.rss.append(rss)
        self.database.append(database)
        return f"day {day:3.0f}: RSS {rss:6.1f} MiB, database {database:5.1f} MiB"

    def evaluate(self, progress: Progress, settled: float) -> None:
        """Check that both are flat once everything that is kept for some days is full, and within their bounds.

        Args:
            progress: Takes the verdict.
            settled: When that is. [days]
        """
        first = next((place for place, day in enumerate(self.days) if day >= settled), len(self.days))
        for what, values, a_day, most in (
            ("resident memory", self.rss, RSS_MIB_A_DAY, RSS_MIB),
            ("the database", self.database, DATABASE_MIB_A_DAY, DATABASE_MIB),
        ):
            trend = Trend.of(self.days[first:], values[first:])
            result = "too few days were simulated: give it more time"
            if trend is not None:
                result = f"{trend.slope:+.2f} MiB a day, {trend.level:.0f} MiB on average"
            claim = f"{what} is flat once {settled:.0f} days are kept: at most {a_day:g} MiB a day"
            progress.check(claim, result, passed=trend is not None and trend.slope <= a_day)
            largest = max(values, default=0.0)
            claim = f"{what} stays within {most:.0f} MiB"
            progress.check(claim, f"{largest:.1f} MiB at most", passed=0 < largest <= most)


def _fine(agent: SimulatedAgent, second: int) -> int:
    """Make a tick a second for as long as samples are kept tick by tick in memory; return when it ended."""
    for fine in range(second + 1, second + FINE_SECONDS):
        _pass_until(agent, fine)
    return second + FINE_SECONDS


def _pass_until(agent: SimulatedAgent, second: int) -> None:
    agent.pass_until(second, reports=second % DAY < REPORTING_SECONDS)


def step_for(days: float, tick_seconds: float, left_seconds: float) -> int:
    """Time between two ticks with which some days fit into the time that is left; the longest if none is enough.

    Args:
        days: The remaining time. [days]
        tick_seconds: What a tick costs with everything that comes with it. [s]
        left_seconds: The time that is left. [s]
    """
    wanted = days * DAY * tick_seconds / max(left_seconds, 1.0)
    return next((step for step in STEPS if step >= wanted), STEPS[-1])


def simulate(progress: Progress, month: SimulatedAgent, settled: float, sizes: Sizes) -> int:
    """Simulate the whole month, or as much of it as there is time for.

    From time to time the distance between ticks is chosen so that the rest of the month fits.

    Args:
        progress: Records each day, and knows the time.
        month: The agent.
        settled: Days until everything that is kept for some days is full. [days]
        sizes: Takes the sizes at the end of each day.

    Returns:
        The second at which it ended.
    """
    second, step, look_at, ticks = _fine(month, 0), TRIAL_STEP, TRIAL_SECONDS, 0
    began = time.monotonic()
    while second <= DAYS * DAY and progress.left(LAST_SHARE) > 0:
        _pass_until(month, second)
        ticks += 1
        if second // DAY > len(sizes.days):
            progress.log(sizes.see(second // DAY, *month.sizes()))
        if look_at <= second <= settled * DAY:
            cost = (time.monotonic() - began) / ticks
            fits = step_for(DAYS - second / DAY, cost, SPARE * progress.left())
            if look_at == TRIAL_SECONDS or fits > step:
                step = fits
                progress.log(f"a tick takes {cost * 1000:.1f} ms: from here on one every {fits} s, for {DAYS} days")
            look_at, ticks, began = second + LOOK_DAYS * DAY, 0, time.monotonic()
        second += step
    return second


def trial(progress: Progress) -> None:
    """Simulate a month of an agent, then a restart and half an hour of a tick a second."""
    set_mmap_threshold()  # as the agent does
    settled, sizes, failing = settled_days(), Sizes(), []
    with tempfile.TemporaryDirectory(prefix="headroom-soak-") as folder:
        database, coarse = Path(folder) / "agent.db", StoreSettings(block_ticks=COARSE_BLOCK_TICKS)
        month = SimulatedAgent(database, coarse)
        second = simulate(progress, month, settled, sizes)
        failing.append(month.close())
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:  # as a restart is: another process
            second, *reached, problem = process.submit(restarted, database, second, month.workload).result()
        progress.log(f"after a restart: {sizes.see(second / DAY, *reached)}")
        failing.append(problem)
    sizes.evaluate(progress, settled)
    problems = ", ".join(filter(None, failing))
    progress.check("no step of the agent fails", problems or "none did", passed=not problems)


def restarted(database: Path, second: int, workload: Workload) -> tuple[int, float, float, str]:
    """Half an hour of a tick a second of an agent that goes on with what another left.

    Args:
        database: The database of the run.
        second: When it ended. [seconds since the beginning]
        workload: What runs on.

    Returns:
        The second at which it ended, resident memory and the database's file [MiB], and what failed at last.
    """
    set_mmap_threshold()
    month = SimulatedAgent(database, second=second, workload=workload)
    second = _fine(month, second)
    return second, *month.sizes(), month.close()


def settled_days() -> float:
    """Days until everything that is kept for days is full: 1-minute points, and the policy's window."""
    window = math.ceil(in_force(None, None).window_days) + 1  # as `Tsdb.set_minute_retention` has it
    return float(max(StoreSettings().minute_days, window) + 1)


if __name__ == "__main__":
    run(trial)

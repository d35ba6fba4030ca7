"""A process that writes to an agent's database is killed up to 1,000 times, each time at another moment."""

import random
import tempfile
from pathlib import Path

from tests.agent.tsdb.deaths import Nursery, die, left_behind, orders, suicides
from tools.soak.progress import Progress, run

DEATHS = 1000
FEWEST = 20  # so many deaths have each kind of moment at least once
TOLD_EVERY = 50
LAST_SHARE = 0.95  # share of the time after which no process is killed: the rest is for the databases


def trial(progress: Progress) -> None:
    """Kill a writing store."""
    seed = progress.seed
    chance, wrong, dead = random.Random(seed), "", 0  # noqa: S311 - no secret
    progress.log(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="headroom-soak-") as name, Nursery.open() as nursery:
        folder = Path(name)
        for order, seconds in orders(folder, chance, DEATHS):
            if progress.left(LAST_SHARE) <= 0:
                break
            if problem := die(nursery, order, seconds):
                wrong = f"death {dead} with seed {seed}, {order}: {problem}"
                break
            dead += 1
            if dead % TOLD_EVERY == 0:
                progress.log(f"{dead} deaths")
        problems = [wrong] if wrong else left_behind(folder)
        chosen = suicides(folder)
    result = "; ".join(problems) or f"nothing after {dead} deaths, {chosen} of them in the middle of a kind of work"
    progress.check("a killed store has lost, doubled or reordered nothing", result, passed=not problems)
    progress.check(f"at least {FEWEST} deaths were tried", f"{dead}", passed=dead >= FEWEST)


if __name__ == "__main__":
    run(trial)

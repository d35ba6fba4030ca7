"""Kills a writing process repeatedly, and checks its database: for the tests and for `make soak`."""

import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.writer import MOMENTS, SETTINGS, SUICIDES, Order, Progress, verdict

ROOT = Path(__file__).parents[3]


class Nursery:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator["Nursery"]:
        """A warmed process that forks writers; it ends with the block."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(
            [sys.executable, "-m", "tests.agent.tsdb.writer"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        ) as process:  # fmt: skip
            try:
                yield cls(process)
            finally:
                process.kill()

    def live_and_die(self, order: Order, seconds: float = 0.0) -> list[str]:
        """Let a child live for a while, or until it kills itself; return its output."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(dataclasses.asdict(order)) + "\n")
        self._process.stdin.flush()
        child = int(self._line().removeprefix("pid "))
        if not order.moment:
            time.sleep(seconds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        said = []
        while (line := self._line()) != "dead":
            said.append(line)
        return said

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the writing process ended"
        return line


def orders(folder: Path, chance: random.Random, deaths: int) -> Iterator[tuple[Order, float]]:
    """Deaths at random moments, every other one at a moment of its own choice; the first ones in young databases."""
    moments = list(MOMENTS)
    for number in range(deaths):
        home = folder / (f"young-{number // 2}" if number < deaths // 10 else "old")
        home.mkdir(exist_ok=True)
        if number % 2:
            moment = moments[number // 2 % len(moments)]
            yield Order(str(home), moment, chance.randint(1, 4), chance.choice((0.0, chance.uniform(0, 0.002)))), 0.0
        else:
            yield Order(str(home)), chance.uniform(0, 0.08)


def die(nursery: Nursery, order: Order, seconds: float) -> str:
    """Let one child live and die.

    Returns:
        Its findings in the database of the run before; empty without any.
    """
    said = nursery.live_and_die(order, seconds)
    wrong = [line for line in said if line.startswith("bad")]
    if not wrong and order.moment and not said:
        return "never opened"
    return "; ".join(wrong)


def left_behind(folder: Path) -> list[str]:
    result = []
    for home in sorted(folder.iterdir()):
        with Tsdb.open(home / "t.db", SETTINGS) as store:
            problem, _ = verdict(store, Progress(home))
        if problem:
            result.append(f"{home.name}: {problem}")
    return result


def suicides(folder: Path) -> int:
    return sum(Progress(home)[SUICIDES] for home in folder.iterdir())

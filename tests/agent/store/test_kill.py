"""kill -9 in the middle of writing: nothing that was appended is lost, doubled or reordered; nothing needs repair."""

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

import pytest

from agent.store.tsdb import Tsdb
from tests.agent.store.writer import MOMENTS, SETTINGS, SUICIDES, Order, Progress, verdict

SOAK = os.environ.get("HEADROOM_SOAK", "") not in ("", "0")
DEATHS = 1000 if SOAK else 200
ROOT = Path(__file__).parents[3]
LONGEST_SECONDS = 60.0


class Nursery:
    """The process whose children write."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def live_and_die(self, order: Order, seconds: float = 0.0) -> list[str]:
        """Let a child live for a while, or until it kills itself; answers what it said."""
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


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """A warmed process that forks writers."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.agent.store.writer"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
    ) as process:  # fmt: skip
        try:
            yield Nursery(process)
        finally:
            process.kill()


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


def _die(nursery: Nursery, folder: Path, deaths: int) -> None:
    chance = random.Random(deaths)  # noqa: S311 - no secret
    for number, (order, seconds) in enumerate(orders(folder, chance, deaths)):
        said = nursery.live_and_die(order, seconds)
        assert not [line for line in said if line.startswith("bad")], f"death {number}, {order}: {said}"
        if order.moment:
            assert said, f"death {number}, {order}: never opened"
    for home in folder.iterdir():
        with Tsdb.open(home / "t.db", SETTINGS) as store:
            assert verdict(store, Progress(home))[0] == ""


def test_kill_loses_nothing(nursery: Nursery, tmp_path: Path) -> None:
    """Processes that are killed while they write leave every acknowledged sample, once and in order."""
    _die(nursery, tmp_path, 8)


@pytest.mark.alone
@pytest.mark.timeout(LONGEST_SECONDS * DEATHS)
def test_many_kills_lose_nothing(nursery: Nursery, tmp_path: Path) -> None:
    """The same two hundred times, in every kind of moment: compaction, roll-up, retention, checkpoint and the rest."""
    _die(nursery, tmp_path, DEATHS)
    suicides = sum(Progress(home)[SUICIDES] for home in tmp_path.iterdir())
    assert suicides == DEATHS // 2

"""Each parser gets up to 10,000 inputs, every other property up to 1,000: new ones in each run, until the time is over.

What fails is kept in .hypothesis and tried first the next time; the log has the input, and how to try it again.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from soak.running import ROOT
from soak.telling import Telling, run
from tests.rounds import ROUNDS, TRIED

LAST_SHARE = 0.9
"""Of the time, after which each property that has not begun gets one round: the shortest there is."""
SELECTED = "hypothesis and not cluster and not node"
WORKERS = ("--numprocesses", "logical", "--maxprocesses", "8", "--dist", "worksteal", "--maxschedchunk", "1")
NAMED = 5
"""So many that failed are named; the log has all."""


@dataclass(frozen=True, slots=True)
class Property:
    """What came of one test."""

    name: str
    """The test."""
    failed: bool
    """Whether it did not hold."""
    rounds: int
    """How many rounds of inputs it had; 0: it is not one of those that are tried in rounds."""


def trial(telling: Telling) -> None:
    """Try every parser and every property."""
    with tempfile.TemporaryDirectory(prefix="headroom-soak-") as name:
        folder = Path(name)
        begun, results = folder / "begun", folder / "results.xml"
        begun.touch()
        environment = {
            **os.environ,
            "HEADROOM_SOAK": "1",
            "HEADROOM_SOAK_UNTIL": str(time.time() + telling.left(LAST_SHARE)),
            "HEADROOM_SOAK_BEGUN": str(begun),
        }
        words = ["-m", SELECTED, "--timeout=7200", "-p", "no:cacheprovider", f"--junitxml={results}", *WORKERS]
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *words, "tests"],
            cwd=ROOT,
            env=environment,
            stdout=sys.stderr,  # the step's own output is what it tells
        ) as process:
            _watch(telling, process, begun)
        found = list(properties(results)) if results.is_file() else []
    _judge(telling, found, process.returncode)


def _watch(telling: Telling, process: "subprocess.Popen[bytes]", begun: Path) -> None:
    """Say from time to time how many have begun, until it ends."""
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30.0)
        telling.say(f"{begun.stat().st_size} properties have begun, {telling.left() / 60:.0f} min left")


def properties(results: Path) -> Iterator[Property]:
    """What pytest's JUnit file says of each test."""
    for case in ET.parse(results).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it just now
        said = {each.get("name"): each.get("value", "0") for each in case.iter("property")}
        failed = case.find("failure") is not None or case.find("error") is not None
        yield Property(f"{case.get('classname')}::{case.get('name')}", failed, int(said.get(TRIED, "0")))


def _judge(telling: Telling, found: list[Property], code: int) -> None:
    failed = [each.name for each in found if each.failed]
    rounds = [each.rounds for each in found if each.rounds]
    whole = sum(each == ROUNDS for each in rounds)
    least = min(rounds, default=0)
    told = f"{len(found)} were tried, {whole} with all inputs, the least with {least} of {ROUNDS} rounds of them"
    named = ", ".join([*failed[:NAMED], *(["..."] if len(failed) > NAMED else [])])
    telling.check("every parser and property holds", f"{named} failed" if failed else told, passed=not failed)
    if not failed:
        end = f"pytest ended with {code}"
        telling.check("all of them were tried", end, passed=code == 0 and bool(rounds))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run(trial)

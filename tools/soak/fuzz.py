"""Each parser gets up to 10,000 inputs, every other property up to 1,000: new ones in each run, until the time is over.

What fails is kept in .hypothesis and tried first the next time; the log has the input, and how to try it again.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.rounds import ROUNDS, TRIED
from tools.soak.progress import ROOT, Progress, run

SHARED, LAST_SHARE = 0.85, 0.97  # shares of the time: for all properties, and after which no other begins
SELECTED = "hypothesis and not cluster and not node"
WORKERS = ("--numprocesses", "logical", "--maxprocesses", "8", "--dist", "worksteal", "--maxschedchunk", "1")
END_SECONDS = 20.0
NAMED = 5  # so many that failed are named; the log has all


def trial(progress: Progress) -> None:
    """Try every parser and every property."""
    with tempfile.TemporaryDirectory(prefix="headroom-soak-") as name:
        folder = Path(name)
        begun, results = folder / "begun", folder / "results.xml"
        begun.touch()
        environment = {
            **os.environ,
            "HEADROOM_SOAK": "1",
            "HEADROOM_SOAK_UNTIL": str(time.time() + progress.left(LAST_SHARE)),
            "HEADROOM_SOAK_SHARED_UNTIL": str(time.time() + progress.left(SHARED)),
            "HEADROOM_SOAK_BEGUN": str(begun),
        }
        words = ["-m", SELECTED, "--timeout=7200", "-p", "no:cacheprovider", f"--junitxml={results}", *WORKERS]
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *words, *files()],
            cwd=ROOT,
            env=environment,
        ) as process:
            try:
                _watch(progress, process, begun)
            finally:
                _end(process)
        evaluate(progress, results, process.returncode)


def files() -> list[str]:
    """The test files that have properties: reading all the others takes every worker a while."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    marks = ("hypothesis", "fuzz.strength")
    result = [path for path in tests if any(mark in path.read_text(encoding="utf-8") for mark in marks)]
    return [str(path.relative_to(ROOT)) for path in result]


def _watch(progress: Progress, process: "subprocess.Popen[bytes]", begun: Path) -> None:
    """Say from time to time how many have begun, until it ends."""
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30.0)
        progress.log(f"{begun.stat().st_size} properties have begun, {progress.left() / 60:.0f} min left")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End pytest if it still runs, as Ctrl-C does: it then prints its results."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def evaluate(progress: Progress, results: Path, code: int) -> None:
    """Check by pytest's JUnit file whether all properties hold, and all were tried.

    Args:
        progress: Takes the verdict.
        results: The file; it may be missing.
        code: Exit code of pytest.
    """
    failed, rounds = list[str](), dict[str, int]()  # properties that failed; rounds of inputs that each had
    for case in ET.parse(results).getroot().iter("testcase") if results.is_file() else ():  # noqa: S314 - pytest's own
        name = f"{case.get('classname')}::{case.get('name')}"
        failed += [name] if case.find("failure") is not None or case.find("error") is not None else []
        stated = {item.get("name"): item.get("value", "0") for item in case.iter("property")}
        rounds |= {name: int(stated[TRIED])} if TRIED in stated else {}
    whole, least = sum(count == ROUNDS for count in rounds.values()), min(rounds.values(), default=0)
    tried = f"{len(rounds)} were tried, {whole} of them with all inputs, one with {least / ROUNDS:.0%}"
    progress.check(
        "every parser and property holds", f"{_named(failed)} failed" if failed else tried, passed=not failed
    )
    untried = [name for name, count in rounds.items() if not count]
    why = f"no time was left for {_named(untried)}: give it more" if untried else f"pytest ended with {code}"
    passed = code == 0 and bool(rounds) and not untried
    progress.check("all of them were tried", tried if passed else why, passed=passed)


def _named(names: list[str]) -> str:
    return ", ".join([*names[:NAMED], *([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])])


if __name__ == "__main__":
    run(trial)

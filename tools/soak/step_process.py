"""Runs one step as a process, hears what it tells, and ends it when it does not end by itself."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.devcluster.places import cache_directory
from tools.soak.progress import Check, heard

ROOT = Path(__file__).parents[2]
END_SECONDS = 45.0
"""How long a step may take to clean up once it was told to end: a cluster is stopped in seconds."""
LAST_LINES = 8
KEPT_LOGS = 20


@dataclass(slots=True)
class Outcome:
    """What came of a step."""

    log: Path
    """Everything that it said."""
    checks: list[Check] = field(default_factory=list)
    """Its claims."""
    said: str = ""
    """The last thing that it told of how far it was."""
    problem: str = ""
    """Why it broke off; empty when it did not."""

    @property
    def passed(self) -> bool:
        """Whether it came to its end and every claim holds."""
        return bool(self.checks) and not self.problem and all(check.passed for check in self.checks)


def run(name: str, module: str, seconds: float, spare_seconds: float, show: Callable[[str], None]) -> Outcome:
    """Run a step.

    Args:
        name: Of the step and its log.
        module: What is run.
        seconds: The time that it is given. [s]
        spare_seconds: What it may take beyond that before it is told to end. [s]
        show: Takes what it says of how far it is.
    """
    outcome = Outcome(_log_file(name))
    command = [sys.executable, "-m", module, f"--seconds={seconds:.0f}"]
    ending = threading.Event()
    with (
        outcome.log.open("w", encoding="utf-8") as log,
        subprocess.Popen(  # in a session of its own: Ctrl-C reaches us, and we end it once, in order
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as process,
    ):
        alarm = threading.Timer(seconds + spare_seconds, _end, (process, ending))
        alarm.daemon = True
        alarm.start()
        try:
            _hear(process, outcome, log.write, show)
            code = process.wait()
        except BaseException:
            _end(process, ending)
            raise
        finally:
            alarm.cancel()
    if ending.is_set():
        outcome.problem = f"it did not end within {spare_seconds:.0f} s after its {seconds:.0f} s, and was ended"
        outcome.problem += f"; the last that it said: {outcome.said}" if outcome.said else ""
    elif code and all(check.passed for check in outcome.checks):
        lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines()
        outcome.problem = "\n    ".join([f"it broke off with exit code {code}:", *deque(lines, LAST_LINES)])
    elif not outcome.checks:
        outcome.problem = "it ended without having checked anything"
    return outcome


def _hear(
    process: "subprocess.Popen[str]", outcome: Outcome, write: Callable[[str], object], show: Callable[[str], None]
) -> None:
    if process.stdout is None:
        return
    for line in process.stdout:
        write(line)
        told = heard(line)
        if isinstance(told, Check):
            outcome.checks.append(told)
        elif told:
            outcome.said = told
            show(told)


def _end(process: "subprocess.Popen[str]", ending: threading.Event) -> None:
    """As Ctrl-C would, so that clusters are cleaned up; killed when that takes too long."""
    ending.set()
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + END_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    process.kill()


def _log_file(name: str) -> Path:
    folder = cache_directory() / "logs" / "soak"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.iterdir())[: -KEPT_LOGS + 1]:
        old.unlink(missing_ok=True)
    return folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}.log"

"""`python -m tools.soak`: run the steps one after the other, each for its time, and say how many passed.

Each is a process of its own, `python -m MODULE --seconds N`; it prints its attempts, and exits with 0 when that holds.
"""

import argparse
import math
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools.soak.progress import INTERRUPTED, ROOT

HOUR: Final = 60.0  # the time that the steps' minutes are meant for [min]
SHORTEST: Final = 1.0  # less than this would try nothing [min]
END_SECONDS: Final = 45.0
"""The time of a step for its clean-up: a cluster stops in seconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """A trial, with a time at which it ends."""

    module: str  # the module to run
    minutes: float  # its time when the whole hour is given [min]
    what: str  # its claim, in one line
    longer_seconds: float = 0.0
    """The time beyond its own that a failing step may take. [s]"""


STEPS: Final[dict[str, Step]] = {
    "fuzz": Step("tools.soak.fuzz", 6, "10,000 new inputs for each parser, 1,000 for every other property"),
    "manager": Step(
        "tools.soak.manager", 11, "a manager with 5,000 nodes that report: memory, stalls, floods, edits, quiet restart"
    ),
    "month": Step(
        "tools.soak.month",
        22,
        "31 simulated days of an agent with 110 pods and 2,000 of jobs a day: memory and database stay flat",
    ),
    "api-server": Step(
        "tools.soak.api_server",
        7,
        "a real API server is killed and restarted below agents, manager, extender",
        longer_seconds=420,
    ),
    "quotas": Step("tools.soak.quotas", 4, "extenders and kube-schedulers are killed and paused: quotas hold"),
    "kills": Step(
        "tools.soak.kills", 2, "a writing store is killed 1,000 times: no sample is lost, doubled or reordered"
    ),
    "strangers": Step(
        "tools.soak.hostile_clients",
        1,
        "hundreds of clients that never finish, at every open port: memory, threads, connections",
    ),
}
"""The steps in order, by name; the most productive first. The rest of the hour is for their ends."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them.

    Returns:
        0 when all passed, 1 when one failed, 130 after Ctrl-C.
    """
    options = _options(arguments)
    chosen = {name: step for name, step in STEPS.items() if name in options.only}
    factor = options.minutes / sum(step.minutes + HOUR / 60 for step in chosen.values())
    print(f"{len(chosen)} steps, {options.minutes:g} minutes, and more only where something fails:")
    for name, step in chosen.items():
        print(f"  {name:<13} {step.minutes * factor:4.1f} min  {step.what}")
    failed, tried = [], []
    try:
        for name, step in chosen.items():
            print(f"\n{name}: {step.what}", flush=True)
            began = time.monotonic()
            problem = run(step.module, step.minutes * factor * 60, HOUR * factor + step.longer_seconds)
            tried.append(name)
            failed += [name] if problem else []
            print(f"{name} {problem or 'passed'} after {(time.monotonic() - began) / 60:.1f} min", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted; not tried: {', '.join(name for name in chosen if name not in tried)}")
    print(f"{len(tried) - len(failed)} passed, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    if failed:
        return 1
    return 0 if len(tried) == len(chosen) else INTERRUPTED


def run(module: str, seconds: float, spare_seconds: float) -> str:
    """Run a step; why it failed, empty when it passed.

    Args:
        module: The module to run.
        seconds: The time that it is given. [s]
        spare_seconds: The time beyond that before it is ended. [s]
    """
    command = [sys.executable, "-m", module, f"--seconds={seconds:.0f}"]
    # In a session of its own: Ctrl-C reaches this process, which ends the step once, in order.
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            code = process.wait(seconds + spare_seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return f"FAILED: it did not end within {spare_seconds:.0f} s after its {seconds:.0f} s, and was ended"
        except BaseException:
            _end(process)
            raise
    return f"FAILED with exit code {code}" if code else ""


def _end(process: "subprocess.Popen[bytes]") -> None:
    """As Ctrl-C would, so that clusters are cleaned up; killed when that takes too long."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(STEPS)
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--only", default=",".join(STEPS), metavar="STEP,STEP", help=f"some of {names}; all without it")
    parser.add_argument("--minutes", type=float, help="the time of all steps together (60, or less with --only)")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(STEPS):
        parser.error(f"no step named {', '.join(sorted(unknown))}: choose from {names}")
    if options.minutes is None:
        options.minutes = sum(STEPS[name].minutes + 1 for name in set(options.only))
    if not SHORTEST <= options.minutes < math.inf:
        parser.error(f"--minutes: give a number from {SHORTEST:g} on")
    return options


if __name__ == "__main__":
    sys.exit(main())

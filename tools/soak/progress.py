"""The output of a step while it runs: its progress, and the claims that hold."""

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]  # of the repository
INTERRUPTED = 130  # the exit code after Ctrl-C


@dataclass(slots=True)
class Progress:
    """The results of a step, and its time limit."""

    seconds: float  # all of its time [s]
    began: float = field(default_factory=time.monotonic)  # when it began, by the clock that only runs forward [s]
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(1 << 32))
    """The random numbers: the same seed tries the same."""
    failed: int = 0  # claims that did not hold
    checked: int = 0  # all claims

    def log(self, text: str) -> None:
        """Print how far it is."""
        print(f"  {text}", flush=True)

    def check(self, what: str, found: str, *, passed: bool) -> None:
        """Print whether a claim holds, with its numbers."""
        self.checked += 1
        self.failed += not passed
        print(f"  {'holds ' if passed else 'FAILED'}  {what}: {found}", flush=True)

    def left(self, of: float = 1.0) -> float:
        """Return the rest of its time, or of this share of it; not below 0. [s]"""
        return max(self.began + of * self.seconds - time.monotonic(), 0.0)


def run(trial: Callable[[Progress], None], arguments: Sequence[str] | None = None) -> None:
    """The entry point of a step: exits with 1 when a claim did not hold or none was made, with 130 when ended."""
    parser = argparse.ArgumentParser(description=trial.__doc__)
    parser.add_argument("--seconds", type=float, required=True, help="when it ends")
    parser.add_argument("--seed", type=int, help="of a run that is to be repeated; else a new one, which is printed")
    options = parser.parse_args(arguments)
    progress = Progress(options.seconds)
    if options.seed is not None:
        progress.seed = options.seed
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # either ends it as Ctrl-C does: in order
    try:
        trial(progress)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(1 if progress.failed or not progress.checked else 0)

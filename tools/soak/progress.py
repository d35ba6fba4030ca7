"""What a step tells while it runs, one JSON object a line: what it does now, and what it has found out."""

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that holds or does not."""

    what: str
    """The claim."""
    passed: bool
    """Whether it holds."""
    found: str
    """What was seen, with figures."""


@dataclass(slots=True)
class Telling:
    """How a step speaks, and until when it may go on."""

    seconds: float
    """All of its time. [s]"""
    began: float = field(default_factory=time.monotonic)
    """When it began, by the clock that only runs forward. [s]"""
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(1 << 32))
    """Of what it draws by lot: the same seed tries the same."""
    failed: int = 0
    """Claims that did not hold."""
    checked: int = 0
    """All claims."""

    def say(self, text: str) -> None:
        """Tell how far it is."""
        _tell({"said": text})

    def check(self, what: str, found: str, *, passed: bool) -> None:
        """Tell whether a claim holds."""
        self.checked += 1
        self.failed += not passed
        _tell(asdict(Check(what, passed, found)))

    def left(self, of: float = 1.0) -> float:
        """What is left of its time, or of this share of it; not below 0. [s]"""
        return max(self.began + of * self.seconds - time.monotonic(), 0.0)


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def heard(line: str) -> Check | str:
    """What a line of a step says: a claim, or how far it is. Anything else is for its log, and an empty text."""
    try:
        said = json.loads(line)
        return str(said["said"]) if "said" in said else Check(**said)
    except (ValueError, TypeError, KeyError):
        return ""


def run(trial: Callable[[Telling], None], arguments: Sequence[str] | None = None) -> None:
    """The entry point of a step: exits with 1 when a claim did not hold or none was made, with 130 when ended."""
    parser = argparse.ArgumentParser(description=trial.__doc__)
    parser.add_argument("--seconds", type=float, required=True, help="when it ends")
    parser.add_argument("--seed", type=int, help="of a run that is to be repeated; else a new one, which is told")
    options = parser.parse_args(arguments)
    telling = Telling(options.seconds)
    if options.seed is not None:
        telling.seed = options.seed
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # either ends it as Ctrl-C does: in order
    try:
        trial(telling)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(1 if telling.failed or not telling.checked else 0)

"""`python -m tools.soak`: run the steps one after the other, each for its time, and say how many passed."""

import argparse
import math
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from tools.soak import HOUR, STEPS, Step
from tools.soak.progress import INTERRUPTED
from tools.soak.step_process import Outcome, run

SHORTEST = 1.0
"""Less than this would try nothing. [min]"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them.

    Returns:
        0 when all passed, 1 when one failed, 130 after Ctrl-C.
    """
    options = _options(arguments)
    console = Console(highlight=False, soft_wrap=True)
    chosen = {name: step for name, step in STEPS.items() if name in options.only}
    factor = options.minutes / sum(step.minutes + HOUR / 60 for step in chosen.values())
    console.print(f"{len(chosen)} steps, {options.minutes:g} minutes, and more only where something fails:")
    for name, step in chosen.items():
        console.print(f"  {name:<13} {step.minutes * factor:4.1f} min  {step.what}")
    outcomes: dict[str, Outcome] = {}
    try:
        for name, step in chosen.items():
            outcomes[name] = _run(console, name, step, factor)
    except KeyboardInterrupt:
        console.print(f"interrupted; not tried: {', '.join(name for name in chosen if name not in outcomes)}")
    passed = sum(outcome.passed for outcome in outcomes.values())
    failed = len(outcomes) - passed
    console.print(f"[{'red' if failed else 'green'}]{passed} passed, {failed} failed[/]")
    if failed:
        return 1
    return 0 if len(outcomes) == len(chosen) else INTERRUPTED


def _run(console: Console, name: str, step: Step, factor: float) -> Outcome:
    """One step, with what it finds as it finds it."""
    console.print(f"\n[bold]{name}[/]: {step.what}")
    began = time.monotonic()
    with console.status(f"{name} begins ...") as status:

        def show(text: str) -> None:
            status.update(escape(f"{name}: {text}"))
            if not console.is_terminal:
                console.print(f"  {text}", markup=False)

        outcome = run(name, step.module, step.minutes * factor * 60, HOUR * factor + step.longer_seconds, show)
    for check in outcome.checks:
        mark = "[green]holds[/]" if check.passed else "[red]FAILED[/]"
        console.print(f"  {mark}  {escape(check.what)}: {escape(check.found)}")
    if outcome.problem:
        console.print(f"  [red]FAILED[/]  {escape(outcome.problem)}")
    if not outcome.passed:
        console.print(f"  all that it said: {outcome.log}", markup=False)
    word = "[green]passed[/]" if outcome.passed else "[red]failed[/]"
    console.print(f"  {name} {word} after {(time.monotonic() - began) / 60:.1f} min")
    return outcome


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = ", ".join(STEPS)
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--only", type=_names, action="append", metavar="STEP", help=f"some of {known}; all without it")
    parser.add_argument("--minutes", type=_minutes, help="the time of all steps together (60, or less with --only)")
    options = parser.parse_args(arguments)
    options.only = [name for names in options.only or [list(STEPS)] for name in names]
    if options.minutes is None:
        options.minutes = sum(STEPS[name].minutes + 1 for name in set(options.only))
    return options


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in STEPS]:
        raise argparse.ArgumentTypeError(f"no step named {', '.join(unknown)}: choose from {', '.join(STEPS)}")
    return names


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not SHORTEST <= minutes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number of minutes from {SHORTEST:g} on")
    return minutes


if __name__ == "__main__":
    sys.exit(main())

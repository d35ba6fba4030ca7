"""What policies would have done on recorded usage: the table behind the choice of the default one.

`python -m bench.policies` prints Markdown: every policy on August 2013 of Bitbrains (40 machines, packings 0 and 1,
24 h ahead), on its halves, with packings that were not used to choose, and on single days of PlanetLab (1 h and 6 h
ahead and cold for an hour, because a day is all there is). `--policy` judges others than the usual ones, `--quick`
August alone.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from backtest import sources
from backtest.engine import Choice, Plan, run
from backtest.policies import parse
from backtest.trace import Resource, Trace
from bench import table
from bench.machine import ROOT

DATA: Final = ROOT / "bench" / "data"
POLICIES: Final = (
    "default",
    "diversity:windowDays=7,lambdaMin=0.4,margin=0",
    "diversity:windowDays=7,lambdaMin=0.45,margin=0",
    "diversity:windowDays=7,lambdaMin=0.5,margin=0",
    "load-profile:spreadShare=1",
    "load-profile:spreadShare=3",
    "load-profile:windowDays=7",
    "load-profile:windowDays=14",
    "load-profile:profileShare=0",
    "load-profile:profileShare=1",
    "recent-max:windowDays=7",
    "recent-max:windowDays=7,margin=0",
    "sum-max:windowDays=3,margin=0",
    "sum-max:windowDays=7,margin=0",
    "resource-central",
    "nsigma-v2",
    "percentile",
)
"""The default policy, its neighbours, and the others, with their usual margin where none is written."""
HOUR: Final = 3600
MACHINES: Final = 40


@dataclass(frozen=True, slots=True)
class Setting:
    """What policies are judged on."""

    name: str
    """Head of the column."""
    traces: tuple[Trace, ...]
    """All of one resource; the figures are means over them."""
    plan: Plan
    """How."""
    cold_seconds: int | None = None
    """In place of the policies' cold period, where a trace is shorter than that. [s]"""


def part(trace: Trace, begin: float, end: float) -> Trace:
    """A share of a trace by time, 0..1 each."""
    steps = slice(round(begin * trace.steps), round(end * trace.steps))
    return replace(trace, times=trace.times[steps], usage=trace.usage[steps])


def settings(resource: Resource, *, quick: bool = False) -> Iterator[Setting]:
    """What is judged for a resource, August first."""
    folder = str(DATA / "bitbrains-rnd-2013-08")
    august = _read(folder, resource)[0]
    plan = Plan(machines=MACHINES, seeds=(0, 1))
    yield Setting("August, packings 0 and 1", (august,), plan)
    if quick:
        return
    yield Setting("first half", (part(august, 0.0, 0.5),), plan)
    yield Setting("second half", (part(august, 0.5, 1.0),), plan)
    yield Setting("packings 2 to 5", (august,), replace(plan, seeds=(2, 3, 4, 5)))
    if resource == "cpu":
        days = tuple(_read(str(DATA / "planetlab-2011"), resource))
        for hours in (1, 6):
            ahead = replace(plan, horizons_seconds=(hours * HOUR,), warm_up_seconds=6.0 * HOUR)
            yield Setting(f"PlanetLab, {hours} h ahead", days, ahead, cold_seconds=HOUR)


def figures(setting: Setting, choices: Sequence[Choice]) -> list[str]:
    """Violation @ savings of the oracle and of each policy, in percent, as text."""
    if setting.cold_seconds is not None:
        choices = [
            replace(each, policy=replace(each.policy, cold_start_period_seconds=setting.cold_seconds))
            for each in choices
        ]
    found = [run(trace, choices, setting.plan) for trace in setting.traces]
    return [
        f"{sum(one.violation_percent.mean for one in each) / len(each):.2f} @ "
        f"{sum(one.savings_percent for one in each) / len(each):.2f}"
        for each in zip(*found, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=__doc__)
    parser.add_argument("--policy", action="append", help="judge this one, as in `kubectl headroom backtest`; repeated")
    parser.add_argument("--resource", choices=("cpu", "memory"), action="append", help="judge this resource alone")
    parser.add_argument("--quick", action="store_true", help="August alone")
    asked = parser.parse_args(arguments)
    choices = parse(asked.policy or POLICIES)
    for resource in asked.resource or ("cpu", "memory"):
        columns = []
        for setting in settings(resource, quick=asked.quick):
            sys.stderr.write(f"{resource}: {setting.name}\n")
            columns.append([setting.name, *figures(setting, choices)])
        names = ["policy", "oracle", *(choice.name for choice in choices)]
        rows = list(zip(names, *columns, strict=True))
        sys.stdout.write(f"\n{resource}: violation @ savings, percent\n\n{table.markdown(rows)}\n")
    return 0


def _read(folder: str, resource: Resource) -> list[Trace]:
    return sources.read("trace", [folder], sources.Options(resources=(resource,)), lambda _share, _what: None)


if __name__ == "__main__":
    sys.exit(main())

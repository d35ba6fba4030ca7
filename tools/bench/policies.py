"""What policies would have done on recorded usage: the table that the default one is chosen by.

`python -m tools.bench.policies` prints Markdown. A case is one packing of one recording, and a policy is judged by all
of them: six packings of August 2013 of Bitbrains (40 machines, 24 h ahead), of each of its halves, of pods that come
and go (20 machines of 12 slots, lives of 2, 7 and 30 days), and of single days of PlanetLab (1 h and 6 h ahead and cold
for an hour, because a day is all there is). `--policy` judges others than the usual ones, `--quick` two packings of
August alone.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from headroom.backtest import sources
from headroom.backtest.engine import Churn, NamedPolicy, Plan, run
from headroom.backtest.policies import parse
from headroom.backtest.trace import Resource, Trace
from tools.bench import results
from tools.bench.machine import ROOT

DATA: Final = ROOT / "tools/bench" / "data"
POLICIES: Final = (
    "default",
    "diversity:windowDays=7,lambdaMin=0.4",
    "diversity:windowDays=7,lambdaMin=0.5",
    "diversity:windowDays=7,lambdaMin=0.6",
    "diversity:windowDays=7,lambdaMin=0.7",
    "diversity:windowDays=7,lambdaMin=0.4,margin=10",
    "diversity:windowDays=10,lambdaMin=0.4",
    "diversity:windowDays=10,lambdaMin=0.5",
    "diversity:windowDays=14,lambdaMin=0.3",
    "diversity:windowDays=14,lambdaMin=0.5",
    "diversity:windowDays=14,lambdaMin=0.2,margin=5",
    "recent-max:windowDays=14",
    "sum-max:windowDays=7,margin=0",
    "nsigma-v2",
    "percentile",
)
"""The default policy, its neighbours, and others, with their usual margin where none is written."""
HOUR: Final = 3600
DAY: Final = 86_400
MACHINES: Final = 40
PACKINGS: Final = (0, 1, 2, 3, 4, 5)
LIVES: Final = ((2, 0), (2, 90), (7, 0), (7, 90), (30, 0))
"""Mean life of pods that come and go [days], and how many come back as the same workload [percent]."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What policies are judged on: a case for each packing of each trace."""

    name: str  # head of the column
    traces: tuple[Trace, ...]  # all of one resource
    plan: Plan  # how
    cold_seconds: int | None = None  # in place of the policies' cold period, where a trace is shorter than that [s]


def part(trace: Trace, begin: float, end: float) -> Trace:
    """A share of a trace by time, 0..1 each."""
    steps = slice(round(begin * trace.steps), round(end * trace.steps))
    return replace(trace, times=trace.times[steps], usage=trace.usage[steps])


def settings(resource: Resource, *, quick: bool = False) -> Iterator[Setting]:
    """What is judged for a resource, August first."""
    august = read(str(DATA / "bitbrains-rnd-2013-08"), resource)[0]
    plan = Plan(machines=MACHINES, seeds=PACKINGS[:2] if quick else PACKINGS)
    yield Setting("August", (august,), plan)
    if quick:
        return
    yield Setting("first half", (part(august, 0.0, 0.5),), plan)
    yield Setting("second half", (part(august, 0.5, 1.0),), plan)
    for days, back in LIVES:
        name = f"lives of {days} d" + (f", {back} % come back" if back else "")
        yield Setting(name, (august,), replace(plan, machines=MACHINES // 2, churn=Churn(days * DAY, 12, back)))
    if resource == "cpu":
        days_apart = tuple(read(str(DATA / "planetlab-2011"), resource))
        for hours in (1, 6):
            ahead = replace(plan, horizons_seconds=(hours * HOUR,), warm_up_seconds=6.0 * HOUR)
            yield Setting(f"PlanetLab, {hours} h ahead", days_apart, ahead, cold_seconds=HOUR)


def cases(setting: Setting, choices: Sequence[NamedPolicy]) -> FloatArray:
    """Violation and savings of the oracle and of each policy, case by case: shape (1 + choices, cases, 2). [percent]"""
    if setting.cold_seconds is not None:
        choices = [
            replace(each, policy=replace(each.policy, cold_start_period_seconds=setting.cold_seconds))
            for each in choices
        ]
    found: list[list[tuple[float, float]]] = [[] for _ in range(1 + len(choices))]
    for trace in setting.traces:
        for own, one in zip(found, run(trace, choices, setting.plan), strict=True):
            packings = (array.reshape(len(one.seeds), -1) for array in (one.violation, one.savings, one.limits))
            for violation, savings, limits in zip(*packings, strict=True):
                own.append((100.0 * violation.mean(), 100.0 * (savings * limits).sum() / limits.sum()))
    return np.array(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.policies", description=__doc__)
    parser.add_argument("--policy", action="append", help="judge this one, as in `kubectl headroom backtest`; repeated")
    parser.add_argument("--resource", choices=("cpu", "memory"), action="append", help="judge this resource alone")
    parser.add_argument("--quick", action="store_true", help="two packings of August alone")
    asked = parser.parse_args(arguments)
    choices = parse(asked.policy or POLICIES)
    for resource in asked.resource or ("cpu", "memory"):
        names, found = list[str](), list[FloatArray]()
        for setting in settings(resource, quick=asked.quick):
            sys.stderr.write(f"{resource}: {setting.name}\n")
            names.append(setting.name)
            found.append(cases(setting, choices))
        head = ("policy", "mean of all", "worst case", *names)
        rows = [head, *(_row(name, own) for name, *own in zip(_names(choices), *found, strict=True))]
        what = "violation, mean of the packings (worst of them) @ savings; percent"
        sys.stdout.write(f"\n{resource}: {what}\n\n{results.markdown(rows)}\n")
    return 0


def _names(choices: Sequence[NamedPolicy]) -> list[str]:
    return ["oracle", *(choice.name for choice in choices)]


def _row(name: str, found: Sequence[FloatArray]) -> tuple[str, ...]:
    """Every column weighs the same in the mean, however many cases it has."""
    means = np.array([one.mean(axis=0) for one in found])
    worst = [one[:, 0].max() for one in found]
    columns = (f"{mean[0]:.2f} ({most:.2f}) @ {mean[1]:.2f}" for mean, most in zip(means, worst, strict=True))
    violation, savings = means.mean(axis=0)
    return (name, f"{violation:.2f} @ {savings:.2f}", f"{max(worst):.2f}", *columns)


def read(folder: str, resource: Resource) -> list[Trace]:
    """The traces of a folder, one a resource and, where they are apart, a day."""
    return sources.read("trace", [folder], sources.Options(resources=(resource,)), lambda _share, _what: None)


if __name__ == "__main__":
    sys.exit(main())

"""What the predictions are worth: the default policy and every model, on recorded usage, judged as `backtest` says."""

import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headroom.backtest import plot, policies, sources
from headroom.backtest.durations import format_span
from headroom.backtest.engine import ORACLE, NamedPolicy, Plan, run
from headroom.backtest.report import pooled
from headroom.backtest.score import Result
from headroom.backtest.trace import Trace
from tools.bench import data
from tools.bench.measurement import Grid, Item, Measurement, Picture

DEFAULT: Final = policies.DEFAULT
KOORDINATOR: Final = "percentile:margin=10"
"""Koordinator's rule: p95 of CPU and p98 of memory of each pod's decaying histogram, and 10 percent."""
POLICIES: Final = 12  # how many policies the time is measured with, the oracle not counted
MORE: Final = (
    '{"model":"max","of":[{"model":"nsigma-v2","parameters":{"n":3}},{"model":"diversity"}]}',
    "diversity:windowDays=7",
    "nsigma-v2:n=4",
    "recent-max:windowDays=3",
)
"""What is added to the models until there are so many."""
OTHERS: Final = (DEFAULT, KOORDINATOR, "recent-max:margin=10", "diversity:windowDays=7")
"""What is judged on other packings, on halves and on other machines."""
BUDGETS: Final = {"cpu": ("<= 2.5 %", ">= 63 %"), "memory": ("<= 3 %", ">= 65 %")}
HOUR, DAY = 3600, 86_400
SPEED_BUDGET: Final = "<= 120 s"
_HEAD: Final = ("violation, mean [%]", "p50", "p90", "severity [%]", "savings [%]")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is judged."""

    machines: int = 40  # what the series are packed on
    seeds: tuple[int, ...] = (0, 1)  # of the packings that the budgets are for
    fresh_seeds: tuple[int, ...] = (2, 3, 4, 5)  # of others
    days: float = 30.0  # of August
    planetlab: int = 3  # how many days of PlanetLab
    all_models: bool = True  # whether every model is judged, and as many policies as the time is told for


FULL: Final = Size()
QUICK: Final = Size(machines=2, seeds=(0,), fresh_seeds=(2,), days=4.5, planetlab=1, all_models=False)


def measure(*, quick: bool = False) -> Iterator[Item]:
    """The default policy beside its budgets, every model on August, and some on what was not used to choose."""
    size = QUICK if quick else FULL
    traces = [cut(trace, 0.0, size.days) for trace in _read(data.BITBRAINS)]
    chosen = policies.parse([policies.ALL, KOORDINATOR] if size.all_models else [DEFAULT, KOORDINATOR])
    if size.all_models:
        chosen += policies.parse(MORE)[: max(POLICIES - len(chosen), 0)]
    found = list[Result]()
    for trace in traces:
        results, clock, processor = _judged(trace, chosen, size)
        found += results
        yield from rows(results, size)
        what = f"backtest of {trace.resource}, {size.machines} machines, {size.days:g} days, {len(chosen)} policies"
        budget = SPEED_BUDGET if len(chosen) >= POLICIES else "none"
        yield Measurement(
            f"{what}: time of each seed", f"{clock:.0f} s; of processor {processor:.0f} s", budget, value=processor
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Measurement("backtest, both resources in memory: RSS at its peak", f"{peak:.0f} MiB")
    title = f"Bitbrains, August 2013, {size.machines} machines, seeds {_numbers(size.seeds)}, horizon 24 h, margins in:"
    yield Grid(title, grid(found))
    yield picture(found)
    yield Grid(
        "The same definitions on other packings, on halves of the month, on other machines:", _elsewhere(traces, size)
    )


def _read(folder: Path) -> list[Trace]:
    return sources.read("trace", [str(folder)], sources.Options(), lambda _share, _what: None)


def cut(trace: Trace, first: float, last: float) -> Trace:
    """A part of a trace.

    Args:
        trace: from which.
        first: where it begins. [days]
        last: before which it ends. [days]
    """
    steps = slice(*(round(days * DAY / trace.step_seconds) for days in (first, last)))
    return replace(trace, times=trace.times[steps], usage=trace.usage[steps])


def _judged(trace: Trace, chosen: Sequence[NamedPolicy], size: Size) -> tuple[list[Result], float, float]:
    """Results pooled over the seeds, and how long one of them took: by the clock, of the processor. [s]"""
    found, began, began_processor = list[Result](), time.perf_counter(), time.process_time()
    for seed in size.seeds:
        found += run(trace, chosen, Plan(machines=size.machines, seeds=(seed,)))
        print(f"{trace.resource}, seed {seed}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    count = len(size.seeds)
    clock, processor = time.perf_counter() - began, time.process_time() - began_processor
    return list(pooled(found)), clock / count, processor / count


def rows(results: Sequence[Result], size: Size) -> Iterator[Measurement]:
    """The default policy beside its budgets, with what Koordinator's rule and the oracle do in the same run."""
    by_name = {one.policy: one for one in results}
    own, rule, oracle = by_name[DEFAULT], by_name[KOORDINATOR], by_name[ORACLE]
    where = f"{own.resource}, {size.machines} machines, seeds {_numbers(size.seeds)}, horizon 24 h"
    least, most = BUDGETS[own.resource]
    violation, savings = own.violation_percent.mean, own.savings_percent
    yield Measurement(
        f"default policy, {where}: violation, mean",
        f"{violation:.2f} %",
        least,
        f"Koordinator's rule {rule.violation_percent.mean:.1f} %",
        violation,
    )
    yield Measurement(
        f"default policy, {where}: savings",
        f"{savings:.2f} %",
        most,
        f"Koordinator's rule {rule.savings_percent:.1f} %, oracle {oracle.savings_percent:.1f} %",
        savings,
    )


def grid(results: Sequence[Result]) -> list[list[str]]:
    """A line for each result, the least violations first."""
    lines = sorted(results, key=lambda one: (one.resource, one.violation_percent.mean, -one.savings_percent))
    return [["resource", "policy", *_HEAD], *([one.resource, f"`{one.policy}`", *_figures(one)] for one in lines)]


def _figures(one: Result) -> list[str]:
    spread = one.violation_percent
    return [
        f"{value:.2f}" for value in (spread.mean, spread.p50, spread.p90, one.severity_percent, one.savings_percent)
    ]


def picture(results: Sequence[Result]) -> Picture:
    """Violation against savings, and how machines differ."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "backtest.svg"
        plot.draw(results, file)
        return Picture(
            "backtest", "Violation against savings of every policy, and how machines differ", file.read_text()
        )


def _elsewhere(august: Sequence[Trace], size: Size) -> list[list[str]]:
    """Other packings, the halves of the month, and days of PlanetLab."""
    chosen = policies.parse(OTHERS)
    table = [["data", "resource", "horizon", "policy", *_HEAD]]

    def judge(title: str, traces: Sequence[Trace], plan: Plan, choices: Sequence[NamedPolicy] = chosen) -> None:
        for one in pooled([each for trace in traces for each in run(trace, choices, plan)]):
            horizon = format_span(one.horizon_seconds)
            table.append([title, one.resource, horizon, f"`{one.policy}`", *_figures(one)])
        print(title, file=sys.stderr, flush=True)

    for trace in august:
        judge(f"August, seeds {_numbers(size.fresh_seeds)}", [trace], Plan(size.machines, size.fresh_seeds))
        middle = size.days / 2
        for title, first, last in (("first half", 0.0, middle), ("second half", middle, size.days)):
            plan = Plan(size.machines, size.seeds)
            judge(f"{title} of August, seeds {_numbers(size.seeds)}", [cut(trace, first, last)], plan)
    days = _read(data.PLANETLAB)[: size.planetlab]
    plan = Plan(size.machines, size.seeds, (HOUR, 6 * HOUR), warm_up_seconds=6 * HOUR)
    early = [replace(one, policy=replace(one.policy, cold_start_period_seconds=6 * HOUR)) for one in chosen]
    judge(f"PlanetLab, {len(days)} single days, cold for 6 h, which are not counted", days, plan, early)
    return table


def _numbers(seeds: Sequence[int]) -> str:
    return " and ".join(map(str, seeds)) if len(seeds) < 3 else f"{min(seeds)} to {max(seeds)}"  # noqa: PLR2004 - two

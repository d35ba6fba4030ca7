"""Pods that come and go: what a shorter cold period costs, and what it is worth to remember workloads.

The trace in the repository is of machines that stay. Here its series live in slots of nodes for exponential times, as
the pods of a cluster do; a pod has no history when it comes, and counts with all that it requests until it was observed
for the cold period. A pod may also come back as the same workload, and then goes on with that workload's history on the
node, as in the agent. Judged by the backtest's own engine and definitions.

`python -m tools.bench.churn` prints the tables alone, as Markdown; `--quick` runs a little of it.
"""

import argparse
import itertools
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from crds.predict_policy import DEFAULTS
from headroom.backtest import sources
from headroom.backtest.engine import Churn, NamedPolicy, Plan, run
from headroom.backtest.policies import parse
from headroom.backtest.trace import Resource, Trace
from tools.bench import churn_picture, results
from tools.bench.machine import ROOT
from tools.bench.measurement import Grid, Item, Measurement

DATA: Final = ROOT / "tools/bench" / "data" / "bitbrains-rnd-2013-08"
RESOURCES: Final[tuple[Resource, ...]] = ("cpu", "memory")
HOUR, DAY = 3600, 86_400
SHIPPED: Final = (DEFAULTS.cold_start_period_seconds or 0) // HOUR  # the cold period of the default policy [h]
OTHERS: Final = ("nsigma-v2", "percentile")
"""What the default policy is compared with, as people get them: with their usual margin and the same cold period."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What becomes of a pod's place when it ends."""

    name: str  # in words
    comes_back_percent: float  # how many are followed by a pod of the same workload [%]
    workload_history: bool  # whether that one goes on with the workload's history


NEW: Final = Setting("every pod is of a new workload", 0.0, workload_history=True)
REMEMBERED: Final = Setting("9 of 10 come back as the same workload", 90.0, workload_history=True)
FORGOTTEN: Final = Setting("the same, workloads not remembered", 90.0, workload_history=False)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is judged."""

    lives_days: tuple[float, ...] = (2.0, 7.0, 30.0)  # mean lives of pods [days]
    cold_hours: tuple[int, ...] = tuple(sorted({24, 12, 6, 2, SHIPPED}, reverse=True))  # cold periods [h]
    machines: int = 40  # Nodes
    slots: int = 12  # Pods on each at a time
    seeds: tuple[int, ...] = (0,)  # of who comes when


FULL: Final = Scale()
QUICK: Final = Scale(lives_days=(7.0,), cold_hours=tuple(sorted({SHIPPED, 6}, reverse=True)), machines=2)


@dataclass(frozen=True, slots=True)
class Case:
    """One life and setting for one resource."""

    resource: Resource
    life_days: float
    setting: Setting


@dataclass(frozen=True, slots=True)
class Figures:
    """How one policy did. [percent]"""

    violation: float  # mean over the nodes
    savings: float  # of all limits together

    def __str__(self) -> str:
        """Violation @ savings."""
        return f"{self.violation:.2f} % @ {self.savings:.1f} %"


Found = Mapping[Case, Mapping[str, Figures]]
"""By case, and by policy: the default one by its cold period ("24h"), others by name, and the oracle."""


def measure(*, quick: bool = False) -> Iterator[Item]:
    """Rows of the default policy, a table per resource, and a picture."""
    scale = QUICK if quick else FULL
    found = judge(scale)
    yield from rows(found, scale)
    for resource in RESOURCES:
        yield grid(found, scale, resource)
    yield churn_picture.draw(curves(found, scale))


def judge(scale: Scale) -> dict[Case, Mapping[str, Figures]]:
    """Every case, on all processors."""
    settings = (NEW, REMEMBERED, FORGOTTEN)
    cases = list(itertools.starmap(Case, itertools.product(RESOURCES, scale.lives_days, settings)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(cases)), mp_context=context) as pool:
        return dict(zip(cases, pool.map(_judged, cases, itertools.repeat(scale)), strict=True))


def _judged(case: Case, scale: Scale) -> Mapping[str, Figures]:
    """Runs in a process of its own."""
    return figures(_traces()[case.resource], case, scale)


@lru_cache(maxsize=1)
def _traces() -> dict[Resource, Trace]:
    found = sources.read("trace", [str(DATA)], sources.Options(), lambda _share, _what: None)
    return {trace.resource: trace for trace in found}


def figures(trace: Trace, case: Case, scale: Scale) -> dict[str, Figures]:
    """How the policies did in one case."""
    plan = Plan(
        machines=scale.machines,
        seeds=scale.seeds,
        churn=Churn(case.life_days * DAY, scale.slots, case.setting.comes_back_percent),
        workload_history=case.setting.workload_history,
    )
    results = run(trace, choices(scale, others=case.setting == NEW), plan)
    return {one.policy: Figures(one.violation_percent.mean, one.savings_percent) for one in results}


def choices(scale: Scale, *, others: bool) -> list[NamedPolicy]:
    """The default policy with each cold period, and others if they are wanted."""
    own = [
        NamedPolicy(f"{hours}h", replace(DEFAULTS, cold_start_period_seconds=hours * HOUR))
        for hours in scale.cold_hours
    ]
    return [*own, *(parse(OTHERS) if others else ())]


def rows(found: Found, scale: Scale) -> Iterator[Measurement]:
    """The default policy as it ships, and what remembering workloads is worth."""
    shipped = f"{SHIPPED}h"
    size = f"{scale.machines} nodes x {scale.slots} pods"
    for resource, days in itertools.product(RESOURCES, scale.lives_days):
        new = found[Case(resource, days, NEW)]
        yield Measurement(
            f"churn: {resource}, pods that live {days:g} days, {size}: default policy as it ships, {SHIPPED} h "
            "cold; violation @ savings, 24 h horizon",
            str(new[shipped]),
            reference="; ".join(f"{name} {new[name]}" for name in (*OTHERS, "oracle")),
        )
        yield Measurement(
            f"churn: {resource}, {days:g} days, {REMEMBERED.name}",
            str(found[Case(resource, days, REMEMBERED)][shipped]),
            reference=f"workloads not remembered: {found[Case(resource, days, FORGOTTEN)][shipped]}",
        )


def grid(found: Found, scale: Scale, resource: Resource) -> Grid:
    """Lives and settings by cold period."""
    head = ["mean life", "pods that end", *(f"cold {hours} h" for hours in scale.cold_hours), "oracle"]
    cells = [
        [
            f"{case.life_days:g} days",
            case.setting.name,
            *(str(by_policy[f"{hours}h"]) for hours in scale.cold_hours),
            f"{by_policy['oracle'].savings:.1f} %",
        ]
        for case, by_policy in found.items()
        if case.resource == resource
    ]
    title = (
        f"Pods that come and go, {resource}: violation @ savings of the default policy by cold period (it ships with "
        f"{SHIPPED} h), its margin in, 24 h horizon, {scale.machines} nodes x {scale.slots} pods, Bitbrains 2013-08"
    )
    return Grid(title, [head, *cells])


def curves(found: Found, scale: Scale) -> list[churn_picture.Curve]:
    """What the picture shows: each life once with new workloads alone, once with remembered ones."""
    return [
        churn_picture.Curve(
            case.resource,
            f"{case.life_days:g} days" + (", remembered" if case.setting == REMEMBERED else ""),
            [(by_policy[f"{hours}h"].savings, by_policy[f"{hours}h"].violation) for hours in scale.cold_hours],
            [f"{hours} h" for hours in scale.cold_hours],
            dashed=case.setting == REMEMBERED,
        )
        for case, by_policy in found.items()
        if case.setting != FORGOTTEN
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.churn", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one life on two nodes, to see that it runs")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw it, too")
    options = parser.parse_args(arguments)
    if options.picture and not options.picture.parent.is_dir():
        parser.error(f"--picture: there is no folder {options.picture.parent}")
    scale = QUICK if options.quick else FULL
    found = judge(scale)
    for resource in RESOURCES:
        one = grid(found, scale, resource)
        print(f"{one.title}.\n\n{results.markdown(one.cells)}\n")
    print(
        results.markdown(
            [["what", "measured", "reference"], *([r.what, r.measured, r.reference] for r in rows(found, scale))]
        )
    )
    if options.picture:
        options.picture.write_text(churn_picture.draw(curves(found, scale)).svg, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Quality of the predictions: the default policy and every model, on recorded usage, scored as by `backtest`."""

import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kubectl_headroom.backtest import policies, sources
from kubectl_headroom.backtest.engine import ORACLE, NamedPolicy, Plan, run
from kubectl_headroom.backtest.score import Result
from kubectl_headroom.backtest.trace import Trace
from tools.bench import data
from tools.bench.rows import NONE, Item, Row, Table

DEFAULT: Final = policies.DEFAULT
KOORDINATOR: Final = "percentile:margin=10"
"""Koordinator's rule: p95 of CPU and p98 of memory of each pod's decaying histogram, and 10 percent."""
MORE: Final = (
    '{"model":"max","of":[{"model":"nsigma-v2","parameters":{"n":3}},{"model":"diversity"}]}',
    "diversity:windowDays=7",
    "nsigma-v2:n=4",
    "recent-max:windowDays=3",
)
"""Policies added to the models, up to the number for which the time is stated."""
POLICIES: Final = 12
SPEED_BUDGET: Final = "<= 120 s"
BUDGETS: Final = {
    ("cpu", 40): ("<= 1.8 %", ">= 63.2 %"),
    ("cpu", 10): ("<= 2.3 %", ">= 66.5 %"),
    ("cpu", 5): ("<= 2.3 %", ">= 69 %"),
    ("memory", 40): ("<= 2.0 %", ">= 65.6 %"),
    ("memory", 10): ("<= 2.3 %", ">= 73.5 %"),
    ("memory", 5): ("<= 2.3 %", ">= 77.5 %"),
}
"""Violation and savings by resource and machines: 12, 49 and 98 series a machine."""
SEEDS: Final = (0, 1)  # of the packings
DAY: Final = 86_400
HEAD: Final = ("resource", "policy", "violation, mean [%]", "p50", "p90", "severity [%]", "savings [%]")


def measure(*, quick: bool = False) -> Iterator[Item]:
    """Evaluate the default policy on packings of three sizes, and every model on the finest of them."""
    chosen = policies.parse([DEFAULT, KOORDINATOR])
    if not quick:
        chosen = policies.parse([policies.ALL, KOORDINATOR])
        chosen += policies.parse(MORE)[: max(POLICIES - len(chosen), 0)]
    every: list[Result] = []
    for trace in sources.read("trace", [str(data.BITBRAINS)], sources.Options(), lambda _share, _what: None):
        if quick:
            steps = round(4.5 * DAY / trace.step_seconds)
            trace = replace(trace, times=trace.times[:steps], usage=trace.usage[:steps])  # noqa: PLW2901 - shorter
        for machines in (2,) if quick else (40, 10, 5):
            finest = machines in (2, 40)
            scored = chosen if finest else policies.parse([DEFAULT, KOORDINATOR])
            results, seconds = _evaluated(trace, scored, machines, SEEDS[:1] if quick else SEEDS)
            yield from _rows(results, machines)
            if finest:
                every += results
                what = f"backtest of {trace.resource}, {machines} machines, {len(scored)} policies: time of each seed"
                budget = SPEED_BUDGET if len(scored) >= POLICIES else NONE
                yield Row(what, f"{seconds:.0f} s of processor", budget, value=seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Row("backtest, both resources in memory: RSS at its peak", f"{peak:.0f} MiB")
    lines = sorted(every, key=lambda one: (one.resource, one.violation_percent.mean, -one.savings_percent))
    title = "Bitbrains, August 2013, packed as above, horizon 24 h, margins in:"
    yield Table(title, [HEAD, *([line.resource, f"`{line.policy}`", *_figures(line)] for line in lines)])


def _evaluated(
    trace: Trace, chosen: Sequence[NamedPolicy], machines: int, seeds: Sequence[int]
) -> tuple[list[Result], float]:
    """Return results pooled over the seeds, and the processor's time of one of them. [s]"""
    results, began = list[Result](), time.process_time()
    for seed in seeds:
        results += run(trace, chosen, Plan(machines=machines, seeds=(seed,)))
    return pooled(results), (time.process_time() - began) / len(seeds)


def pooled(results: Sequence[Result]) -> list[Result]:
    """Pool results of several packings as if their machines were one fleet."""
    groups: dict[tuple[str, str, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result.policy, result.resource, result.horizon_seconds), []).append(result)
    return [
        replace(
            group[0],
            violation=np.concatenate([result.violation for result in group]),
            severity=np.concatenate([result.severity for result in group]),
            savings=np.concatenate([result.savings for result in group]),
            limits=np.concatenate([result.limits for result in group]),
        )
        for group in groups.values()
    ]


def _rows(results: Sequence[Result], machines: int) -> Iterator[Row]:
    """The default policy beside its budgets, with Koordinator's rule and the oracle of the same run."""
    by_name = {result.policy: result for result in results}
    local, rule, oracle = by_name[DEFAULT], by_name[KOORDINATOR], by_name[ORACLE]
    least, most = BUDGETS.get((local.resource, machines), (NONE, NONE))
    violation, savings = local.violation_percent.mean, local.savings_percent
    where = f"default policy, {local.resource}, {machines} machines, horizon 24 h"
    yield Row(
        f"{where}: violation, mean",
        f"{violation:.2f} %",
        least,
        f"Koordinator's rule {rule.violation_percent.mean:.1f} %",
        violation,
    )
    yield Row(
        f"{where}: savings",
        f"{savings:.2f} %",
        most,
        f"Koordinator's rule {rule.savings_percent:.1f} %, oracle {oracle.savings_percent:.1f} %",
        savings,
    )


def _figures(one: Result) -> list[str]:
    spread = one.violation_percent
    values = (spread.mean, spread.p50, spread.p90, one.severity_percent, one.savings_percent)
    return [f"{value:.2f}" for value in values]

"""The stated risk: violation and savings of `coincidence` by target, beside the fronts of other models."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.numerics.arrays import BoolArray
from kubectl_headroom.backtest import policies, sources
from kubectl_headroom.backtest.engine import Plan, run
from kubectl_headroom.backtest.placement import Churn
from kubectl_headroom.backtest.score import Result
from kubectl_headroom.backtest.trace import Trace
from tools.bench import data
from tools.bench.quality import DAY, pooled
from tools.bench.rows import Table

TARGETS: Final = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
FRONTS: Final = (
    *(f"diversity:windowDays={days},lambdaMin={least}" for days in (7, 14) for least in (0.2, 0.4, 0.6)),
    *(f"nsigma-v2:n={n}" for n in (3, 5, 8)),
    "percentile",
)
SLOTS: Final = 12  # pods of a machine that come and go


@dataclass(frozen=True, slots=True)
class Case:
    """A trace or a part of it, and its placement."""

    name: str
    machines: int
    seeds: Sequence[int] = (0, 1, 2, 3, 4, 5)
    horizon_hours: float = 24.0
    part: tuple[float, float] = (0.0, 1.0)  # of the trace: its begin and end, 0..1
    series: str = "all"  # a kind of `_kinds`
    churn: Churn | None = None
    models: tuple[str, ...] = ("diversity",)


def cases() -> Iterator[Case]:
    """Return all cases of a month."""
    for machines, series in ((40, 12), (20, 25), (10, 49), (5, 98)):
        yield Case(f"{series} a node", machines, models=FRONTS)
    for hours in (6.0, 1.0):
        for machines, series in ((40, 12), (10, 49)):
            yield Case(f"{series} a node, {hours:g} h ahead", machines, (0, 1), hours)
    yield Case("first half", 40, part=(0.0, 0.5))
    yield Case("second half", 40, part=(0.5, 1.0))
    for kind in ("calm", "wild", "idle", "busy", "rhythmic"):
        yield Case(f"{kind} machines, 12 a node", 20, (0, 1), series=kind)
    for days, percent in ((2, 0), (2, 90), (7, 0), (7, 90), (30, 0)):
        again = f", {percent} % return" if percent else ""
        yield Case(f"lives of {days} d{again}", 20, churn=Churn(days * DAY, SLOTS, percent))


def measure(*, quick: bool = False) -> Iterator[Table]:
    """Evaluate every case, 24 hours ahead unless it states another horizon. N-sigma and percentile have a margin."""
    for trace in traces():
        if quick:
            yield _table(trace, [Case("12 a node", 40, (0,), part=(0.0, 0.15))])
            continue
        every = list(cases())
        for models in dict.fromkeys(case.models for case in every):
            yield _table(trace, [case for case in every if case.models == models])


def traces() -> Iterable[Trace]:
    """Read CPU and memory of the month."""
    return sources.read("trace", [str(data.BITBRAINS)], sources.Options(), lambda _share, _what: None)


def _table(trace: Trace, chosen: Sequence[Case]) -> Table:
    """Return a row for each case, a column for each policy; all cases have the same models."""
    head = [
        "case",
        "oracle",
        *(f"target {target:g} %" for target in TARGETS),
        *(f"`{name}`" for name in chosen[0].models),
    ]
    rows = [[case.name, *map(_cell, evaluate(trace, case, case.seeds))] for case in chosen]
    return Table(f"{trace.resource}: mean violation @ savings [%], Bitbrains 2013-08:", [head, *rows])


def _cell(result: Result) -> str:
    return f"{result.violation_percent.mean:.2f} @ {result.savings_percent:.1f}"


def evaluate(trace: Trace, case: Case, seeds: Sequence[int]) -> list[Result]:
    """Return the oracle, `coincidence` by target, and the others, pooled over the seeds."""
    hours = f"horizonHours={case.horizon_hours:g}"
    names = [f"coincidence:targetViolationPercent={target:g},{hours}" for target in TARGETS]
    plan = Plan(case.machines, tuple(seeds), (round(3600 * case.horizon_hours),), churn=case.churn)
    return pooled(run(_part(trace, case), policies.parse([*names, *case.models]), plan))


def _part(trace: Trace, case: Case) -> Trace:
    """Return the steps and the series of a case."""
    there = _kinds(trace)[case.series]
    steps = slice(*(round(share * trace.steps) for share in case.part))
    names = tuple(np.array(trace.names)[there].tolist())
    usage, times = trace.usage[steps][:, there], trace.times[steps]
    return replace(trace, times=times, usage=usage, limits=trace.limits[there], names=names, workloads=None)


def _kinds(trace: Trace) -> Mapping[str, BoolArray]:
    """Return halves of the series: by their deviation against their mean, by their use of the limit, by their rhythm.

    The rhythm is the deviation of the mean day against that of all steps.
    """
    mean, spread = trace.usage.mean(axis=0), trace.usage.std(axis=0)
    in_day = round(DAY / trace.step_seconds)
    days = trace.usage[: trace.steps // in_day * in_day].reshape(-1, in_day, trace.series)
    wildness = spread / np.maximum(mean, 1e-9)
    rhythm = days.mean(axis=0).std(axis=0) / np.maximum(spread, 1e-9)
    share = mean / trace.limits
    return {
        "all": np.ones(trace.series, dtype=np.bool_),
        "calm": wildness <= np.median(wildness),
        "wild": wildness > np.median(wildness),
        "idle": share <= np.median(share),
        "busy": share > np.median(share),
        "rhythmic": rhythm > np.median(rhythm),
    }

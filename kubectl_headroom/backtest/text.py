"""A backtest's results for people: the inputs, a row for each policy, and the legend."""

from collections.abc import Sequence
from typing import Final

from crds.duration import format_span
from kubectl_headroom import table
from kubectl_headroom.backtest import report
from kubectl_headroom.backtest.durations import format_timestamp
from kubectl_headroom.backtest.engine import ORACLE
from kubectl_headroom.backtest.policies import DEFAULT
from kubectl_headroom.backtest.report import Report
from kubectl_headroom.backtest.score import Result
from kubectl_headroom.output import line
from kubectl_headroom.table import Cell, Column

_COLUMNS: Final = (
    Column("RESOURCE"),
    Column("HORIZON", ">"),
    Column("POLICY"),
    *(Column(name, ">") for name in ("MARGIN", "VIOLATION", "P50", "P90", "SEVERITY", "SAVINGS")),
    Column("MACHINES", ">", wide=True),
    Column("BEATEN BY", wide=True),
)
_LEGEND: Final = (
    "VIOLATION is the share of the steps at which less was predicted than was used within the horizon: its mean, its\n"
    "median and 90th percentile over the machines. SAVINGS is the share of the limits that need not be kept. Figures\n"
    "include the margin; a cold series counts at its limit, or at its workload's usage. The oracle knows the future."
)
_MOST_NOTES: Final = 8


def show(found: Report, *, wide: bool) -> None:
    """Print it; wide with all columns, notes and policies."""
    for trace in found.traces:
        begin, end = format_timestamp(float(trace.times[0])), format_timestamp(float(trace.times[-1]))
        every = format_span(trace.step_seconds)
        line(f"{trace.source}: {trace.resource} of {trace.series} series, {begin} to {end}, every {every}")
    print(f"{placed(found)} The first {format_span(found.plan.warm_up_seconds)} are not counted.\n")
    results = report.ranked(found.results)
    table.write(_COLUMNS, [_row(result, found, results) for result in results], wide=wide)
    print()
    for answer in answers(found):
        line(answer)
    for choice in found.choices:
        if wide or choice.name == DEFAULT:
            line(f"{choice.name} is {report.description(choice)}")
    notes = found.all_notes if wide else found.all_notes[:_MOST_NOTES]
    for note in notes:
        line(f"- {note}")
    if len(found.all_notes) > len(notes):
        print(f"… and {len(found.all_notes) - len(notes)} more notes: -o wide")
    print(_LEGEND)


def answers(found: Report) -> list[str]:
    """Return how much can be published for which risk: a sentence for each resource and horizon with targets."""
    policies = {choice.name: choice.policy for choice in found.choices if choice.horizon_seconds is not None}
    groups: dict[tuple[str, int], list[str]] = {}
    for result in found.results:
        if result.policy in policies:
            target = (policies[result.policy].parameters or {})["targetViolationPercent"]
            violated = result.violation_percent.mean
            above = ", above it" if violated > target else ""
            share = f"{result.savings_percent:.1f}% at a target of {target:g}% (measured {violated:.2f}%{above})"
            groups.setdefault((result.resource, result.horizon_seconds), []).append(share)
    return [
        f"If Mid pods should be able to stay for {format_span(seconds)}, these shares of the {resource} limits can be "
        f"published: {'; '.join(shares)}."
        for (resource, seconds), shares in groups.items()
    ]


def placed(found: Report) -> str:
    """Return where the series were, in a sentence."""
    plan, first = found.plan, found.results[0]
    many = f"{first.machines} machine{'' if first.machines == 1 else 's'}"
    named = ", ".join(map(str, first.seeds))
    seeds = f"seed{'s' if len(first.seeds) > 1 else ''} {named}"
    if plan.churn is not None:
        life = format_span(plan.churn.mean_life_seconds)
        return f"Series come and go on {many} (mean life {life}, {plan.churn.slots_per_machine} slots each, {seeds})."
    return f"Packed at random on {many}, {seeds}." if first.seeds else f"Where they really were: {many}."


def _row(each: Result, found: Report, results: Sequence[Result]) -> list[Cell]:
    violated = each.violation_percent
    choice = next((choice for choice in found.choices if choice.name == each.policy), None)
    margin = "-" if choice is None else f"{report.margin_percent(choice, each.resource)}%"
    beaten = report.dominating_policy(each, results)
    style = "bold" if each.policy in (DEFAULT, ORACLE) else "dim" if beaten else ""
    texts = (
        each.resource,
        format_span(each.horizon_seconds),
        each.policy,
        margin,
        f"{violated.mean:.2f}%",
        f"{violated.p50:.2f}%",
        f"{violated.p90:.2f}%",
        f"{each.severity_percent:.3f}%",
        f"{each.savings_percent:.1f}%",
        str(each.machines),
        beaten or "-",
    )
    return [Cell(text, style) for text in texts]

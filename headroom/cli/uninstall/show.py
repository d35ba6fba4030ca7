"""What uninstalling did, would do or refuses, for people and for programs."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headroom.cli import output as forms
from headroom.cli import table
from headroom.cli.table import Cell, Column
from headroom.cli.uninstall.plan import Asked, Busy, Change, Plan
from headroom.cli.uninstall.writing import Outcome

_MOST_PODS: Final = 5
_COLUMNS: Final = (Column("KIND"), Column("NAME"), Column("WHAT"), Column("RESULT"))


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to say."""

    outcomes: Sequence[Outcome]
    """The changes, and why they failed."""
    plan: Plan
    """What they came from."""
    asked: Asked
    """What the user asked for."""
    problems: Sequence[str] = ()
    """What else is wrong."""
    dry_run: bool = False
    """Whether nothing was changed."""

    @property
    def refused(self) -> bool:
        """Whether nothing is done, because Mid pods run."""
        return self.asked.refuses(self.plan)


def show(report: Report, output: str) -> None:
    """Print it.

    Args:
        report: what there is to say.
        output: one of `headroom.cli.output.FORMATS`.
    """
    if not forms.is_for_people(output):
        forms.show(_document(report), output)
        return
    if report.outcomes:
        rows = [(*_cells(change), _result(why, dry_run=report.dry_run)) for change, why in report.outcomes]
        table.write(_COLUMNS, rows, sys.stdout)
    for line in (*_sentences(report), *report.problems):
        forms.line(line)


def _cells(change: Change) -> tuple[Cell, ...]:
    return Cell(change.kind), Cell(change.name, "bold"), Cell(change.what)


def _result(why: str, *, dry_run: bool) -> Cell:
    if why:
        return Cell(f"failed: {why}", "red")
    return Cell("would be done" if dry_run else "done", "yellow" if dry_run else "green")


def _sentences(report: Report) -> list[str]:
    if report.refused:
        return _refusal(report)
    plan, said = report.plan, [_of_busy(each, report) for each in report.plan.busy]
    if plan.busy and not report.asked.force:
        said.append(
            "Let these Mid pods end, or delete them, and run this again; --force takes the resources away all the "
            "same, and a kubelet that restarts then fails the pods."
        )
    if plan.foreign:
        said.append(f"{plan.foreign} NodeMetrics that the manager did not write stay.")
    if plan.foreign_nodes:
        said.append(f"Mid resources of {plan.foreign_nodes} Nodes stay: Koordinator's manager wrote them.")
    if plan.named:
        said.append(f"PriorityClasses that pods or workloads name stay: {', '.join(plan.named)}.")
    if plan.unplaced:
        said.append(_of_unplaced(plan.scheduler, plan.unplaced))
    failed = sum(1 for _, why in report.outcomes if why)
    if failed:
        said.append(f"{failed} of {len(report.outcomes)} changes failed: run this again, it goes on where it stopped.")
    if not report.outcomes and not plan.busy:
        said.append("Nothing is left of the manager's writes.")
    elif report.dry_run:
        said.append("Nothing was changed: this is a dry run.")
    return said


def _refusal(report: Report) -> list[str]:
    """Why nothing is done, and the ways on."""
    busy = report.plan.busy
    dry = " (this is a dry run)" if report.dry_run else ""
    nodes = f"{len(busy)} Node{'s' if len(busy) > 1 else ''}"
    said = f"""\
Refused{dry}: Mid pods run on {nodes}, and nothing was changed.
{"".join(f"  Node {each.node}: {_pods(each)}" + chr(10) for each in busy)}\
Let them end, or delete them, and run this again; "enable": false in the colocation config sells nothing more meanwhile.
Or kubectl headroom uninstall --stop-selling: takes away all but what these pods bought.
Or kubectl headroom uninstall --force: takes everything, and a kubelet that restarts then fails these pods."""
    return said.splitlines()


def _pods(busy: Busy) -> str:
    return _some(busy.pods)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_PODS} more" if len(names) > _MOST_PODS else ""
    return f"{', '.join(names[:_MOST_PODS])}{more}"


def _of_unplaced(scheduler: str, names: Sequence[str]) -> str:
    return (
        f"Nobody places new pods with schedulerName: {scheduler} any more, and these have it: {_some(names)}. "
        "Take it out of them, or name a scheduler that runs."
    )


def _of_busy(busy: Busy, report: Report) -> str:
    if report.asked.force:
        lost = "would lose" if report.dry_run else "lost"
        return f"Node {busy.node} {lost} the resources of Mid pods that still run: {_pods(busy)}."
    return f"Node {busy.node} keeps what Mid pods bought that still run there: {_pods(busy)}."


def _document(report: Report) -> dict[str, Any]:
    return {
        "kind": "Uninstall",
        "version": 1,
        "dryRun": report.dry_run,
        "refused": report.refused,
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "what": change.what,
                "done": not report.dry_run and not why,
                "error": why or None,
            }
            for change, why in report.outcomes
        ],
        "nodesWithMidPods": [
            {
                "node": each.node,
                "pods": list(each.pods),
                "kept": None
                if report.asked.force
                else {"cpuMilli": each.bought.cpu, "memoryBytes": each.bought.memory},
            }
            for each in report.plan.busy
        ],
        "foreignNodeMetrics": report.plan.foreign,
        "foreignNodes": report.plan.foreign_nodes,
        "scheduler": report.plan.scheduler,
        "unplaced": list(report.plan.unplaced),
        "namedPriorityClasses": list(report.plan.named),
        "problems": list(report.problems),
    }

"""The findings for people and for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headroom.cli import output as forms
from headroom.cli import table
from headroom.cli.doctor.finding import Finding, Severity
from headroom.cli.table import Cell, Column, Row

_COLUMNS: Final = (Column("SEVERITY"), Column("CHECK"), Column("FINDING"))
_STYLES: Final = {
    Severity.OK: "green",
    Severity.INFO: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}

Told = tuple[str, Finding]


def show(told: Sequence[Told], output: str, *, preflight: bool) -> None:
    """Print the findings.

    Args:
        told: name of the check, and what it says.
        output: one of `headroom.cli.output.FORMATS`; wide adds the pages that say more.
        preflight: whether they are those before an install.
    """
    if not forms.is_for_people(output):
        forms.show(as_json(told, preflight=preflight), output)
        return
    table.write(_COLUMNS, [row for each in told for row in _rows(*each, wide=output == forms.WIDE)])
    forms.line(verdict(told))


def _rows(check: str, found: Finding, *, wide: bool) -> Iterator[Row]:
    yield Cell(found.severity, _STYLES[found.severity]), Cell(check), Cell(found.message)
    beside = [f"fix: {found.fix}"] if found.fix else []
    if wide:
        beside += [f"docs: docs/{found.docs}"] if found.docs else []
        beside += [f"all: {', '.join(found.objects)}"] if found.objects else []
    for line in beside:
        yield Cell(""), Cell(""), Cell(f"  {line}")


def verdict(told: Sequence[Told]) -> str:
    """What it comes to, in one line."""
    counts = Counter(found.severity for _, found in told)
    worst = [
        f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in (Severity.ERROR, Severity.WARNING)
        if counts[severity]
    ]
    blind = sum(found.is_blind for _, found in told)
    unseen = f"; {blind} of {len(told)} findings say only that this login may not look" if blind else ""
    return f"{' and '.join(worst) or 'No errors and no warnings'}{unseen}."


def as_json(told: Sequence[Told], *, preflight: bool) -> dict[str, Any]:
    """The findings for programs."""
    counts = Counter(found.severity for _, found in told)
    return {
        "kind": "Doctor",
        "version": 1,
        "preflight": preflight,
        "summary": {str(severity): counts[severity] for severity in Severity},
        "findings": [found.as_json(check) for check, found in told],
    }

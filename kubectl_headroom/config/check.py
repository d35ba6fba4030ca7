"""`kubectl headroom config check`: the findings of the admission webhook and the manager about a colocation config."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kubectl_headroom import output as outputs
from kubectl_headroom import table
from kubectl_headroom.config import file as config_file
from kubectl_headroom.config.file import ConfigFile
from kubectl_headroom.errors import FAILED
from kubectl_headroom.table import Cell, Column
from manager.api import ConfigFinding, Review, review

_COLUMNS: Final = (Column("LEVEL"), Column("WHERE"), Column("WHAT"))
_STYLES: Final = {"error": "red", "warning": "yellow"}


def run(source: str, output: str) -> int:
    """Print every error and warning; no cluster is read.

    Args:
        source: path of a file, or "-" for standard input, see `kubectl_headroom.config.file.read`.
        output: one of `kubectl_headroom.output.CHOICES`.

    Returns:
        The exit code: 1 when the text would be refused, 0 otherwise.

    Raises:
        CommandError: the file cannot be read, or holds no config.
    """
    file = config_file.read(source)
    result = review(file.text, keys=file.keys)
    report(file, result, output)
    return FAILED if result.refusals() else 0


def report(file: ConfigFile, found: Review, output: str) -> None:
    """Print the findings in the form of `-o`."""
    if outputs.is_for_people(output):
        show(file, found)
    else:
        outputs.show({"kind": "ConfigReview", **as_json(file, found)}, output)


def show(file: ConfigFile, found: Review) -> None:
    """Print the findings as a table, and a summary."""
    rows = [
        [Cell(level, _STYLES[level]), Cell(each.path or "(whole text)"), Cell(each.message)]
        for level, each in _findings(found)
    ]
    if rows:
        table.write(_COLUMNS, rows)
    outputs.line(f"{file.place}: {verdict(found)}")


def verdict(found: Review) -> str:
    """Return whether the text would be accepted, in one sentence."""
    warnings = f"{_count(len(found.warnings), 'warning')}" if found.warnings else ""
    errors = len(found.refusals())
    if not errors:
        return f"accepted, with {warnings}" if warnings else "accepted"
    counts = " and ".join(filter(None, (_count(errors, "error"), warnings)))
    if not found.errors:
        return f"refused: {counts}; without the webhook the manager would disable these entries of nodeConfigs alone"
    return f"refused: {counts}; without the webhook the manager would keep the last good config in force"


def as_json(file: ConfigFile, found: Review) -> dict[str, Any]:
    """The findings for programs."""
    return {
        "file": file.place,
        "accepted": not found.refusals(),
        "errors": _listed(found.errors),
        "entryErrors": _listed(found.entry_errors),
        "warnings": _listed(found.warnings),
    }


def _findings(found: Review) -> Iterator[tuple[str, ConfigFinding]]:
    yield from (("error", refusal) for refusal in found.refusals())
    yield from (("warning", warning) for warning in found.warnings)


def _listed(findings: Sequence[ConfigFinding]) -> list[dict[str, str]]:
    return [{"path": finding.path, "message": finding.message} for finding in findings]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

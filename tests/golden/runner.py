"""Runs vector files: reads them, finds the adapter of each vector, compares, and counts.

`deviations.json` has the vectors that we answer differently on purpose, with what we answer and why; `scope.json` those
that nothing of ours is meant to answer.
"""

import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.golden.adapters import FAMILIES, Adapter
from tests.golden.results import UnsupportedVectorError, difference

HERE: Final = Path(__file__).parent
_SCOPE: Final = json.loads((HERE / "scope.json").read_text(encoding="utf-8"))
_DEVIATIONS: Final = {
    (family, found["name"]): found
    for family, listed in json.loads((HERE / "deviations.json").read_text(encoding="utf-8")).items()
    for found in listed
}


class Outcome(StrEnum):
    """What became of a vector; the values are the keys of the JSON report."""

    PASSED = "passed"
    DEVIATION = "deviations"
    OUT_OF_SCOPE = "outOfScope"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One vector's outcome."""

    name: str
    """Name of the vector, for the report."""
    operation: str
    """Its `op`."""
    outcome: Outcome
    """What became of it."""
    detail: str = ""
    """The difference, or the reason why it is counted apart."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """The judgements of one file."""

    file: str
    """Name of the file."""
    judgements: tuple[Judgement, ...]
    """One for each vector."""

    def count(self, outcome: Outcome) -> int:
        """How many vectors ended that way."""
        return sum(judgement.outcome is outcome for judgement in self.judgements)

    @property
    def failures(self) -> list[Judgement]:
        """The vectors that failed."""
        return [judgement for judgement in self.judgements if judgement.outcome is Outcome.FAILED]

    def summary(self) -> dict[str, Any]:
        """The counts and the names of the failures, as the JSON report has them."""
        counts: dict[str, Any] = {outcome.value: self.count(outcome) for outcome in Outcome}
        return {**counts, "failures": [judgement.name for judgement in self.failures]}


def run_file(path: Path) -> FileReport:
    """Judge every vector of a file; a file that is no list of vectors is one failure."""
    try:
        vectors = json.loads(path.read_text(encoding="utf-8"))
        wrong = "" if isinstance(vectors, list) else f"it must be a list of vectors, and is {type(vectors).__name__}"
    except (OSError, ValueError, RecursionError) as error:
        wrong = f"it cannot be read: {error}"
    if wrong:
        return FileReport(path.name, (Judgement(path.name, "", Outcome.FAILED, wrong),))
    return FileReport(path.name, tuple(judge(path.stem, vector) for vector in vectors))


def judge(family: str, vector: Any) -> Judgement:  # noqa: ANN401 - anything may stand in a file
    """What becomes of one vector of a family, which is the name of its file without the ending."""
    if not (isinstance(vector, Mapping) and isinstance(vector.get("input"), Mapping) and "expected" in vector):
        return Judgement(str(vector)[:60], "", Outcome.FAILED, "it has no input and expected")
    name, operation = str(vector.get("name")), str(vector["input"].get("op"))
    try:
        outcome, detail = _outcome(family, name, operation, vector)
    except UnsupportedVectorError as error:
        outcome, detail = Outcome.UNSUPPORTED, str(error)
    except Exception as error:  # noqa: BLE001 - a vector that breaks our code has failed, the others still count
        outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {error}"
    return Judgement(name, operation, outcome, detail)


def _outcome(family: str, name: str, operation: str, vector: Mapping[str, Any]) -> tuple[Outcome, str]:
    for reason, left_out in _SCOPE.get(family, {}).items():
        if operation in left_out.get("operations", ()) or name in left_out.get("vectors", ()):
            return Outcome.OUT_OF_SCOPE, reason
    place = FAMILIES.get(family)
    adapter: Adapter | None = pkgutil.resolve_name(place).get(operation) if place else None
    if adapter is None:
        return Outcome.UNSUPPORTED, "no adapter"
    actual, tolerance = adapter(vector["input"]), vector.get("tolerance")
    found = difference(vector["expected"], actual, tolerance)
    if found is None:
        return Outcome.PASSED, ""
    deviation = _DEVIATIONS.get((family, name))
    if deviation is None:
        known = {
            each["reason"] for (of, _), each in _DEVIATIONS.items() if of == family and each["operation"] == operation
        }
        hint = f" (of this operation we deviate elsewhere: {'; '.join(sorted(known))})" if known else ""
        return Outcome.FAILED, f"{found}{hint}"
    ours = difference(deviation["ours"], actual, tolerance)
    if ours is None:
        return Outcome.DEVIATION, deviation["reason"]
    return Outcome.FAILED, f"{ours} (where we deviate: {deviation['reason']})"

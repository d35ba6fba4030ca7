"""Runs vector files: reads them, finds the adapter of each vector, compares, and counts.

`deviations.json` has vectors with a different result on purpose, the result and the reason; `scope.json` those
without an adapter on purpose.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.golden.adapters import adapter
from tests.golden.results import UnsupportedVectorError, difference

HERE: Final = Path(__file__).parent
_SCOPE: Final = json.loads((HERE / "scope.json").read_text(encoding="utf-8"))
_DEVIATIONS: Final = {
    (family, found["name"]): found
    for family, listed in json.loads((HERE / "deviations.json").read_text(encoding="utf-8")).items()
    for found in listed
}


class Outcome(StrEnum):
    PASSED = "passed"
    DEVIATION = "deviations"
    OUT_OF_SCOPE = "out of scope"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Judgement:
    name: str
    outcome: Outcome
    detail: str = ""  # the difference, or the reason why it is counted apart


@dataclass(frozen=True, slots=True)
class FileReport:
    file: str
    judgements: tuple[Judgement, ...]

    def count(self, outcome: Outcome) -> int:
        return sum(judgement.outcome is outcome for judgement in self.judgements)

    @property
    def failures(self) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.outcome is Outcome.FAILED]


def run_file(path: Path) -> FileReport:
    """Evaluate every vector of a file; a file that is no list of vectors is one failure."""
    try:
        vectors = json.loads(path.read_text(encoding="utf-8"))
        wrong = "" if isinstance(vectors, list) else f"it must be a list of vectors, and is {type(vectors).__name__}"
    except (OSError, ValueError, RecursionError) as error:
        wrong = f"it cannot be read: {error}"
    if wrong:
        return FileReport(path.name, (Judgement(path.name, Outcome.FAILED, wrong),))
    return FileReport(path.name, tuple(evaluate(path.stem, vector) for vector in vectors))


def evaluate(family: str, vector: Any) -> Judgement:  # noqa: ANN401 - a file may hold anything
    if not (isinstance(vector, Mapping) and isinstance(vector.get("input"), Mapping) and "expected" in vector):
        return Judgement(str(vector)[:60], Outcome.FAILED, "it has no input and expected")
    name, operation = str(vector.get("name")), str(vector["input"].get("op"))
    try:
        outcome, detail = _outcome(family, name, operation, vector)
    except UnsupportedVectorError as error:
        outcome, detail = Outcome.UNSUPPORTED, str(error)
    except Exception as error:  # noqa: BLE001 - a vector that breaks our code has failed, the others still count
        outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {error}"
    return Judgement(name, outcome, detail)


def _outcome(family: str, name: str, operation: str, vector: Mapping[str, Any]) -> tuple[Outcome, str]:
    for reason, left_out in _SCOPE.get(family, {}).items():
        if operation in left_out.get("operations", ()) or name in left_out.get("vectors", ()):
            return Outcome.OUT_OF_SCOPE, reason
    answer = adapter(family, operation)
    if answer is None:
        return Outcome.UNSUPPORTED, "no adapter"
    actual, tolerance = answer(vector["input"]), vector.get("tolerance")
    result = difference(vector["expected"], actual, tolerance)
    if result is None:
        return Outcome.PASSED, ""
    deviation = _DEVIATIONS.get((family, name))
    if deviation is None:
        return Outcome.FAILED, result
    ours = difference(deviation["ours"], actual, tolerance)
    if ours is None:
        return Outcome.DEVIATION, deviation["reason"]
    return Outcome.FAILED, f"{ours} (where we deviate: {deviation['reason']})"

"""Runs vector files: reads them, finds the adapter of each vector, applies the rules, compares, counts."""

import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.golden.adapters import AMBIGUOUS, FAMILIES, Adapter
from tests.golden.results import UnsupportedVectorError, difference
from tests.golden.rules import DEVIATIONS, OUT_OF_SCOPE
from tests.golden.rules.rule import Deviation


class Outcome(StrEnum):
    """What became of a vector; the values are the keys of the JSON report."""

    PASSED = "passed"
    DEVIATION = "deviations"
    OUT_OF_SCOPE = "outOfScope"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


class VectorFileError(Exception):
    """A file that is not a list of vectors; the message names it and says what is wrong."""


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
    """The difference, or the reason of the rule that applied."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """The judgements of one file."""

    file: str
    """Name of the file."""
    judgements: Sequence[Judgement] = field(default_factory=tuple)
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
        vectors = read_vectors(path)
    except VectorFileError as error:
        return FileReport(path.name, (Judgement(path.name, "", Outcome.FAILED, str(error)),))
    judgements = [judge(path.stem, vector, index) for index, vector in enumerate(vectors)]
    return FileReport(path.name, tuple(judgements))


def read_vectors(path: Path) -> list[Any]:
    """The entries of a vector file.

    Raises:
        VectorFileError: it cannot be read, is not JSON, or is not a list.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise VectorFileError(f"cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise VectorFileError(f"is not valid JSON: {error}") from None
    if not isinstance(content, list):
        raise VectorFileError(f"must be a list of vectors, is {type(content).__name__}")
    return content


def judge(stem: str, vector: Any, index: int = 0) -> Judgement:  # noqa: ANN401 - anything may stand in a file
    """What becomes of one vector.

    Args:
        stem: name of its file without the ending.
        vector: the vector.
        index: its place in the file.
    """
    problem = _malformed(vector)
    if problem:
        name = vector.get("name") if isinstance(vector, dict) else None
        label = name if isinstance(name, str) and name else f"entry {index}"
        return Judgement(label, "", Outcome.FAILED, f"malformed vector (entry {index}): {problem}")
    name, operation = vector["name"], vector["input"]["op"]
    try:
        outcome, detail = _outcome(family_of(stem, operation), operation, vector)
    except UnsupportedVectorError as error:
        outcome, detail = Outcome.UNSUPPORTED, str(error)
    except Exception as error:  # noqa: BLE001 - a vector that breaks our code or a rule has failed, the others still count
        outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {error}"
    return Judgement(name, operation, outcome, detail)


def _malformed(vector: Any) -> str | None:  # noqa: ANN401
    if not isinstance(vector, dict):
        return f"it must be an object, got {type(vector).__name__}"
    if not isinstance(vector.get("name"), str) or not vector["name"]:
        return "`name` must be a text"
    if not isinstance(vector.get("input"), dict) or not isinstance(vector["input"].get("op"), str):
        return "`input` must be an object with `op`, a text"
    if not isinstance(vector.get("expected"), dict):
        return "`expected` must be an object"
    tolerance = vector.get("tolerance")
    if tolerance is not None and (not isinstance(tolerance, int | float) or isinstance(tolerance, bool)):
        return f"`tolerance` must be a number, got {tolerance!r}"
    return None


def _outcome(family: str, operation: str, vector: Mapping[str, Any]) -> tuple[Outcome, str]:
    given, expected, tolerance = vector["input"], vector["expected"], vector.get("tolerance")
    reason = _out_of_scope(family, operation, given)
    if reason:
        return Outcome.OUT_OF_SCOPE, reason
    adapter = _operations(family).get(operation)
    if adapter is None:
        return Outcome.UNSUPPORTED, "no adapter"
    actual = adapter(given)
    found = difference(expected, actual, tolerance)
    if found is None:
        return Outcome.PASSED, ""
    deviation = _deviation(family, operation, given)
    if deviation is None:
        return Outcome.FAILED, found
    ours = difference(deviation.ours(given, expected), actual, tolerance)
    if ours is None:
        return Outcome.DEVIATION, deviation.reason
    return Outcome.FAILED, f"{ours} (where we deviate: {deviation.reason})"


def _out_of_scope(family: str, operation: str, given: Mapping[str, Any]) -> str | None:
    rules = (rule for rule in OUT_OF_SCOPE if rule.family == family and operation in rule.operations)
    return next((rule.reason for rule in rules if rule.when(given)), None)


def _deviation(family: str, operation: str, given: Mapping[str, Any]) -> Deviation | None:
    rules = (rule for rule in DEVIATIONS if rule.family == family and operation in rule.operations)
    return next((rule for rule in rules if rule.when(given)), None)


def family_of(stem: str, operation: str) -> str:
    """The family of an operation in a file of this name; empty when there is no telling.

    A file that is none of ours belongs to the family that its name begins with, else its operation has to be
    unmistakable.
    """
    known = max((family for family in FAMILIES if stem.startswith(family)), key=len, default="")
    if known or operation in AMBIGUOUS:
        return known
    answered = {family for family in FAMILIES if operation in _operations(family)}
    ruled = {rule.family for rule in (*OUT_OF_SCOPE, *DEVIATIONS) if operation in rule.operations}
    return (answered | ruled).pop() if len(answered | ruled) == 1 else ""


def _operations(family: str) -> Mapping[str, Adapter]:
    place = FAMILIES.get(family)
    operations: Mapping[str, Adapter] = pkgutil.resolve_name(place) if place else {}
    return operations

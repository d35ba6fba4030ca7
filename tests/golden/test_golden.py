"""The reference vectors, and our own recorded results."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.__main__ import VECTORS, main
from tests.golden.results import Amount, Exact, difference
from tests.golden.runner import HERE, Outcome, evaluate, run_file

EMPTY: dict[str, Any] = {
    "name": "empty",
    "input": {
        "op": "sequence",
        "options": {"type": "linear", "bucketSize": 1, "maxValue": 10, "epsilon": 1e-15},
        "steps": [{"op": "is_empty"}],
    },
    "expected": {"results": [{"step": 0, "isEmpty": True}]},
}
REGRESSION = HERE / "regression"


@pytest.mark.parametrize("file", sorted(VECTORS.glob("*.json")), ids=lambda file: file.stem)
def test_every_vector_has_its_answer(file: Path) -> None:
    """Every reference vector passes, deviates as `deviations.json` says, or is out of scope."""
    wrong = [
        judgement
        for judgement in run_file(file).judgements
        if judgement.outcome in (Outcome.FAILED, Outcome.UNSUPPORTED)
    ]
    assert [f"{case.name}: {case.detail}" for case in wrong] == []


@pytest.mark.parametrize("file", sorted(REGRESSION.glob("*.json")), ids=lambda file: file.stem)
def test_recorded_results_are_stable(file: Path) -> None:
    """Inputs without a peer's result give the results that were checked when they were recorded."""
    report = run_file(file)
    assert [
        f"{judgement.name}: {judgement.detail}"
        for judgement in report.judgements
        if judgement.outcome is not Outcome.PASSED
    ] == []


def test_data_is_about_vectors() -> None:
    """Every deviation and everything out of scope has a reason, and names a vector that there is."""
    deviations = json.loads((HERE / "deviations.json").read_text())
    scope = json.loads((HERE / "scope.json").read_text())
    for family in {*deviations, *scope}:
        names = {vector["name"] for vector in json.loads((VECTORS / f"{family}.json").read_text())}
        left_out = [name for inputs in scope.get(family, {}).values() for name in inputs.get("vectors", ())]
        assert {item["name"] for item in deviations.get(family, ())} | set(left_out) <= names
        assert all(entry["reason"] for entry in deviations.get(family, ()))


def _expecting(expected: Any) -> dict[str, Any]:  # noqa: ANN401 - anything may be expected
    return {**EMPTY, "expected": expected}


@pytest.mark.parametrize(
    ("family", "vector", "outcome"),
    [
        ("histogram", EMPTY, Outcome.PASSED),
        ("histogram", _expecting({"results": [{"step": 0, "isEmpty": False}]}), Outcome.FAILED),
        ("histogram", _expecting({"results": []}), Outcome.FAILED),
        ("histogram", {**EMPTY, "input": {"op": "no such"}}, Outcome.UNSUPPORTED),
        ("no_such_family", EMPTY, Outcome.UNSUPPORTED),
        ("histogram", {**EMPTY, "input": {"op": "sequence"}}, Outcome.FAILED),
        ("histogram", {"name": "no input"}, Outcome.FAILED),
        ("histogram", 5, Outcome.FAILED),
        ("mid_resource", {**EMPTY, "input": {"op": "mask_cpu_memory"}}, Outcome.OUT_OF_SCOPE),
    ],
)
def test_outcomes(family: str, vector: Any, outcome: Outcome) -> None:  # noqa: ANN401
    """A wrong result fails, and so does a malformed vector; one without an adapter is counted apart."""
    assert evaluate(family, vector).outcome is outcome


def test_deviation_is_asserted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deviating vector fails where our result differs from the recorded one."""
    wrong = _expecting({"results": [{"step": 0, "isEmpty": False}]})
    for ours, outcome in ((EMPTY["expected"], Outcome.DEVIATION), ({"error": True}, Outcome.FAILED)):
        recorded = {"name": "empty", "operation": "sequence", "reason": "why", "ours": ours}
        monkeypatch.setattr("tests.golden.runner._DEVIATIONS", {("histogram", "empty"): recorded})
        assert evaluate("histogram", wrong).outcome is outcome


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, Exact({"a": 1, "b": 2}), False),
        ({"a": None}, {}, True),
        ({"message": "x"}, {}, True),
        ("500m", Amount.of("0.5"), True),
        ("501m", Amount.of("0.5"), False),
        (1.0, 1.0 + 1e-14, True),
        (1.0, 1.0 + 1e-9, False),
        (1, True, False),
        ([1], [1, 2], False),
    ],
)
def test_comparison(expected: Any, actual: Any, same: bool) -> None:  # noqa: ANN401, FBT001
    """Expected keys alone count, null is absent, amounts are equal in any notation, floats up to the last digits."""
    assert (difference(expected, actual, None) is None) is same


def test_command_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints a line per file, and its status says whether anything failed."""
    (tmp_path / "histogram.json").write_text(json.dumps([EMPTY, _expecting({"results": []})]))
    (tmp_path / "broken.json").write_text("{")
    assert main([str(tmp_path)]) == 1
    broken, failure, histogram, wrong = capsys.readouterr().out.splitlines()
    assert (broken.split()[0], broken.split()[-2:]) == ("broken.json", ["1", "failed"])
    assert failure.startswith("    FAILED broken.json: ")
    assert histogram.split()[:3] == ["histogram.json", "1", "passed"]
    assert wrong.startswith("    FAILED empty: ")
    assert main([str(tmp_path / "none")]) == 2
    assert main(["--only", "priority"]) == 2

"""The golden runner itself: outcomes, exit status, report, and files it has never seen."""

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.golden import runner
from tests.golden.__main__ import main
from tests.golden.results import Amount, Exact, difference
from tests.golden.rules.rule import Deviation, OutOfScope

EMPTY = {
    "name": "empty",
    "input": {
        "op": "sequence",
        "options": {"type": "linear", "bucketSize": 1, "maxValue": 10, "epsilon": 1e-15},
        "steps": [{"op": "is_empty"}],
    },
    "expected": {"results": [{"step": 0, "isEmpty": True}]},
}


def _write(folder: Path, name: str, content: Any) -> Path:  # noqa: ANN401
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def _outcomes(folder: Path, vectors: list[Any], name: str = "histogram.json") -> list[runner.Outcome]:
    report = runner.run_file(_write(folder, name, vectors))
    return [judgement.outcome for judgement in report.judgements]


def test_wrong_expectation_fails(tmp_path: Path) -> None:
    """An answer that differs from the expected one is a failure that names the place."""
    wrong = {**EMPTY, "expected": {"results": [{"step": 0, "isEmpty": False}]}}
    report = runner.run_file(_write(tmp_path, "histogram.json", [wrong]))
    assert [failure.detail for failure in report.failures] == ["results[0].isEmpty: expected False, got True"]


def test_unknown_operation_is_unsupported(tmp_path: Path) -> None:
    """An operation without an adapter, and a step that no adapter knows, are unsupported."""
    unknown = {**EMPTY, "input": {"op": "levitate"}}
    step = {**EMPTY, "input": {**EMPTY["input"], "steps": [{"op": "levitate"}]}}  # type: ignore[dict-item]
    assert _outcomes(tmp_path, [unknown, step]) == [runner.Outcome.UNSUPPORTED] * 2


def test_unknown_file_works(tmp_path: Path) -> None:
    """Vectors in a file of any name find the only adapter of their operation."""
    assert _outcomes(tmp_path, [EMPTY], "never-seen.json") == [runner.Outcome.PASSED]
    assert _outcomes(tmp_path, [EMPTY], "histogram_2.json") == [runner.Outcome.PASSED]


def test_general_operation_needs_its_file(tmp_path: Path) -> None:
    """An operation that several families have is not guessed at in a file that belongs to none of them."""
    score = {**EMPTY, "input": {"op": "score"}}
    assert _outcomes(tmp_path, [score], "never-seen.json") == [runner.Outcome.UNSUPPORTED]


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        ("text", "it must be an object, got str"),
        ({**EMPTY, "name": 3}, "`name` must be a text"),
        ({**EMPTY, "input": {}}, "`input` must be an object with `op`, a text"),
        ({**EMPTY, "expected": []}, "`expected` must be an object"),
        ({**EMPTY, "tolerance": "1"}, "`tolerance` must be a number, got '1'"),
    ],
)
def test_malformed_vector_fails(tmp_path: Path, vector: object, problem: str) -> None:
    """A malformed vector is one failure with a clear line, and the next vector still counts."""
    report = runner.run_file(_write(tmp_path, "histogram.json", [vector, EMPTY]))
    assert report.failures[0].detail == f"malformed vector (entry 0): {problem}"
    assert report.count(runner.Outcome.PASSED) == 1


def test_incomplete_input_fails(tmp_path: Path) -> None:
    """An input that lacks what its operation needs is a failure, not a traceback."""
    incomplete = {**EMPTY, "input": {"op": "sequence"}}
    assert _outcomes(tmp_path, [incomplete, EMPTY]) == [runner.Outcome.FAILED, runner.Outcome.PASSED]


def test_broken_rule_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that a rule cannot read is a failure of that vector, and the next one still counts."""

    def judged(place: str, rule: object) -> list[runner.Outcome]:
        with monkeypatch.context() as patch:
            patch.setattr(runner, place, (rule,))
            wrong = {**EMPTY, "expected": {"results": [None]}}
            return _outcomes(tmp_path, [wrong, {**EMPTY, "input": {"op": "levitate"}}])

    def broken(given: Mapping[str, Any], _theirs: object = None) -> Any:  # noqa: ANN401
        return given["nothing"]

    after_failure = [runner.Outcome.FAILED, runner.Outcome.UNSUPPORTED]
    assert judged("OUT_OF_SCOPE", OutOfScope("histogram", ("sequence",), "a test", when=broken)) == after_failure
    assert judged("DEVIATIONS", Deviation("histogram", ("sequence",), "a test", ours=broken)) == after_failure


def test_refused_step_is_error(tmp_path: Path) -> None:
    """A step that makes the peer panic is refused with an error of ours, and asserted to be."""
    add = {"op": "add", "value": 1, "weight": -1, "timeUnix": None}
    merge = {"op": "merge", "other": [add]}
    panics = [
        {"name": step["op"], "input": {**EMPTY["input"], "steps": [step]}, "expected": {"panics": True}}  # type: ignore[dict-item]
        for step in (add, merge)
    ]
    assert _outcomes(tmp_path, panics) == [runner.Outcome.DEVIATION] * 2
    harmless = {**panics[0], "input": {**EMPTY["input"], "steps": [{**add, "weight": 1}]}}  # type: ignore[dict-item]
    assert _outcomes(tmp_path, [harmless]) == [runner.Outcome.FAILED]


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{", "is not valid JSON"), ("{}", "must be a list of vectors, is dict"), ("[" * 100_000, "is not valid JSON")],
)
def test_broken_file_fails(tmp_path: Path, content: str, problem: str) -> None:
    """A file that holds no list of vectors is one failure that bears its name."""
    report = runner.run_file(_write(tmp_path, "broken.json", content))
    assert [failure.name for failure in report.failures] == ["broken.json"]
    assert problem in report.failures[0].detail


def test_deviation_is_asserted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a rule says what we answer instead, exactly that counts as a deviation and anything else fails."""
    theirs = {**EMPTY, "expected": {"results": [{"step": 0, "isEmpty": None}]}}

    def judged(*, ours: bool) -> list[runner.Outcome]:
        answer = {"results": [{"step": 0, "isEmpty": ours}]}
        rule = Deviation("histogram", ("sequence",), "a test", ours=lambda _input, _theirs: answer)
        monkeypatch.setattr(runner, "DEVIATIONS", (rule,))
        return _outcomes(tmp_path, [theirs])

    assert judged(ours=True) == [runner.Outcome.DEVIATION]
    assert judged(ours=False) == [runner.Outcome.FAILED]


def test_scope_rule_looks_at_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scope rule applies to the inputs it describes and to no others."""
    rule = OutOfScope("histogram", ("sequence",), "a test", when=lambda given: not given["steps"])
    monkeypatch.setattr(runner, "OUT_OF_SCOPE", (rule,))
    bare = {**EMPTY, "input": {**EMPTY["input"], "steps": []}}  # type: ignore[dict-item]
    assert _outcomes(tmp_path, [bare, EMPTY]) == [runner.Outcome.OUT_OF_SCOPE, runner.Outcome.PASSED]


def test_report_and_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints a line per file, writes the counts, and exits with 1 when something failed."""
    _write(tmp_path, "histogram.json", [EMPTY])
    _write(tmp_path, "wrong.json", [{**EMPTY, "expected": {"results": []}}])
    report = tmp_path / "out" / ".." / "report.txt"
    (tmp_path / "out").mkdir()
    assert main([str(tmp_path), "--json", str(report)]) == 1
    counts = {"passed": 0, "deviations": 0, "outOfScope": 0, "unsupported": 0, "failed": 0}
    assert json.loads(report.read_text()) == {
        "files": {
            "histogram.json": {**counts, "passed": 1, "failures": []},
            "wrong.json": {**counts, "failed": 1, "failures": ["empty"]},
        }
    }
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "histogram.json",
        "wrong.json",
        "FAILED",
    ]
    assert main([str(tmp_path), "--only", "histogram"]) == 0
    assert main([str(tmp_path), "--only", str(tmp_path / "histogram.json")]) == 0


def test_wrong_call_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without vectors, or a file that is not there, ends with 2 and one line."""
    assert main([str(tmp_path)]) == 2
    assert main([str(tmp_path), "--only", "nope.json"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"There is no vector file (*.json) in {tmp_path}.", f"There is no nope.json in {tmp_path}."]


@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "same"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, None, True),  # keys that are not expected do not matter
        ({"a": 1}, Exact({"a": 1, "b": 2}), None, False),  # except in a map of data
        ({"a": 1}, {}, None, False),
        ({"a": None}, {"a": None}, None, True),
        ({"a": None}, {}, None, True),  # null means absent
        ({"a": None}, {"a": 0}, None, False),
        ([1, 2], [1, 2, 3], None, False),  # lists are exact
        ([1, 2], [2, 1], None, False),
        (5, 5.0, None, True),
        (0.1 + 0.2, 0.3, None, True),  # the last digits
        (1.0, 1.0001, None, False),
        (1.0, 1.0001, 0.001, True),
        (True, 1, None, False),  # true is not a number
        ("0.5", Amount(Fraction(1, 2)), None, True),
        ("500m", Amount(Fraction(1, 2)), None, True),
        ("501m", Amount(Fraction(1, 2)), None, False),
        (None, Amount(0), None, False),  # absent is not zero
    ],
)
def test_comparison(expected: object, actual: object, tolerance: float | None, same: bool) -> None:  # noqa: FBT001
    """Only expected keys count, lists are exact, floats may differ in the last digits or by the tolerance."""
    assert (difference(expected, actual, tolerance) is None) is same

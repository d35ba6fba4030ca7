"""Properties in rounds: how many each has, and what is read of pytest's results."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import rounds
from tools.soak.fuzz import Property, files, judge, properties
from tools.soak.progress import Telling

RESULTS = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="0" failures="1" skipped="0" tests="3">
<testcase classname="tests.fuzz.a" name="test_b" time="1"><properties>
<property name="rounds tried" value="40" /></properties></testcase>
<testcase classname="tests.fuzz.a" name="test_c" time="1"><failure message="x">y</failure></testcase>
<testcase classname="tests.fuzz.a" name="test_d" time="1"><error message="x">y</error></testcase>
</testsuite></testsuites>"""


def test_results_are_read(tmp_path: Path) -> None:
    """A test that failed, in itself or before it, has failed; rounds are those that it noted."""
    file = tmp_path / "results.xml"
    file.write_text(RESULTS)
    assert list(properties(file)) == [
        Property("tests.fuzz.a::test_b", failed=False, rounds=40),
        Property("tests.fuzz.a::test_c", failed=True, rounds=None),
        Property("tests.fuzz.a::test_d", failed=True, rounds=None),
    ]


def _item(test: Any, properties_in_all: int = 1) -> Any:  # noqa: ANN401 - as much of pytest's item as is asked of it
    return SimpleNamespace(
        obj=test,
        session=SimpleNamespace(items=[None] * properties_in_all),
        _fixtureinfo=SimpleNamespace(argnames=()),
        funcargs={},
        user_properties=[],
    )


@pytest.fixture
def soaking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As in `make soak`; the file that counts what has begun."""
    begun = tmp_path / "begun"
    begun.touch()
    monkeypatch.setattr(rounds, "SOAK", True)
    monkeypatch.setattr(rounds, "BEGUN", str(begun))
    monkeypatch.setattr(rounds, "UNTIL", time.time() + 3600)
    return begun


def _property(inputs: list[int]) -> Any:  # noqa: ANN401 - a test
    @settings(max_examples=2, database=None)
    @given(st.integers())
    def holds(number: int) -> None:
        inputs.append(number)

    return holds


def test_all_rounds_are_run(soaking: Path) -> None:
    """With time, a property has all rounds but the last, which pytest runs; it is noted, and counted as begun."""
    inputs: list[int] = []
    item = _item(_property(inputs))
    rounds.repeat(item)
    assert len(inputs) == 2 * (rounds.ROUNDS - 1)
    assert item.user_properties == [(rounds.TRIED, rounds.ROUNDS)]
    assert soaking.stat().st_size == 1


def test_no_time_is_one_round(soaking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With next to no time for it, a property has only the round that pytest runs."""
    monkeypatch.setattr(rounds, "_share", lambda _: 0.0)
    inputs: list[int] = []
    item = _item(_property(inputs))
    rounds.repeat(item)
    assert inputs == []
    assert item.user_properties == [(rounds.TRIED, 1)]
    assert soaking.stat().st_size == 0


def test_nothing_begins_too_late(soaking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time of all is over, a property is skipped, and it is noted that it had nothing."""
    monkeypatch.setattr(rounds, "UNTIL", time.time() - 1)
    inputs: list[int] = []
    item = _item(_property(inputs))
    with pytest.raises(pytest.skip.Exception):
        rounds.repeat(item)
    assert inputs == []
    assert item.user_properties == [(rounds.TRIED, 0)]
    assert soaking.stat().st_size == 0


@pytest.mark.parametrize(
    ("found", "code", "failed", "what"),
    [
        ([Property("a", False, 100), Property("b", False, 40)], 0, 0, "2 were tried, 1 of them with all inputs"),
        ([Property("a", True, None), Property("b", False, 100)], 1, 1, "a failed"),
        ([Property("a", False, 0), Property("b", False, 100)], 0, 1, "no time was left for a: give it more"),
        ([Property("a", False, 100)], 3, 1, "pytest ended with 3"),
        ([], 5, 1, "pytest ended with 5"),
        ([Property(f"p{n}", True, None) for n in range(7)], 1, 1, "p4, 2 more failed"),
    ],
)
def test_results_are_judged(
    found: list[Property], code: int, failed: int, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A property that failed, was left out, or a pytest that broke off fails the step, and is named."""
    telling = Telling(60.0)
    judge(telling, found, code)
    assert telling.failed == failed
    assert what in capsys.readouterr().out


def test_time_is_shared(soaking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its part of what is left: a tenth for the first of ten, all for the last."""
    monkeypatch.setattr(rounds, "SHARED_UNTIL", time.time() + 1000)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    assert rounds._share(10) == pytest.approx(100, abs=5)
    soaking.write_bytes(b"." * 9)
    assert rounds._share(10) == pytest.approx(1000, abs=50)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    soaking.write_bytes(b"")
    assert rounds._share(10) == pytest.approx(200, abs=10)


def test_ordinary_tests_run_once(soaking: Path) -> None:
    """A test that is no property is left to pytest."""
    item = _item(lambda: pytest.fail("run twice"))
    rounds.repeat(item)
    assert item.user_properties == []
    assert soaking.stat().st_size == 0


def test_rounds_make_up_all_inputs() -> None:
    """Together the rounds have at least as many inputs as are promised."""
    assert rounds.of_a_round(10_000) * rounds.ROUNDS >= 10_000
    assert rounds.of_a_round(1) == 1


def test_files_with_properties_are_found() -> None:
    """Parsers' files and those with properties of their own are tried; this one has some, others have none."""
    found = files()
    assert {"tests/fuzz/test_pods.py", "tests/manager/test_mid_properties.py", "tests/tools/soak/test_fuzz.py"} <= set(
        found
    )
    assert "tests/tools/soak/test_main.py" not in found

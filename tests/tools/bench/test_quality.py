"""What is made of the backtest's results: rows beside budgets, tables, a picture."""

from dataclasses import replace

import numpy as np
import pytest

from headroom.backtest import policies
from headroom.backtest.engine import ORACLE
from headroom.backtest.score import Result
from headroom.backtest.trace import Resource, Trace
from tools.bench import quality


def _result(policy: str, violation: float, savings: float, resource: Resource = "cpu") -> Result:
    two = np.array([violation, violation]) / 100
    return Result(
        policy, resource, 86_400, 2, (0,), two, two / 10, np.array([savings, savings]) / 100, np.array([1.0, 3.0])
    )


RESULTS = [
    _result(ORACLE, 0.0, 73.4),
    _result(quality.DEFAULT, 2.4, 63.2),
    _result(quality.KOORDINATOR, 23.0, 68.3),
]


def test_default_stands_beside_its_budgets() -> None:
    """Violation and savings of the default policy have budgets, and the figures of Koordinator's rule beside."""
    violation, savings = quality.rows(RESULTS, quality.FULL)
    assert (violation.measured, violation.budget, violation.within) == ("2.40 %", "<= 2.5 %", True)
    assert violation.reference == "Koordinator's rule 23.0 %"
    assert (savings.measured, savings.budget, savings.within) == ("63.20 %", ">= 63 %", True)
    assert savings.reference == "Koordinator's rule 68.3 %, oracle 73.4 %"
    assert "40 machines, seeds 0 and 1, horizon 24 h" in savings.what


def test_memory_has_its_own_budgets() -> None:
    """Memory may be violated in 3 % and has to save 65 %."""
    memory = [replace(one, resource="memory") for one in RESULTS]
    violation, savings = quality.rows(memory, quality.FULL)
    assert (violation.budget, savings.budget) == ("<= 3 %", ">= 65 %")
    assert (violation.within, savings.within) == (True, False)


def test_grid_begins_with_the_safest() -> None:
    """A line for each policy, the least violations first."""
    head, *lines = quality.grid(RESULTS[::-1])
    assert [line[1] for line in lines] == ["`oracle`", "`default`", "`percentile:margin=10`"]
    assert lines[1] == ["cpu", "`default`", "2.40", "2.40", "2.40", "0.24", "63.20"]
    assert {len(line) for line in lines} == {len(head)}


def test_picture_is_a_drawing() -> None:
    """The picture is made of the results."""
    made = quality.picture(RESULTS)
    assert made.name == "backtest"
    assert made.svg.startswith("<?xml")


def test_trace_is_cut_by_days() -> None:
    """A part of a trace has the steps of its days and nothing else."""
    usage = np.arange(8.0).reshape(4, 2)
    trace = Trace("cpu", np.arange(4, dtype=np.float64) * 43_200.0, 43_200.0, usage, np.ones(2), ("a", "b"))
    part = quality.cut(trace, 0.5, 1.5)
    assert part.times.tolist() == [43_200.0, 86_400.0]
    assert part.usage.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_enough_policies_for_the_time() -> None:
    """With what is added to the models, the time is told for as many policies as its budget says."""
    chosen = policies.parse([policies.ALL, quality.KOORDINATOR])
    assert len(chosen) + len(quality.MORE) >= quality.POLICIES
    assert len(policies.parse(quality.MORE)) == len(quality.MORE)
    assert not {choice.name for choice in chosen} & set(quality.MORE)


@pytest.mark.parametrize("name", quality.OTHERS)
def test_policies_can_be_followed(name: str) -> None:
    """What is judged elsewhere is a policy that the agent knows."""
    assert [choice.name for choice in policies.parse([name])] == [name]

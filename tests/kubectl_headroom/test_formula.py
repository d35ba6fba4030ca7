import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.calculators.base import Term
from manager.calculators.mid import calculate
from manager.inputs import Resource
from manager.mid.explanation.formula import Operand, decisive, evaluate, operands
from tests.support.objects import mid_pod, node, node_inputs, pod, report


def term(formula: str, value: int, **inputs: int) -> Term:
    return Term("t", Resource.CPU, formula, value, {name.replace("_", " "): number for name, number in inputs.items()})


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("a", 10),
        ("a + b", 13),
        ("a - b - a", -3),
        ("a - (b - a)", 17),
        ("a * b", 30),
        ("a + c * share percent", 10 + 2566),  # 33 % of 7777, truncated
        ("min(a, max(b, 5), a + b)", 5),
        ("max(b - a, 0)", 0),
    ],
)
def test_formula_is_calculated(formula: str, value: int) -> None:
    """Sums, differences from the left, products before sums, truncated shares, brackets, min and max."""
    assert evaluate(formula, {"a": 10, "b": 3, "c": 7777, "share percent": 33}) == value


@pytest.mark.parametrize(
    "formula", ["", "x", "a +", "min(a", "a b", "(a", "a)", "Reclaimable[Prod] of the NodeMetric", "aa"]
)
def test_other_text_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        evaluate(formula, {"a": 1})


def test_operands_of_min() -> None:
    result = operands(term("min(a + max(b, 0), b)", 3, a=10, b=3))
    assert result == [Operand("a + max(b, 0)", 13), Operand("b", 3)]
    assert decisive(term("min(a + max(b, 0), b)", 3, a=10, b=3)) == "b"


def test_first_of_equal_decides() -> None:
    assert decisive(term("min(a, b)", 3, a=3, b=3)) == "a"


def test_at_most_is_a_limit() -> None:
    """A formula that ends with a limit decides between the amount before it and the limit."""
    assert decisive(term("min(a, b) + b, at most a", 10, a=10, b=9)) == "a"
    assert decisive(term("min(a, b) + b, at most a", 4, a=10, b=2)) == "min(a, b) + b"


@pytest.mark.parametrize("formula", ["a - b", "min(a, b) + min(b, a)", "min(a, unknown)"])
def test_no_choice_no_operand(formula: str) -> None:
    """A formula without an outermost choice, or with an input that is not known, names none."""
    assert decisive(term(formula, 3, a=10, b=3)) == ""


AMOUNT = st.integers(0, 64)


@given(
    st.tuples(AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT),
    st.integers(0, 100),
    st.sampled_from([("reclaimable", ""), ("design", ""), ("designMixed", ""), ("reclaimable", "static")]),
)
def test_printed_lines_add_up(numbers: tuple[int, ...], percent: int, policy: tuple[str, str]) -> None:
    """For any policy and numbers, each printed formula with its printed inputs yields its printed value."""
    allocatable, more, usage, system, reclaimable, mid_usage, prod, mid = numbers
    result = node_inputs(
        node(cpu=str(allocatable), memory=f"{allocatable}Gi", capacity={"cpu": str(allocatable + more)}),
        report(
            usage=(str(usage), f"{usage}Gi"),
            system=(str(system), f"{system}Gi"),
            reclaimable=(str(reclaimable), f"{reclaimable}Gi"),
            mid=(str(mid_usage), f"{mid_usage}Gi"),
        ),
        pod("prod", {"cpu": str(prod), "memory": f"{prod}Gi"}),
        mid_pod("mid", str(mid * 1000), f"{mid}Gi"),
        midPolicy=policy[0],
        midReclaimMode=policy[1],
        midUnallocatedPercent=percent,
        midCPUThresholdPercent=percent,
        midStaticCPUReservedPercent=percent,
    )
    terms = calculate(result).terms
    assert terms
    for term in terms:
        if not term.inputs:  # read unchanged
            continue
        choices = operands(term)
        if not choices:
            assert evaluate(term.formula, term.inputs) == term.value
        else:
            pick = max if term.formula.startswith("max(") else min
            assert pick(choice.value for choice in choices) == term.value
            assert decisive(term)

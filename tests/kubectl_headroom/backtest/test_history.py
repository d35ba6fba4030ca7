import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_headroom.backtest.group import histories
from kubectl_headroom.backtest.history import PodHistory, columns_of
from kubectl_headroom.backtest.history_inheritance import sources
from kubectl_headroom.backtest.rolling_window import trailing_max, trailing_percentiles
from kubectl_headroom.backtest.score import result, score
from kubectl_headroom.backtest.trace import PodLifetime


def test_worked_history() -> None:
    """Two averages inherited, a gap, then 3, 1, none and 2 of its own: its history at each of its four steps."""
    pod = PodHistory(np.array([5.0, 4.0, np.nan, 3.0, 1.0, np.nan, 2.0]), origin=10, start=13)
    assert pod.end == 17
    assert pod.observed().tolist() == [3.0, 4.0, 4.0, 5.0]
    assert pod.covered(3).tolist() == [2.0, 2.0, 2.0, 2.0]
    assert pod.highest(3).tolist() == [4.0, 3.0, 3.0, 2.0]
    assert pod.highest_ever().tolist() == [5.0, 5.0, 5.0, 5.0]
    sums = np.ones(9)
    pod.add_to(sums, 9)
    assert sums.tolist() == [1.0, 6.0, 5.0, 1.0, 4.0, 2.0, 1.0, 3.0, 1.0]
    assert pod.percentiles(4, 50.0).tolist() == [4.0, 3.0, 1.0, 2.0]


@pytest.mark.parametrize("alive", [False, True])
def test_past_is_shared_and_kept_apart(*, alive: bool) -> None:
    """A successor has the predecessor's history up to its own start, and nothing after it."""
    lifetimes = [
        PodLifetime(0, 0, 0, 2),
        PodLifetime(1, 0, 2, 6 if alive else 4),
        PodLifetime(2, 0, 4, 6),
        PodLifetime(3, 0, 5, 6),
    ]
    own_values = [np.full(lifetime.end - lifetime.start, 1.0 + place) for place, lifetime in enumerate(lifetimes)]
    made = list(histories(lifetimes, own_values, [None, 0, 1, 1]))
    assert made[1].values.tolist() == [1.0, 1.0, 2.0, 2.0, *([2.0, 2.0] if alive else [])]
    assert made[2].values.tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    last = [1.0, 1.0, 2.0, 2.0, 2.0 if alive else np.nan, 4.0]
    assert made[3].values == pytest.approx(last, nan_ok=True)


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), min_size=1, max_size=20).map(sorted)


@given(found=spans)
def test_no_two_in_one_column(found: list[tuple[int, int]]) -> None:
    """Pods share a column only one after the other, and there are as many columns as pods at the busiest step."""
    made = [PodHistory(np.arange(length, dtype=np.float64) + start, start, start) for start, length in found]
    columns = columns_of(made).tolist()
    there = [[column for pod, column in zip(made, columns, strict=True) if pod.start <= t < pod.end] for t in range(41)]
    assert all(len(set(now)) == len(now) for now in there)
    assert max(columns) + 1 == max(map(len, there))


DAY = 288


def heirs(*lifetimes: PodLifetime) -> list[int | None]:
    """Heirs and their predecessors, when every step was measured."""

    def observed(place: int, step: int) -> int:
        return min(max(step - lifetimes[place].start, 0), lifetimes[place].end - lifetimes[place].start)

    return sources(lifetimes, observed, 300.0)


def test_successor_inherits() -> None:
    """A pod of a workload that was there goes on with its history; one of another workload, or of none, does not."""
    first = PodLifetime(0, 0, 0, 100, "shop/cart")
    assert heirs(first, PodLifetime(1, 0, 100, 200, "shop/cart")) == [None, 0]
    assert heirs(first, PodLifetime(1, 0, 100, 200, "shop/pay")) == [None, None]
    assert heirs(PodLifetime(0, 0, 0, 100), PodLifetime(0, 0, 100, 200)) == [None, None]


def test_richest_is_inherited() -> None:
    """Of several pods of the workload the longest observed one is continued, also while it lives."""
    brief, long = PodLifetime(0, 0, 0, 100, "shop/cart"), PodLifetime(1, 0, 0, 500, "shop/cart")
    assert heirs(brief, long, PodLifetime(2, 0, 300, 500, "shop/cart")) == [None, None, 1]


def test_chain_is_gone_on_with() -> None:
    pods = [PodLifetime(0, 0, 100 * number, 100 * (number + 1), "shop/cart") for number in range(4)]
    assert heirs(*pods) == [None, 0, 1, 2]


def test_workload_is_remembered_for_a_week() -> None:
    """After a week without a pod the agent has forgotten a workload."""
    first = PodLifetime(0, 0, 0, DAY, "shop/cart")
    assert heirs(first, PodLifetime(1, 0, 7 * DAY, 8 * DAY, "shop/cart")) == [None, 0]
    assert heirs(first, PodLifetime(1, 0, 9 * DAY, 10 * DAY, "shop/cart")) == [None, None]


def test_pods_that_come_together() -> None:
    """Two that come at once both go on with the one before."""
    first = PodLifetime(0, 0, 0, 100, "shop/cart")
    both = [PodLifetime(number, 0, 100, 200, "shop/cart") for number in (1, 2)]
    assert heirs(first, *both) == [None, 0, 0]


numbers = st.lists(st.floats(0.0, 100.0) | st.integers(0, 5).map(float), min_size=1, max_size=40)
sparse = st.lists(st.just(np.nan) | st.integers(0, 9).map(float), min_size=1, max_size=40)


@given(values=numbers, count=st.integers(1, 60))
def test_maximum_is_of_the_window(values: list[float], count: int) -> None:
    """Each answer is the largest of the values of its window, however wide that is."""
    matches = trailing_max(np.array(values), count)
    assert matches.tolist() == [max(values[max(now + 1 - count, 0) : now + 1]) for now in range(len(values))]


@given(values=sparse, steps=st.integers(1, 60), percent=st.floats(1.0, 100.0))
def test_percentile_is_of_the_window(values: list[float], steps: int, percent: float) -> None:
    """Each answer is the smallest value of its window that at least that share of them does not exceed."""
    matches = trailing_percentiles(np.array(values), steps, percent)
    for now, answer in enumerate(matches.tolist()):
        window = sorted(value for value in values[max(now + 1 - steps, 0) : now + 1] if value == value)  # noqa: PLR0124
        if window:
            assert answer == window[max(int(np.ceil(len(window) * (percent / 100))) - 1, 0)]
        else:
            assert np.isnan(answer)


def test_input_is_left_alone() -> None:
    values = np.array([2.0, 1.0, 0.0])
    trailing_max(values, 3)
    assert values.tolist() == [2.0, 1.0, 0.0]


def test_worked_score() -> None:
    """Predicted 4, 4, 4, 4 against 2, 4, 5, 8 of limits 10: two violations, of a fifth and a half; 60 % saved."""
    matches = score(np.full(4, 4.0), np.array([2.0, 4.0, 5.0, 8.0]), np.full(4, 10.0))
    assert matches.violation == pytest.approx(0.5)
    assert matches.severity == pytest.approx((0.2 + 0.5) / 4)
    assert matches.savings == pytest.approx(0.6)
    assert matches.limits == pytest.approx(10.0)


def test_rounding_is_no_violation() -> None:
    """A prediction that is a billionth too low is right."""
    matches = score(np.array([5.0 * (1 - 1e-10), 5.0 * (1 - 1e-8)]), np.full(2, 5.0), np.full(2, 10.0))
    assert matches.violation == pytest.approx(0.5)


def test_limits_cap_both() -> None:
    """A share above 100 % cannot be predicted or missed."""
    matches = score(np.array([12.0]), np.array([15.0]), np.array([10.0]))
    assert (matches.violation, matches.severity, matches.savings) == (0.0, 0.0, 0.0)


def test_idle_machine() -> None:
    """Where nothing is used nothing can be violated, and everything is saved."""
    matches = score(np.zeros(2), np.zeros(2), np.full(2, 10.0))
    assert (matches.violation, matches.severity, matches.savings) == (0.0, 0.0, 1.0)


def test_limits_that_change_weigh_savings() -> None:
    """A step at which more is there weighs more: 2 of 2 and 3 of 6 are 5 of 8."""
    matches = score(np.array([0.0, 3.0]), np.zeros(2), np.array([2.0, 6.0]))
    assert matches.savings == pytest.approx(5 / 8)
    assert matches.limits == pytest.approx(4.0)


def test_result_over_machines() -> None:
    """Violation and severity are means over machines, savings weigh by limits; percentiles lie between machines."""
    scores = [
        score(np.array([4.0, 4.0]), np.array([4.0, 8.0]), np.full(2, 10.0)),
        score(np.array([9.0, 9.0]), np.array([1.0, 1.0]), np.full(2, 30.0)),
    ]
    matches = result("some", "cpu", 3600, (0,), scores)
    assert matches.machines == 2
    assert matches.violation_percent.mean == pytest.approx(25.0)
    assert matches.violation_percent.p50 == pytest.approx(25.0)
    assert matches.violation_percent.p90 == pytest.approx(45.0)
    assert matches.severity_percent == pytest.approx(12.5)
    assert matches.savings_percent == pytest.approx(100 * (6 + 21) / 40)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host.rates import Gap, Rates


def _twice(first: tuple[float, float, int], second: tuple[float, float, int], highest: float = 1e9) -> float | Gap:
    rates = Rates()
    rates.rate("k", first[0], first[1], identity=first[2])
    return rates.rate("k", second[0], second[1], identity=second[2], highest=highest)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((100, 10.0, 1), (150, 12.0, 1), 25.0),
        ((100, 10.0, 1), (100, 11.0, 1), 0.0),  # an idle counter is a rate of zero, not a gap
        ((100, 10.0, 1), (99, 11.0, 1), Gap.RESET),
        ((100, 10.0, 1), (150, 11.0, 2), Gap.RECREATED),  # though it rose
        ((100, 10.0, 1), (50, 11.0, 2), Gap.RECREATED),
        ((100, 10.0, 1), (150, 10.0, 1), Gap.TOO_SOON),
        ((100, 10.0, 1), (150, 9.0, 1), Gap.CLOCK),  # a clock that goes back
        ((100, 10.0, 1), (150, float("nan"), 1), Gap.CLOCK),  # time unknown
        ((100, float("nan"), 1), (150, 10.0, 1), Gap.CLOCK),
        ((100, 10.0, 1), (150, 10.001, 2), Gap.RECREATED),  # another one, however soon
        ((100, 10.0, 1), (150, 100.0, 1), Gap.PAUSED),  # the agent was held up
    ],
)
def test_rate_or_gap(first: tuple[float, float, int], second: tuple[float, float, int], expected: float | Gap) -> None:
    assert _twice(first, second) == expected


@pytest.mark.parametrize("slept", [1.0, 3600.0, -5.0])
def test_growth_over_a_suspension_is_a_gap_and_the_next_one_a_rate(slept: float) -> None:
    rates = Rates()
    rates.rate("k", 100, 1.0, slept=7.0)
    assert rates.rate("k", 110, 2.0, slept=7.0 + slept) is Gap.SUSPENDED
    assert rates.rate("k", 120, 3.0, slept=7.0 + slept + 0.001) == 10


def test_first_reading_is_gap() -> None:
    assert Rates().rate("k", 1, 1.0) is Gap.FIRST


def test_impossible_rate_is_gap() -> None:
    assert _twice((0, 0.0, 1), (1000, 1.0, 1), highest=999) is Gap.IMPLAUSIBLE


def test_reading_after_a_gap_is_the_next_base() -> None:
    rates = Rates()
    for value, at in ((100, 1.0), (10, 2.0)):
        rates.rate("k", value, at)
    assert rates.rate("k", 30, 3.0) == 20


def test_forgotten_counter_starts_over() -> None:
    rates = Rates()
    rates.rate("a", 1, 1.0)
    rates.rate("b", 1, 1.0)
    rates.forget("a")
    rates.keep_only(set())
    assert rates.rate("a", 2, 2.0) is Gap.FIRST
    assert rates.rate("b", 2, 2.0) is Gap.FIRST


@given(st.lists(st.tuples(st.integers(0, 10**18), st.floats(0, 1e6), st.integers(0, 2)), max_size=20))
def test_any_readings_give_a_rate_of_at_least_zero_or_a_gap(readings: list[tuple[int, float, int]]) -> None:
    rates = Rates()
    for value, at, identity in readings:
        result = rates.rate("k", value, at, identity=identity)
        assert isinstance(result, Gap) or result >= 0

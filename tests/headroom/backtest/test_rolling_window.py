import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headroom.backtest.rolling_window import ahead_max, trailing_max, trailing_percentiles

numbers = st.lists(st.floats(0.0, 100.0) | st.integers(0, 5).map(float), min_size=1, max_size=40)
sparse = st.lists(st.just(np.nan) | st.integers(0, 9).map(float), min_size=1, max_size=40)


@given(values=numbers, count=st.integers(1, 60))
def test_maximum_is_of_the_window(values: list[float], count: int) -> None:
    """Each answer is the largest of the values of its window, however wide that is."""
    found = trailing_max(np.array(values), count)
    assert found.tolist() == [max(values[max(now + 1 - count, 0) : now + 1]) for now in range(len(values))]


def test_columns_stay_apart() -> None:
    table = np.array([[1.0, 9.0], [5.0, 2.0], [3.0, 4.0]])
    assert trailing_max(table, 2).tolist() == [[1.0, 9.0], [5.0, 9.0], [5.0, 4.0]]


def test_input_is_left_alone() -> None:
    values = np.array([2.0, 1.0, 0.0])
    trailing_max(values, 3)
    assert values.tolist() == [2.0, 1.0, 0.0]


def test_maximum_of_what_comes() -> None:
    """Looking ahead, the window ends with the values."""
    assert ahead_max(np.array([1.0, 5.0, 2.0, 3.0]), 2).tolist() == [5.0, 5.0, 3.0, 3.0]


@given(values=sparse, steps=st.integers(1, 60), percent=st.floats(1.0, 100.0))
def test_percentile_is_of_the_window(values: list[float], steps: int, percent: float) -> None:
    """Each answer is the smallest value of its window that at least that share of them does not exceed."""
    found = trailing_percentiles(np.array(values), steps, percent)
    for now, answer in enumerate(found.tolist()):
        window = sorted(value for value in values[max(now + 1 - steps, 0) : now + 1] if value == value)  # noqa: PLR0124
        if window:
            assert answer == window[max(int(np.ceil(len(window) * (percent / 100))) - 1, 0)]
        else:
            assert np.isnan(answer)

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.arrays import FloatArray
from headroom.backtest.columns import PodColumns, columns_of
from headroom.backtest.history import PodHistory

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), min_size=1, max_size=20).map(sorted)


def pods(found: list[tuple[int, int]]) -> list[PodHistory]:
    """Pods that are there from a step on, for so many steps."""
    return [PodHistory(np.arange(length, dtype=np.float64) + start, start, start) for start, length in found]


@given(found=spans)
def test_no_two_in_one_column(found: list[tuple[int, int]]) -> None:
    """Pods share a column only one after the other, and there are as many columns as pods at the busiest step."""
    made = pods(found)
    columns = columns_of(made).tolist()
    there = [[column for pod, column in zip(made, columns, strict=True) if pod.start <= t < pod.end] for t in range(41)]
    assert all(len(set(now)) == len(now) for now in there)
    assert max(columns) + 1 == max(map(len, there))


def test_every_pod_is_asked_once() -> None:
    """A table is made once, and answers with the steps and pods asked for."""
    made = pods([(0, 5), (2, 8), (5, 5)])
    asked: list[int] = []

    def ask(pod: PodHistory, row: int) -> FloatArray:
        asked.append(row)
        return pod.values + 100.0 * row

    columns = PodColumns(10, made, [1, 2, 3])
    assert columns.values("x", ask, np.array([0, 1]), 3, 5).tolist() == [[103.0, 203.0], [104.0, 204.0]]
    assert columns.values("x", ask, np.array([2]), 6, 8).tolist() == [[306.0], [307.0]]
    assert asked == [1, 2, 3]

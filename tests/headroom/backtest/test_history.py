import numpy as np
import pytest

from headroom.backtest.group import histories
from headroom.backtest.history import PodHistory
from headroom.backtest.trace import PodLifetime


def test_worked_history() -> None:
    """Two averages inherited, a gap, then 3, 1, none and 2 of its own: what it knows at each of its four steps."""
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
    """Who goes on with a pod knows what that one knew when it came, and nothing of what it did afterwards."""
    lifetimes = [
        PodLifetime(0, 0, 0, 2),
        PodLifetime(1, 0, 2, 6 if alive else 4),
        PodLifetime(2, 0, 4, 6),
        PodLifetime(3, 0, 5, 6),
    ]
    own = [np.full(lifetime.end - lifetime.start, 1.0 + place) for place, lifetime in enumerate(lifetimes)]
    made = list(histories(lifetimes, own, [None, 0, 1, 1]))
    assert made[1].values.tolist() == [1.0, 1.0, 2.0, 2.0, *([2.0, 2.0] if alive else [])]
    assert made[2].values.tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    last = [1.0, 1.0, 2.0, 2.0, 2.0 if alive else np.nan, 4.0]
    assert made[3].values == pytest.approx(last, nan_ok=True)

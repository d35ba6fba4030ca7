"""The risks of a node."""

import numpy as np
import pytest
from hypothesis import strategies as st

from scheduler_plugins.numerics.overcommitment import limit_risks, load_risk, widened

AMOUNTS = st.integers(0, 3000)


def _risks(*rows: tuple[float, float, int, int, int]) -> list[float]:
    return [load_risk(*row) for row in rows]


@pytest.mark.parametrize("mean", [1 - 2**-53, 1 - 2**-52])
def test_mean_next_to_one(mean: float) -> None:
    """A mean so close to one that no distribution fits has no deviation; it does not exceed every value."""
    assert load_risk(mean, widened(mean, 0.5), 100, 200, 100) == 0.0
    assert load_risk(mean, widened(mean, 0.5), 99, 200, 100) == 1.0


@pytest.mark.parametrize(
    ("row", "risk"),
    [
        ((0.5, 0.1, 50, 200, 100), 0.5),  # half of the load exceeds the requests
        ((0.5, 0.0, 50, 200, 100), 0.0),  # exactly the requests, never more
        ((0.51, 0.0, 50, 200, 100), 1.0),  # always more
        ((0.5, 0.1, 0, 0, 100), 0.0),  # no pod may use any: zero of zero
        ((0.5, 0.1, 0, 100, 100), 1.0),  # limits that fill the node exactly set no condition
        ((0.5, 0.1, 50, 50, 100), 0.0),  # limits as requested: a larger load is impossible
        ((1.0, 0.0, 99, 200, 100), 1.0),  # a full node
        ((1.0, 0.0, 100, 200, 100), 0.0),  # a full node of which all is requested
        ((0.0, 0.0, 0, 9, 0), 0.0),  # a node without capacity
    ],
)
def test_load_risk_at_its_edges(row: tuple[float, float, int, int, int], risk: float) -> None:
    assert load_risk(*row) == pytest.approx(risk, abs=1e-12)
    assert _risks(row, (0.3, 0.1, 10, 20, 50))[0] == pytest.approx(risk, abs=1e-12)


def test_limits_condition_the_load() -> None:
    """Limits below the capacity lower the risk: usage beyond the limits does not count as possible."""
    free, bound = load_risk(0.5, 0.1, 55, 200, 100), load_risk(0.5, 0.1, 55, 60, 100)
    assert 0 < bound < free


@pytest.mark.parametrize(
    ("requested", "limit", "capacity", "risk"),
    [
        (2, 6, 4, 0.5),
        (2, 4, 4, 0.0),  # limits that just fit
        (4, 5, 4, 1.0),  # everything is requested already
        (0, 3, 0, 1.0),  # a node without capacity
        (0, 0, 0, 0.0),
    ],
)
def test_limit_risk(requested: int, limit: int, capacity: int, risk: float) -> None:
    row = np.array([[requested], [limit], [capacity]], np.int64)
    assert limit_risks(*row).tolist() == [risk]


def test_deviation_is_capped() -> None:
    assert widened(0.5, 0.1, 4) == pytest.approx(0.2)
    assert widened(0.5, 0.3, 5) == pytest.approx(np.sqrt(0.25 * 0.99))
    assert widened(1.0, 0.3, 5) == 0.0

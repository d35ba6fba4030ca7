import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.prediction.reclaimable import reclaimable_terms

amounts = st.floats(0.0, 1e6)


def test_reclaim_worked_numbers() -> None:
    """The docstring's case: nothing is charged for the system while unrequested room pays for it."""
    found = reclaimable_terms(
        allocatable=15.5, reserved=0.5, warm_requests=10.0, cold_requests=1.0, prod_peak=4.5, system_peak=0.9, ratio=1.0
    )
    assert found.system_extra == pytest.approx(0.4)
    assert found.slack == 4.5
    assert found.reclaimable == pytest.approx(6.5)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # fully requested: the system's extra of 0.4 has no slack to fall on, 15.5 - 4.5 - 0.4
        ({"warm_requests": 14.5}, 10.6),
        # slack of 0.1 pays a part of the extra: 15.4 - 4.5 - (0.4 - 0.1)
        ({"warm_requests": 14.4}, 10.6),
        # more requested than allocatable: the node's room is the limit, 15.5 - 4.5 - 0.4
        ({"warm_requests": 30.0}, 10.6),
        # ratio 0.8 of the warm requests only: 8 + 1 - 4.5
        ({"ratio": 0.8}, 4.5),
        # the system stays within what is reserved
        ({"system_peak": 0.4}, 6.5),
        # Prod uses all that it asked for
        ({"prod_peak": 11.0}, 0.0),
        # Prod uses more than it asked for
        ({"prod_peak": 14.0}, 0.0),
        # no Prod pods
        ({"warm_requests": 0.0, "cold_requests": 0.0, "prod_peak": 0.0}, 0.0),
        # the system eats the node
        ({"system_peak": 16.0}, 0.0),
    ],
)
def test_reclaim_edges(case: dict[str, float], expected: float) -> None:
    """Each term of the formula in turn."""
    usual = {"allocatable": 15.5, "reserved": 0.5, "warm_requests": 10.0, "cold_requests": 1.0}
    found = reclaimable_terms(**{**usual, "prod_peak": 4.5, "system_peak": 0.9, "ratio": 1.0, **case})
    assert found.reclaimable == pytest.approx(expected)


@given(
    allocatable=amounts,
    reserved=amounts,
    warm=amounts,
    cold=amounts,
    peak=amounts,
    system=amounts,
    ratio=st.floats(0, 1),
)
def test_reclaim_is_bounded(
    allocatable: float, reserved: float, warm: float, cold: float, peak: float, system: float, ratio: float
) -> None:
    """Reclaimable lies between 0 and what is allocatable and requested, and falls when a peak rises."""

    def at(prod_peak: float, system_peak: float) -> float:
        return reclaimable_terms(
            allocatable=allocatable,
            reserved=reserved,
            warm_requests=warm,
            cold_requests=cold,
            prod_peak=prod_peak,
            system_peak=system_peak,
            ratio=ratio,
        ).reclaimable

    found = at(peak, system)
    assert 0.0 <= found <= allocatable
    assert found <= warm + cold + 1e-6
    assert at(peak + 1.0, system) <= found
    assert at(peak, system + 1.0) <= found

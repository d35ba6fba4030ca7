import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.prediction.reclaimable import lowered, raised, reclaimable_terms
from agent.predictors.base import ReclaimableEstimate
from agent.samples import NODE, SYS

USUAL = {
    "allocatable": 15.5, "reserved": 0.5, "warm_requests": 10.0, "cold_requests": 1.0, "prod_peak": 4.5,
    "system_peak": 0.9, "ratio": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "extra", "slack", "reclaimable"),
    [
        ({}, 0.4, 4.5, 6.5),  # the system is charged nothing while unrequested resources cover it
        ({"warm_requests": 14.5}, 0.4, 0.0, 10.6),  # fully requested: 15.5 - 4.5 - 0.4
        ({"warm_requests": 14.4}, 0.4, 0.1, 10.6),  # slack pays a part of the extra: 15.4 - 4.5 - (0.4 - 0.1)
        ({"warm_requests": 30.0}, 0.4, 0.0, 10.6),  # more requested than allocatable: allocatable is the limit
        ({"ratio": 0.8}, 0.4, 4.5, 4.5),  # of the warm requests only: 8 + 1 - 4.5
        ({"system_peak": 0.4}, 0.0, 4.5, 6.5),  # the system stays within its reservation
        ({"prod_peak": 11.0}, 0.4, 4.5, 0.0),  # Prod uses all that it requested
        ({"prod_peak": 14.0}, 0.4, 4.5, 0.0),
        ({"warm_requests": 0.0, "cold_requests": 0.0, "prod_peak": 0.0}, 0.4, 15.5, 0.0),  # no Prod pods
        ({"system_peak": 16.0}, 15.5, 4.5, 0.0),  # the system eats the node
    ],
)
def test_each_term_of_the_formula(case: dict[str, float], extra: float, slack: float, reclaimable: float) -> None:
    result = reclaimable_terms(**{**USUAL, **case})
    assert (result.system_extra, result.slack, result.reclaimable) == pytest.approx((extra, slack, reclaimable))


@given(st.fixed_dictionaries({name: st.floats(0.0, 1.0 if name == "ratio" else 1e6) for name in USUAL}))
def test_reclaimable_is_at_most_allocatable_and_requested_and_falls_with_peaks(given: dict[str, float]) -> None:
    result = reclaimable_terms(**given).reclaimable
    assert 0.0 <= result <= min(given["allocatable"], given["warm_requests"] + given["cold_requests"] + 1e-6)
    for peak in ("prod_peak", "system_peak"):
        assert reclaimable_terms(**{**given, peak: given[peak] + 1.0}).reclaimable <= result


@pytest.mark.parametrize(
    ("peaks", "floors", "found"),
    [
        (
            {"prod": 6.0, SYS: 5.0, "mid": 9.0, NODE: 7.0},
            [{"mid": 12.0}],
            {"prod": 6.0, SYS: 5.0, "mid": 10.0, NODE: 10.0},
        ),
        ({"prod": 1.0}, [{"prod": 2.0, SYS: 3.0}, {NODE: 9.0}], {"prod": 2.0}),  # a missing row stays missing
        ({"prod": 2.0, SYS: 3.0, NODE: 4.0}, [{}], {"prod": 2.0, SYS: 3.0, NODE: 5.0}),
        ({SYS: 0.25, NODE: 0.5}, [{}], {SYS: 0.25, NODE: 0.5}),
        ({"prod": 0.25, NODE: 0.5}, [{}], {"prod": 0.25, NODE: 0.5}),
    ],
)
def test_no_peak_is_below_its_floors_or_above_a_capacity_of_10(
    peaks: dict[str, float], floors: list[dict[str, float]], found: dict[str, float]
) -> None:
    assert raised(peaks, 10.0, *floors) == found


@pytest.mark.parametrize(
    ("present", "found"),
    [
        ({"prod": 1.5, SYS: 0.25}, (1.0, 2.0)),
        ({"prod": 5.0}, (0.0, 5.0)),
        ({"prod": 1.5}, (1.0, 2.0)),
        ({SYS: 1.5}, (1.0, 2.0)),
        ({"prod": 1.5, SYS: 1.0}, (0.5, 2.5)),
    ],
)
def test_rule_of_a_models_own_expects_no_less_than_prod_and_the_system_use(
    present: dict[str, float], found: tuple[float, float]
) -> None:
    assert lowered(ReclaimableEstimate(1.0, 2.0), present) == ReclaimableEstimate(*found)

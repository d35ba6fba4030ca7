import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.histogram import CPU_BUCKETS, MEMORY_BUCKETS, Buckets, HistogramBank, exponential

STARTS = np.arange(11.0)
TEN = Buckets(STARTS, STARTS[1:], epsilon=1e-15)
HALF_DAY = 43200.0
START = 1_700_000_000.0
MONTH = 30 * 86400.0
ROW = np.zeros(1, np.intp)

cpu_values = st.floats(0.0, 2000.0)
times = st.floats(START, START + MONTH)


def seen(
    samples: list[tuple[float, float]], half_life: float = HALF_DAY, buckets: Buckets = TEN, weight: float = 1.0
) -> HistogramBank:
    bank = HistogramBank(buckets, half_life, rows=1)
    for value, time in samples:
        bank.add(ROW, np.array([value]), np.array([time]), weight)
    return bank


def percentile(bank: HistogramBank, share: float) -> float:
    return float(bank.percentiles(ROW, share)[0])


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("ratio", (1.0, 1.0, 1.0, 1.0)),
        ("ratio", (1.0, 1.0, 0.5, 1.0)),
        ("max_value", (0.0, 1.0, 1.05, 1.0)),
        ("first_bucket_size", (1.0, -1.0, 1.05, 1.0)),
        ("epsilon", (1.0, 1.0, 1.05, 0.0)),
        ("max_value", (math.nan, 1.0, 1.05, 1.0)),
        ("max_value", (math.inf, 1.0, 1.05, 1.0)),
    ],
)
def test_bad_options_are_named(option: str, options: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match=option):
        exponential(*options)


@pytest.mark.parametrize("buckets", [CPU_BUCKETS, MEMORY_BUCKETS])
@given(value=st.floats(0.0, 1e13))
def test_value_falls_into_bucket(buckets: Buckets, value: float) -> None:
    """A value lies between the start of its bucket and the next one's, but for the rounding of a logarithm."""
    index = int(buckets.find(np.array([value]))[0])
    assert buckets.starts[index] <= value * (1 + 1e-12) + 1e-12
    if index < len(buckets.starts) - 1:
        assert value <= buckets.starts[index + 1] * (1 + 1e-12)


def test_weight_doubles_per_half_life() -> None:
    weights = seen([(1.0, START), (2.0, START + HALF_DAY), (3.0, START - HALF_DAY)]).weights[0]
    assert weights[2:4].tolist() == pytest.approx([2 * weights[1], weights[1] / 2])


def test_reference_is_multiple_since_year_one() -> None:
    """The first sample sets the reference to the nearest multiple of the half-life counted from the year 1."""
    assert seen([(2.0, 1234567890.0)], 3600.0).references[0] == 1234569600.0  # 23:31:30 rounds up to 00:00:00


@given(samples=st.lists(st.tuples(cpu_values, times), min_size=1, max_size=30), share=st.floats(0.0, 1.0))
def test_percentile_is_close(samples: list[tuple[float, float]], share: float) -> None:
    """The percentile never lies below the smallest sample's bucket or above the largest sample's."""
    values = [min(value, 1024.0) for value, _ in samples]
    answer = percentile(seen(samples, buckets=CPU_BUCKETS), share)
    assert min(values) * (1 - 1e-9) <= answer <= max(max(values) * 1.06 + 0.026, 0.025)


def test_rescaling_leaves_the_light() -> None:
    """A weight that has decayed to zero is not rescaled again: the buckets equal the reference's."""
    first = seen([(1.0, START)], 60.0).weights[0, 1]
    bank = seen([(1.0, START), (2.0, START + 6060.0), (3.0, START + 2 * 6060.0)], 60.0)
    # 101 half-lives each time: the first jump rescales bucket 1, the second one does not
    assert bank.weights[0, 1:3].tolist() == [first * 2.0**-101] * 2


@given(
    rounds=st.lists(st.tuples(st.lists(cpu_values, min_size=3, max_size=3), times), min_size=1, max_size=20),
    share=st.floats(0.0, 1.0),
)
def test_rows_equal_single_histograms(rounds: list[tuple[list[float], float]], share: float) -> None:
    bank, rows = HistogramBank(CPU_BUCKETS, HALF_DAY, rows=3), np.arange(3)
    for values, time in rounds:
        bank.add(rows, np.array(values), np.full(3, time))
    alone = [seen([(values[row], time) for values, time in rounds], buckets=CPU_BUCKETS) for row in range(3)]
    assert bank.percentiles(rows, share).tolist() == [percentile(name, share) for name in alone]
    assert bank.totals.tolist() == [entry.totals[0] for entry in alone]

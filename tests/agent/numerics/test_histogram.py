import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.buckets import CPU_BUCKETS, MEMORY_BUCKETS, Buckets, ExponentialBuckets, LinearBuckets
from agent.numerics.histogram import Histogram, HistogramBank, HistogramError, ScaledHistogram

TEN = LinearBuckets(max_value=10.0, bucket_size=1.0, epsilon=1e-15)
HALF_DAY = 43200.0
START = 1_700_000_000.0
MONTH = 30 * 86400.0

cpu_values = st.floats(0.0, 2000.0)
times = st.floats(START, START + MONTH)
near_times = st.floats(START, START + 8 * HALF_DAY)


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
    """Options that make no buckets are refused, and the message names the option."""
    with pytest.raises(ValueError, match=option):
        ExponentialBuckets(*options)


def test_bucket_counts_match_reference() -> None:
    """CPU has 158 buckets and memory 205, with the reference's starts."""
    assert (len(CPU_BUCKETS.starts), len(MEMORY_BUCKETS.starts)) == (158, 205)
    assert CPU_BUCKETS.starts[[0, 1, 2, 157]].tolist() == [0.0, 0.025, 0.051249999999999976, 1060.437886026174]
    assert MEMORY_BUCKETS.starts[204] == 2203922208858.5283


@pytest.mark.parametrize("buckets", [CPU_BUCKETS, MEMORY_BUCKETS, TEN])
@given(value=st.floats(0.0, 1e13))
def test_value_falls_into_bucket(buckets: Buckets, value: float) -> None:
    """A value lies between the start of its bucket and the next one's, but for the rounding of a logarithm."""
    index = int(buckets.find(np.array([value]))[0])
    assert buckets.starts[index] <= value * (1 + 1e-12) + 1e-12
    if index < len(buckets.starts) - 1:
        assert value <= buckets.starts[index + 1] * (1 + 1e-12)


@given(values=st.lists(st.floats(-10.0, 1e13), min_size=1, max_size=50))
def test_find_vector_equals_scalar(values: list[float]) -> None:
    """Many values find the buckets that each finds alone."""
    together = CPU_BUCKETS.find(np.array(values))
    assert together.tolist() == [int(CPU_BUCKETS.find(np.array([value]))[0]) for value in values]


def test_percentile_answers_bucket_end() -> None:
    """Weights 1, 2, 3, 4 in buckets 1 to 4: the percentile is the end of the bucket that reaches the share."""
    histogram = Histogram.new(TEN)
    for value in (1.0, 2.0, 3.0, 4.0):
        histogram.add(value, weight=value)
    assert [histogram.percentile(share / 10) for share in range(11)] == [2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5]


def test_interpolation_stays_inside_bucket() -> None:
    """With interpolation the same histogram answers inside of the bucket: half of bucket 3's weight is at 3.67."""
    histogram = Histogram.new(TEN)
    for value in (1.0, 2.0, 3.0, 4.0):
        histogram.add(value, weight=value)
    assert histogram.percentile(0.5, interpolate=True) == pytest.approx(3 + 2 / 3)
    assert histogram.percentile(1.0, interpolate=True) == pytest.approx(5.0)


def test_empty_histogram_answers_zero() -> None:
    """Nothing seen: every percentile is 0, and the bucket span is the reference's (last, 0)."""
    histogram = Histogram.new(CPU_BUCKETS, HALF_DAY)
    assert histogram.is_empty
    assert histogram.percentile(0.95) == 0.0
    assert histogram.bucket_span == (157, 0)
    assert histogram.export() == ScaledHistogram(0.0, {}, None)


def test_last_bucket_answers_start() -> None:
    """The last bucket has no end, so it answers with its start."""
    histogram = Histogram.new(CPU_BUCKETS, HALF_DAY)
    histogram.add(5000.0, time=START)
    assert histogram.percentile(0.5) == 1060.437886026174


def test_weight_doubles_per_half_life() -> None:
    """A sample one half-life later weighs twice as much; a late one half as much."""
    histogram = Histogram.new(TEN, HALF_DAY)
    histogram.add(1.0, time=START)
    histogram.add(2.0, time=START + HALF_DAY)
    histogram.add(3.0, time=START - HALF_DAY)
    weights = histogram.bucket_weights
    assert weights[2] == pytest.approx(2 * weights[1])
    assert weights[3] == pytest.approx(weights[1] / 2)


def test_reference_is_multiple_since_year_one() -> None:
    """The first sample sets the reference to the nearest multiple of the half-life counted from the year 1."""
    histogram = Histogram.new(TEN, 3600.0)
    histogram.add(2.0, time=1234567890.0)
    assert histogram.reference == 1234569600.0  # 23:31:30 rounds up to 00:00:00


def test_far_future_rescales() -> None:
    """More than 100 half-lives later the weights are rescaled: the old sample fades away, the new one stays near 1."""
    histogram = Histogram.new(TEN, 3600.0)
    histogram.add(2.0, time=1234567890.0)
    histogram.add(1.0, time=1234931490.0)
    assert histogram.percentile(1.0) == 2.0
    assert histogram.total_weight == pytest.approx(0.71946679000541)
    assert 0.0 < histogram.bucket_weights[2] < 1e-30


def test_subtract_stops_at_zero() -> None:
    """Taking away more than there is leaves nothing, not less."""
    histogram = Histogram.new(TEN)
    histogram.add(3.0, weight=1.0)
    histogram.subtract(3.0, weight=2.0)
    assert histogram.is_empty
    assert histogram.total_weight == 0.0


@given(samples=st.lists(st.tuples(cpu_values, times), min_size=1, max_size=30), share=st.floats(0.0, 1.0))
def test_percentile_is_close(samples: list[tuple[float, float]], share: float) -> None:
    """The percentile never lies below the smallest sample's bucket or above the largest sample's."""
    histogram = Histogram.new(CPU_BUCKETS, HALF_DAY)
    for value, time in samples:
        histogram.add(value, time=time)
    values = [min(value, 1024.0) for value, _ in samples]
    answer = histogram.percentile(share)
    assert min(values) * (1 - 1e-9) <= answer <= max(max(values) * 1.06 + 0.026, 0.025)
    assert histogram.percentile(share, interpolate=True) <= answer


@given(samples=st.lists(st.tuples(cpu_values, near_times), min_size=1, max_size=20), split=st.integers(0, 20))
def test_merge_equals_adding_all(samples: list[tuple[float, float]], split: int) -> None:
    """Two histograms merged say what one says that saw everything."""
    parts = [Histogram.new(CPU_BUCKETS, HALF_DAY) for _ in range(3)]
    for index, (value, time) in enumerate(samples):
        parts[index >= split].add(value, time=time)
        parts[2].add(value, time=time)
    parts[0].merge(parts[1])
    scale = parts[2].total_weight / parts[0].total_weight
    assert parts[0].bucket_weights.keys() == parts[2].bucket_weights.keys()
    for bucket, weight in parts[0].bucket_weights.items():
        assert weight * scale == pytest.approx(parts[2].bucket_weights[bucket])


def test_merge_leaves_out_the_light() -> None:
    """What does not count in the other histogram is not added; its total is, as in the reference."""
    coarse = LinearBuckets(max_value=10.0, bucket_size=1.0, epsilon=0.5)
    mine, theirs = Histogram.new(coarse), Histogram.new(coarse)
    mine.add(2.0)
    for value, weight in ((3.0, 0.25), (4.0, 0.5), (5.0, 0.25), (6.0, 0.5), (7.0, 0.25)):
        theirs.add(value, weight)
    mine.merge(theirs)
    assert mine.bucket_weights == {2: 1.0, 4: 0.5, 5: 0.25, 6: 0.5}
    assert mine.total_weight == 2.75


def test_rescaling_leaves_the_light() -> None:
    """A weight that does not count any more is not rescaled again: bucket for bucket what the reference holds."""
    histogram = Histogram.new(TEN, 60.0)
    histogram.add(1.0, time=START)
    first = histogram.bucket_weights[1]
    histogram.add(2.0, time=START + 6060.0)
    histogram.add(3.0, time=START + 2 * 6060.0)
    # 101 half-lives each time: the first jump rescales bucket 1, the second one leaves it as it is
    assert histogram.bucket_weights[1] == first * 2.0**-101
    assert histogram.bucket_weights[2] == first * 2.0**-101


def test_merge_needs_equal_options() -> None:
    """Histograms of different buckets or half-lives are not added up."""
    with pytest.raises(HistogramError):
        Histogram.new(TEN).merge(Histogram.new(CPU_BUCKETS))
    with pytest.raises(HistogramError):
        Histogram.new(TEN, 60.0).merge(Histogram.new(TEN, 61.0))


@pytest.mark.parametrize(
    "bad",
    [
        None,
        ScaledHistogram(-1.0),
        ScaledHistogram(1.0, {-1: 1}),
        ScaledHistogram(1.0, {99: 1}),
        ScaledHistogram(1.0, {1: -1}),
    ],
)
def test_bad_import_is_refused(bad: ScaledHistogram | None) -> None:
    """Nothing, a negative total or an unknown bucket is refused, and nothing of it is added."""
    histogram = Histogram.new(TEN)
    with pytest.raises(HistogramError):
        histogram.load(bad)
    assert histogram.is_empty


@pytest.mark.parametrize("weights", [{}, {0: 0}, {0: 1}])
def test_import_keeps_its_reference(weights: dict[int, int]) -> None:
    """An import into nothing brings its reference, though it is no multiple of the half-life, and all its weight."""
    histogram = Histogram.new(TEN, 3600.0)
    reference = 1514862245.0  # 2018-01-02T03:04:05Z
    histogram.load(ScaledHistogram(6.0, weights, reference))
    assert histogram.reference == reference
    assert histogram.bucket_weights == ({0: 6.0} if weights.get(0) else {})


def test_second_import_is_aligned() -> None:
    """What is there already moves to a newer import's reference; one between two multiples is weighed exactly."""
    histogram = Histogram.new(TEN, 3600.0)
    histogram.load(ScaledHistogram(4.0, {1: 1}, 3600.0))
    histogram.load(ScaledHistogram(4.0, {2: 1}, 3600.0 + 5400.0))
    assert histogram.reference == 3600.0 + 7200.0
    assert histogram.bucket_weights == {1: 1.0, 2: pytest.approx(4.0 / math.sqrt(2.0))}


def test_export_scales_and_drops() -> None:
    """The heaviest bucket exports as 10000; what rounds to zero beside it is dropped."""
    histogram = Histogram.new(TEN)
    histogram.add(1.0, weight=1.0)
    histogram.add(2.0, weight=100_000.0)
    assert histogram.export() == ScaledHistogram(100_001.0, {2: 10_000}, None)


@given(samples=st.lists(st.tuples(cpu_values, times), min_size=1, max_size=20))
def test_import_of_export_is_close(samples: list[tuple[float, float]]) -> None:
    """What was exported comes back with its total and its reference."""
    histogram, again = Histogram.new(CPU_BUCKETS, HALF_DAY), Histogram.new(CPU_BUCKETS, HALF_DAY)
    for value, time in samples:
        histogram.add(value, time=time)
    again.load(histogram.export())
    assert again.total_weight == pytest.approx(histogram.total_weight)
    assert again.reference == histogram.reference


def test_negative_weight_is_refused() -> None:
    """A sample cannot weigh less than nothing."""
    with pytest.raises(HistogramError, match="weight"):
        Histogram.new(TEN).add(1.0, weight=-1.0)


@given(
    rounds=st.lists(st.tuples(st.lists(cpu_values, min_size=3, max_size=3), times), min_size=1, max_size=20),
    share=st.floats(0.0, 1.0),
)
def test_bank_equals_single_histograms(rounds: list[tuple[list[float], float]], share: float) -> None:
    """A row of the matrix says what a histogram on its own says."""
    bank, rows = HistogramBank(CPU_BUCKETS, HALF_DAY, rows=3), np.arange(3)
    alone = [Histogram.new(CPU_BUCKETS, HALF_DAY) for _ in range(3)]
    for values, time in rounds:
        bank.add(rows, np.array(values), np.full(3, time))
        for histogram, value in zip(alone, values, strict=True):
            histogram.add(value, time=time)
    assert bank.percentiles(rows, share).tolist() == [histogram.percentile(share) for histogram in alone]
    assert bank.totals.tolist() == [histogram.total_weight for histogram in alone]


def test_default_histograms_are_within_ratio() -> None:
    """The lowest and highest of two samples come back at most 5 percent too high."""
    histogram = Histogram.new(MEMORY_BUCKETS, 86400.0)
    histogram.add(10485760.0, time=START)
    histogram.add(2147483648.0, time=START)
    assert [histogram.percentile(0.0), histogram.percentile(1.0)] == [10747903.999999994, 2162529934.5797625]

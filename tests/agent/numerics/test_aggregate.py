import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics import aggregate
from agent.numerics.aggregate import NoSamplesError

NAN = math.nan


@pytest.mark.parametrize(
    ("count", "share", "place"),
    [
        (1, 0.99, 0),  # one sample is every percentile
        (2, 0.95, 0),  # of two, the smaller one
        (10, 0.95, 8),
        (60, 0.9, 53),  # 54th of a minute
        (9, 0.5, 3),
        (5, 1.0, 4),
        (5, 0.0, 0),
    ],
)
def test_percentile_place(count: int, share: float, place: int) -> None:
    """A percentile is the sample at int(n * p) - 1, at least the first."""
    assert aggregate.percentile_index(count, share) == place


def test_statistics_need_samples() -> None:
    with pytest.raises(NoSamplesError):
        aggregate.statistics(np.empty(0), np.empty(0))


def test_statistics_of_a_minute() -> None:
    result = aggregate.statistics(np.arange(60.0), np.arange(1.0, 61.0))
    assert (result.average, result.p50, result.p90, result.p95, result.p99) == (30.5, 30.0, 54.0, 57.0, 59.0)
    assert (result.max, result.last, result.count, result.span_seconds) == (60.0, 60.0, 60, 59.0)
    assert result.stdev == pytest.approx(math.sqrt((60**2 - 1) / 12))


@given(
    rows=st.lists(
        st.lists(st.one_of(st.floats(0.0, 1e6), st.just(NAN)), min_size=7, max_size=7), min_size=1, max_size=6
    ),
    share=st.floats(0.0, 1.0),
)
def test_rows_equal_single_percentiles(rows: list[list[float]], share: float) -> None:
    """Percentiles of all rows at once are those of each row without its holes; NaN for an empty one."""
    table = np.array(rows)
    result = aggregate.percentile_rows(table, share)
    for row, answer in zip(table, result, strict=True):
        there = row[~np.isnan(row)]
        if there.size:
            assert answer == np.sort(there)[aggregate.percentile_index(there.size, share)]
        else:
            assert math.isnan(answer)


def test_percentile_rows_without_ticks() -> None:
    assert np.isnan(aggregate.percentile_rows(np.empty((2, 0)), 0.9)).all()


@pytest.mark.parametrize(
    ("span", "window", "cold"), [(149, 300, True), (150, 300, False), (899, 1800, True), (0, 60, True)]
)
def test_cold_below_half_window(span: float, window: float, cold: bool) -> None:  # noqa: FBT001 - an expectation
    assert aggregate.is_cold(span, window) is cold


@pytest.mark.parametrize(("value", "whole"), [(1.9996, 1999), (0.0, 0), (-1.0, 0), (NAN, 0), (math.inf, 0)])
def test_amounts_are_truncated_and_missing_ones_are_zero(value: float, whole: int) -> None:
    assert aggregate.whole(value, 1000) == whole


ONE, TWO, THREE = 1.0, 2.0, 3.0


@pytest.mark.parametrize(
    ("parts", "ticks", "rows"),
    [
        ([([ONE, TWO], [10.0, 20.0]), ([TWO, THREE], [5.0, 6.0])], [ONE, TWO, THREE], [[10.0, 20.0, NAN], [NAN, 5, 6]]),
        ([([ONE, TWO], [1.0, 2.0])] * 2, [ONE, TWO], [[1.0, 2.0]] * 2),  # equal ticks, the usual case
        ([([], [])], [], [[]]),
    ],
)
def test_table_has_a_hole_where_a_series_lacks_a_tick(
    parts: list[tuple[list[float], list[float]]], ticks: list[float], rows: list[list[float]]
) -> None:
    result, values = aggregate.table([(np.array(times, float), np.array(local, float)) for times, local in parts])
    assert result.tolist() == ticks
    np.testing.assert_array_equal(values, rows)


def test_table_of_nothing() -> None:
    ticks, values = aggregate.table([])
    assert (ticks.shape, values.shape) == ((0,), (0, 0))


@pytest.mark.parametrize(
    ("rows", "known_before", "still_there", "sums"),
    [
        # a hole between two samples; before and after a series adds nothing
        ([[1, 1, 1, 1], [NAN, 2, NAN, 2], [5, NAN, NAN, NAN]], [0, 0, 0], [0, 0, 0], [6, 3, NAN, 3]),
        ([[NAN, 2, NAN]], [0], [0], [NAN, 2, NAN]),  # a tick without any sample is unknown, not zero
        ([[NAN, 2, NAN]], [1], [0], [NAN, 2, NAN]),  # alone, a hole and nothing look the same
        ([[1, 1, 1], [NAN, 2, NAN]], [1, 0], [1, 0], [1, 3, 1]),  # began at the second tick, ended there
        ([[1, 1, 1], [NAN, 2, NAN]], [1, 1], [1, 0], [NAN, 3, 1]),  # the first tick lacks it
        ([[1, 1, 1], [NAN, 2, NAN]], [1, 0], [1, 1], [1, 3, NAN]),  # the last tick lacks it
        ([[1, 1], [NAN, NAN]], [1, 1], [1, 1], [NAN, NAN]),  # there, but not measured at all
    ],
)
def test_total_skips_holes(
    rows: list[list[float]], known_before: list[int], still_there: list[int], sums: list[float]
) -> None:
    """A pod known before is expected from the start, one still there to the end: its lack makes the sum unknown."""
    result = aggregate.total(np.array(rows, float), np.array(known_before, bool), np.array(still_there, bool))
    np.testing.assert_array_equal(result, sums)

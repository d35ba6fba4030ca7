import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.arrays import IntArray
from agent.numerics.peaks import PeakWindows
from tests.agent.made import covered_seconds, highest

START = 1_700_000_100.0  # a slot begins here
DAY = 86400.0
ROWS = np.array([0, 1])

tables = st.lists(
    st.lists(st.one_of(st.floats(0.0, 100.0), st.just(math.nan)), min_size=3, max_size=3), min_size=1, max_size=8
)


def windows(averages: list[list[float]]) -> PeakWindows:
    """Windows that saw the given averages, one tick a minute; outer list: slots, inner: rows."""
    result = PeakWindows(rows=len(averages[0]), slots=8)
    for number, slot in enumerate(averages):
        ticks = np.arange(START + 300.0 * number, START + 300.0 * (number + 1), 60.0)
        result.add(np.arange(len(slot)), ticks, np.repeat(np.array(slot)[:, None], 5, axis=1), 60.0)
    return result


def coincident_max(found: PeakWindows, rows: IntArray, seconds: float) -> float:
    """The highest sum of the rows in one slot of the window."""
    return float(np.nansum(found.recent(rows, seconds), axis=0, dtype=np.float64).max(initial=0.0))


def test_coincident_below_sum() -> None:
    """Two pods that alternate between 3 and 1 cores: together never above 4 (C), apart 6 (S)."""
    result = windows([[3.0, 1.0], [1.0, 3.0]])
    assert coincident_max(result, ROWS, DAY) == 4.0
    assert highest(result, ROWS, DAY).tolist() == [3.0, 3.0]


def test_highest_sum_has_only_the_requested_pods() -> None:
    result = windows([[1.0, 50.0], [2.0, math.nan]])
    assert coincident_max(result, np.array([0]), DAY) == 2.0


def test_window_looks_back() -> None:
    """A window of one slot sees the current slot, of two also the one before."""
    result = windows([[9.0, 9.0], [2.0, 2.0], [1.0, 1.0]])
    assert [coincident_max(result, ROWS, seconds) for seconds in (300.0, 600.0, 900.0)] == [2.0, 4.0, 18.0]


def test_ring_forgets_oldest() -> None:
    result = windows([[9.0, 0.0]] + [[1.0, 0.0]] * 8)
    assert highest(result, ROWS, DAY)[0] == 1.0


def test_slots_of_a_pause_are_empty_and_those_before_stay() -> None:
    result = windows([[4.0, 4.0]])
    result.add(ROWS, np.arange(START + 900.0, START + 1200.0, 60.0), np.ones((2, 5)), 60.0)
    assert coincident_max(result, ROWS, 900.0) == 2.0
    assert coincident_max(result, ROWS, DAY) == 8.0


def test_slot_needs_half_of_its_time_measured() -> None:
    result = PeakWindows(rows=1, slots=8)
    row = np.array([0])
    result.add(row, START + np.arange(149.0), np.full((1, 149), 7.0), 1.0)
    assert math.isnan(highest(result, row, DAY)[0])
    result.add(row, np.array([START + 149.0]), np.array([[7.0]]), 1.0)
    assert highest(result, row, DAY)[0] == 7.0


def test_samples_split_between_slots() -> None:
    result = PeakWindows(rows=1, slots=8)
    ticks = START + 150.0 + np.arange(300.0)
    result.add(np.array([0]), ticks, np.where(ticks < START + 300.0, 1.0, 2.0)[None, :], 1.0)
    assert highest(result, np.array([0]), 300.0)[0] == 2.0
    assert np.nanmin(result.averages) == 1.0


def test_clock_set_back_goes_on() -> None:
    result = windows([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    result.add(ROWS, np.arange(START + 300.0, START + 600.0, 60.0), np.full((2, 5), 5.0), 60.0)
    assert coincident_max(result, ROWS, 600.0) == 10.0


@pytest.mark.parametrize("ticks", [1, 5])
def test_clock_set_back_loses_no_peak(ticks: int) -> None:
    """A slot keeps its highest value when it is measured again, for each series by itself."""
    result = windows([[4.0, 1.0], [2.0, 2.0]])
    result.add(ROWS, np.arange(START, START + 60.0 * ticks, 60.0), np.tile([[0.5], [3.0]], ticks), 60.0)
    assert highest(result, ROWS, DAY).tolist() == [4.0, 3.0 if ticks > 2 else 2.0]
    result.add(ROWS, np.arange(START + 300.0, START + 600.0, 60.0), np.zeros((2, 5)), 60.0)
    assert highest(result, ROWS, DAY).tolist() == [4.0, 3.0 if ticks > 2 else 2.0]
    result.clear(0)
    assert math.isnan(highest(result, np.array([0]), DAY)[0])
    result.add(ROWS, np.arange(START + 600.0, START + 900.0, 60.0), np.zeros((2, 5)), 60.0)
    assert highest(result, ROWS, 300.0).tolist() == [0.0, 0.0]


def test_fill_keeps_current_slot() -> None:
    """Averages from the store fill earlier slots; the current one, and one after a gap, are left alone."""
    result = windows([[1.0, 1.0]])
    times = np.array([START - 1200.0, START - 600.0, START - 300.0, START])
    result.fill(0, times, np.array([50.0, 60.0, 7.0, 80.0]))
    assert highest(result, np.array([0]), DAY)[0] == 7.0


def test_copy_continues_history() -> None:
    result = windows([[4.0, 1.0], [2.0, 1.0]])
    result.copy(0, 1)
    assert highest(result, ROWS, DAY).tolist() == [4.0, 4.0]


def test_empty_rows_answer() -> None:
    result = PeakWindows(rows=2, slots=8)
    assert coincident_max(result, np.array([], dtype=np.intp), DAY) == 0.0
    assert coincident_max(result, ROWS, DAY) == 0.0
    assert np.isnan(highest(result, ROWS, DAY)).all()


@given(table=tables)
def test_peaks_equal_plain_loops(table: list[list[float]]) -> None:
    """C and S are what plain loops over the averages find, and C is never above S."""
    result, rows = windows(table), np.arange(3)
    together = max(sum(value for value in slot if not math.isnan(value)) for slot in table)
    assert coincident_max(result, rows, DAY) == pytest.approx(together, rel=1e-6, abs=1e-30)
    by_row = [[slot[row] for slot in table if not math.isnan(slot[row])] for row in range(3)]
    np.testing.assert_allclose(highest(result, rows, DAY), [max(row, default=math.nan) for row in by_row], 1e-6, 1e-30)
    assert coincident_max(result, rows, DAY) <= np.nansum(highest(result, rows, DAY)) + 1e-9


def test_clock_that_jumps_a_year_and_back_loses_only_overwritten_slots() -> None:
    result = windows([[4.0, 1.0], [2.0, 1.0]])
    year = 366 * DAY + 900.0
    result.add(ROWS, np.arange(START + year, START + year + 300.0, 60.0), np.full((2, 5), 1.0), 60.0)
    assert highest(result, ROWS, DAY).tolist() == [1.0, 1.0]
    result.add(ROWS, np.arange(START + 600.0, START + 900.0, 60.0), np.full((2, 5), 3.0), 60.0)
    assert highest(result, ROWS, DAY).tolist() == [4.0, 3.0]
    assert covered_seconds(result, ROWS, DAY).tolist() == [900.0, 900.0]


def test_set_back_keeps_later_samples() -> None:
    """Slots dated ahead by less than the window were lived through: they count while the clock catches up."""
    result = windows([[1.0, 1.0], [2.0, 2.0], [9.0, 9.0]])
    result.add(ROWS, np.arange(START, START + 300.0, 60.0), np.full((2, 5), 1.0), 60.0)
    assert coincident_max(result, ROWS, DAY) == 18.0
    assert coincident_max(result, ROWS, 600.0) == 4.0


def test_longer_ring_keeps_everything_and_shorter_one_the_latest() -> None:
    result = windows([[float(number), 0.0] for number in range(6)])
    result.resize(16)
    assert covered_seconds(result, ROWS, DAY).tolist() == [1800.0, 1800.0]
    result.resize(4)
    assert result.read(ROWS[:1], result.held).tolist() == [[2.0, 3.0, 4.0, 5.0]]


def test_filled_averages_stand_in_only_where_none_is_known() -> None:
    result = windows([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    times = np.arange(START - 900.0, START + 600.0, 300.0)
    result.fill(0, times, np.full(5, 7.0))
    assert result.read(ROWS[:1], result.held).tolist() == [[7.0, 7.0, 1.0, 2.0, 3.0]]


def test_restored_row_accepts_the_same_slot() -> None:
    result, other = windows([[4.0, 1.0], [2.0, 3.0]]), windows([[0.0, 0.0], [0.0, 0.0]])
    held = result.held
    other.write(ROWS[::-1], held, result.read(ROWS, held))
    assert other.read(ROWS, held).tolist() == [[1.0, 3.0], [4.0, 2.0]]
    assert np.isnan(result.read(ROWS, held + 100)).all()


def test_nearest_to_now_stays() -> None:
    """Where slots share a column, writing and resizing keep the one nearest to now, in whatever order they come."""
    for order in (1, -1):
        result = windows([[5.0, 5.0]])
        now = int(result.held[0])
        slots = np.array([now - 15, now - 7, now - 23, now + 8])[::order]
        for slot in slots:
            result.write(ROWS, np.array([slot]), np.full((2, 1), float(slot - now), dtype=np.float32))
        assert result.held.tolist() == [now - 7, now]
        result.write(ROWS, slots, np.full((2, 4), 1.0, dtype=np.float32))
        assert result.read(ROWS[:1], result.held).tolist() == [[1.0, 5.0]]
        result.resize(16)
        result.write(ROWS, slots, np.full((2, 4), 2.0, dtype=np.float32))
        assert result.held.tolist() == [now - 15, now - 7, now, now + 8]
        result.resize(4)
        assert result.held.tolist() == [now - 7, now]

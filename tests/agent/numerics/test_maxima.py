import math

import numpy as np

from agent.numerics.maxima import DAYS, DailyMaxima

DAY = 86400.0
NOW = 20_000 * DAY + 3600.0
ROWS = np.array([0, 1])


def _maxima(*samples: tuple[float, float]) -> DailyMaxima:
    """Samples of row 0, each with its time."""
    result = DailyMaxima()
    result.grow(2)
    for now, value in samples:
        result.add(ROWS[:1], np.array([value]), now)
    return result


def _recent(maxima: DailyMaxima, now: float, days: float) -> float:
    first, second = maxima.recent(ROWS, now, days * DAY)
    assert math.isnan(second)
    return float(first)


def test_window_has_its_days() -> None:
    """The highest sample counts until the window has left its day."""
    maxima = _maxima((NOW - 3 * DAY, 9.0), (NOW - DAY, 5.0), (NOW - 60.0, 2.0), (NOW, 1.0))
    assert [_recent(maxima, NOW, days) for days in (0.01, 1.0, 2.0, 3.0)] == [2.0, 5.0, 5.0, 9.0]
    assert math.isnan(_recent(_maxima(), NOW, 30.0))


def test_old_days_make_way() -> None:
    """A column that holds a day of the last ring is emptied, for all rows."""
    maxima = _maxima((NOW, 9.0))
    maxima.add(ROWS[1:], np.array([3.0]), NOW + DAYS * DAY)
    assert np.isnan(maxima.recent(ROWS, NOW + DAYS * DAY, 30 * DAY)).tolist() == [True, False]


def test_clock_that_was_set_back_keeps_the_highest() -> None:
    assert _recent(_maxima((NOW + 2 * DAY, 9.0), (NOW, 1.0)), NOW, 3.0) == 9.0
    assert _recent(_maxima((NOW + 9 * DAY, 9.0), (NOW, 1.0)), NOW, 3.0) == 1.0

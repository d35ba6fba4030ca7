import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.history import cpu_history
from agent.predictors.base import ClassView

START = 1_699_920_000.0  # a day begins here
SLOT = 300.0


def seen(slots: dict[int, list[float]]) -> ClassView:
    """Two pods that used what is listed in those slots, counted from the beginning of a day. [cores]"""
    history = cpu_history()
    history.grow(3)
    rows = np.arange(3)
    for slot, usage in slots.items():
        values = np.array([sum(usage), *usage])
        begin = START + SLOT * slot
        history.windows.add(rows, np.arange(begin, begin + SLOT, 60.0), np.repeat(values[:, None], 5, axis=1), 60.0)
        history.learn(rows, values, begin + SLOT, np.full(3, SLOT))
    return ClassView(history, 0, rows[1:], np.full(2, 4.0))


def test_profile_of_different_days() -> None:
    """Pods that peak at the same time of day on different days are charged together: C = 4, E = S = 6."""
    windows = seen({10: [3.0, 1.0], 288 + 10: [1.0, 3.0]}).windows()
    assert windows.coincident == pytest.approx(4.0)
    assert windows.profile() == pytest.approx(6.0)
    assert windows.total == pytest.approx(6.0)


def test_profile_of_different_hours() -> None:
    """Pods that peak at different times of day are not charged together: E = C = 4, S = 6."""
    windows = seen({10: [3.0, 1.0], 100: [1.0, 3.0]}).windows()
    assert windows.profile() == pytest.approx(4.0)
    assert windows.profile(aside=44) == pytest.approx(4.0)
    assert windows.profile(aside=45) == pytest.approx(6.0)


def test_profile_around_midnight() -> None:
    """The last slot of the day and the first one are neighbours."""
    windows = seen({0: [3.0, 1.0], 287: [1.0, 3.0]}).windows()
    assert windows.profile() == pytest.approx(4.0)
    assert windows.profile(aside=1) == pytest.approx(6.0)


def test_profile_forgets() -> None:
    """A window of a day knows each time of day once: E = C."""
    view = seen({10: [3.0, 1.0], 288 + 10: [1.0, 3.0]})
    assert view.windows(1.0).profile() == pytest.approx(4.0)


def test_profile_of_thin_pods() -> None:
    """A pod whose window says too little counts with its highest sample, at every time of day."""
    view = seen({10: [3.0, 1.0], 100: [1.0, 3.0]})
    view.history.windows.clear(np.array([2]))
    assert view.windows().profile() == pytest.approx(6.0)


@given(
    slots=st.dictionaries(
        st.integers(0, 3 * 288), st.lists(st.floats(0.0, 64.0), min_size=2, max_size=2), min_size=1, max_size=20
    ),
    aside=st.integers(0, 144),
)
def test_profile_lies_between(slots: dict[int, list[float]], aside: int) -> None:
    """C <= E <= S, whatever was used, and more slots aside never make it less."""
    windows = seen(dict(sorted(slots.items()))).windows()
    assert windows.coincident <= windows.profile() + 1e-9
    assert windows.profile() <= windows.profile(aside) + 1e-9
    assert windows.profile(aside) <= windows.total + 1e-9

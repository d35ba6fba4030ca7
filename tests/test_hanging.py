"""The limit on each input of a property."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import hanging


def _hang(number: int) -> None:
    """As a loop over a number of somebody else's, inside of what catches every error."""
    try:
        while number:
            number += 1
    except Exception:  # noqa: BLE001, S110 - as a scheduler does that outlives its plugins
        pass


def test_input_that_hangs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that never ends fails its property, although the code under test catches every error."""
    monkeypatch.setattr(hanging, "INPUT_SECONDS", 0.05)

    @settings(max_examples=3, database=None, derandomize=True, deadline=None)
    @given(st.just(1))
    def ends(number: int) -> None:
        _hang(number)

    hanging.limit_inputs(ends)
    with pytest.raises(pytest.fail.Exception, match="takes more than"):
        ends()


def test_inputs_are_limited_one_by_one() -> None:
    """The limit is set for an input while it is tried, and once however often it is asked for."""
    observed = []

    @settings(max_examples=3, database=None, derandomize=True)
    @given(st.integers())
    def ends(number: int) -> None:
        observed.append(hanging.time_left())
        assert isinstance(number, int)

    hanging.limit_inputs(ends)
    limited = ends.hypothesis.inner_test  # type: ignore[attr-defined]
    hanging.limit_inputs(ends)
    assert ends.hypothesis.inner_test is limited  # type: ignore[attr-defined]
    ends()
    assert all(0 < left < 2 * hanging.INPUT_SECONDS for left in observed)
    assert hanging.time_left() == 0


@given(st.integers())
def test_every_property_is_limited(number: int) -> None:
    """The limit holds for this property, as for every other one, without its doing."""
    assert hanging.time_left() > 0, number

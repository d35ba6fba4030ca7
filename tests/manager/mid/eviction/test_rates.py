"""The sliding minute."""

from hypothesis import given
from hypothesis import strategies as st

from manager.mid.eviction.limits import SlidingMinute


def test_minute_slides() -> None:
    """Two per minute: the third waits until the first is a minute old."""
    rate = SlidingMinute()
    for now in (100.0, 130.0):
        assert rate.free_at(2, now) == now
        rate.take(now)
    assert rate.free_at(2, 140.0) == 160.0
    assert rate.free_at(2, 160.0) == 160.0
    rate.take(160.0)
    assert rate.free_at(2, 161.0) == 190.0


def test_zero_means_none() -> None:
    """A limit of 0 never has room."""
    assert SlidingMinute().free_at(0, 5.0) is None


def test_each_asks_by_its_own_limit() -> None:
    """Nodes may have limits of their own for the cluster: whoever allows one waits for the last one of three."""
    rate = SlidingMinute()
    for now in (100.0, 110.0, 120.0):
        rate.take(now)
    assert [rate.free_at(limit, 130.0) for limit in (1, 2, 3, 4)] == [180.0, 170.0, 160.0, 130.0]


def test_refused_gives_its_place_back() -> None:
    """An eviction that did not happen does not count."""
    rate = SlidingMinute()
    rate.take(1.0)
    assert rate.free_at(1, 2.0) == 61.0
    rate.give_back(1.0)
    assert rate.free_at(1, 2.0) == 2.0
    rate.give_back(1.0)  # nothing left to give back


@given(steps=st.lists(st.tuples(st.floats(0, 45), st.booleans()), max_size=60), limit=st.integers(0, 4))
def test_no_minute_holds_more(steps: list[tuple[float, bool]], limit: int) -> None:
    """Whenever tries come, no 60 seconds hold more than the limit, and at the moment promised there is room."""
    rate, now, taken = SlidingMinute(), 0.0, list[float]()
    for pause, patient in steps:
        now += pause
        free_at = rate.free_at(limit, now)
        if free_at is None:
            assert limit == 0
            continue
        assert free_at >= now
        if patient:
            now = free_at
        if free_at <= now:
            assert rate.free_at(limit, now) == now
            rate.take(now)
            taken.append(now)
    for start in taken:
        assert sum(start <= when < start + 60.0 for when in taken) <= limit

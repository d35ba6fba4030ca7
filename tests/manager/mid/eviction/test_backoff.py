"""No workload goes round in circles."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from manager.mid.eviction.limits import LONGEST_SECONDS, EvictionBackoff

WALL = 1_800_000_000.0


def test_replacement_is_left_alone() -> None:
    """After an eviction the pod that follows stays for 10 minutes; one that was there long before may go."""
    guard = EvictionBackoff()
    guard.evicted("shop/Job/j", WALL - 500, 0.0, WALL)
    assert guard.backoff_until("shop/Job/j", WALL + 1, 5.0) == 600.0
    assert guard.backoff_until("shop/Job/j", WALL - 30, 5.0) == 600.0  # clocks differ
    assert guard.backoff_until("shop/Job/j", WALL - 500, 5.0) is None
    assert guard.backoff_until("shop/Job/other", WALL + 1, 5.0) is None
    assert guard.backoff_until("shop/Job/j", WALL + 1, 600.0) is None


def test_back_off_doubles_to_six_hours() -> None:
    """Each eviction of a replacement doubles the time: 10, 20, 40 … minutes, never more than 6 hours."""
    guard, now, waits = EvictionBackoff(), 0.0, []
    for _ in range(9):
        guard.evicted("w", WALL + now, now, WALL + now)
        until = guard.backoff_until("w", WALL + now, now)
        assert until is not None
        waits.append((until - now) / 60)
        now = until
    assert waits == [10, 20, 40, 80, 160, 320, 360, 360, 360]


def test_siblings_do_not_double() -> None:
    """Pods that were there before the first eviction go as one round: the time begins again, at the same length."""
    guard = EvictionBackoff()
    guard.evicted("w", WALL - 500, 0.0, WALL)
    guard.evicted("w", WALL - 400, 60.0, WALL + 60)
    assert guard.backoff_until("w", WALL + 1, 61.0) == 660.0  # the first one's replacement


def test_restart_takes_young_pods_for_replacements() -> None:
    """Whoever has just begun leaves pods alone that were made in the 10 minutes before, not older or newer ones."""
    guard = EvictionBackoff()
    guard.begin(1000.0, WALL)
    guard.begin(1300.0, WALL + 300)  # it has begun already
    assert guard.backoff_until("w", WALL - 1, 1000.0) == 1600.0
    assert guard.backoff_until("w", WALL - 600, 1000.0) == 1600.0
    assert guard.backoff_until("w", WALL - 601, 1000.0) is None
    assert guard.backoff_until("w", WALL, 1000.0) is None
    assert guard.backoff_until("w", WALL - 1, 1600.0) is None
    guard.end()
    assert guard.backoff_until("w", WALL - 1, 1000.0) is None
    guard.begin(5000.0, WALL + 4000)
    assert guard.backoff_until("w", WALL + 3900, 5000.0) == 5600.0


def test_peace_is_forgotten() -> None:
    """A workload that had peace for six hours after its back-off begins again at 10 minutes, and takes no memory."""
    guard = EvictionBackoff()
    guard.evicted("w", WALL - 500, 0.0, WALL)
    guard.evicted("w", WALL + 700, 700.0, WALL + 700)
    later = 700.0 + 1200.0 + LONGEST_SECONDS
    guard.evicted("other", WALL, later, WALL + later)
    assert len(guard) == 1
    guard.evicted("w", WALL + later, later, WALL + later)
    assert guard.backoff_until("w", WALL + later, later) == later + 600.0


@given(st.lists(st.tuples(st.floats(0, 4000), st.booleans()), max_size=80))
def test_circles_get_slower(steps: list[tuple[float, bool]]) -> None:
    """However tries are spread, replacements of one workload go with at least 10 minutes between, ever longer ones."""
    guard, now, evicted, birth = EvictionBackoff(), 0.0, list[float](), WALL - 1000
    for pause, patient in steps:
        now += pause
        until = guard.backoff_until("w", birth, now)
        if until is not None and patient:
            now = until
            until = guard.backoff_until("w", birth, now)
        if until is None:
            guard.evicted("w", birth, now, WALL + now)
            evicted.append(now)
            birth = WALL + now  # started again at once
    gaps = [after - before for before, after in itertools.pairwise(evicted)]
    for number, gap in enumerate(gaps):
        assert gap >= 600.0 - 1e-6
        if sum(gaps[:number]) < LONGEST_SECONDS:  # no long peace yet
            assert gap >= min(600.0 * 2**number, LONGEST_SECONDS) - 1e-6

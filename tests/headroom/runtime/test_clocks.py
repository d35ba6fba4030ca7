import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom.runtime.backoff import LONGEST_RETRY_AFTER_SECONDS, Backoff
from headroom.runtime.clocks import SlewedClock


class Machine:
    def __init__(self) -> None:
        self.steady, self.ahead = 100.0, 1_700_000_000.0
        self.calm = SlewedClock(lambda: self.steady + self.ahead, lambda: self.steady)

    @property
    def wall(self) -> float:
        return self.steady + self.ahead

    def wait(self, seconds: float) -> float:
        self.steady += seconds
        return self.calm()


def test_goes_along_with_the_wall_clock() -> None:
    machine = Machine()
    for seconds in (0.0, 0.001, 1.0, 86400.0):
        assert machine.wait(seconds) == pytest.approx(machine.wall, abs=1e-6)


def test_jump_ahead_takes_its_time() -> None:
    """Ten minutes ahead: twice as fast for ten minutes, then as fast as time passes."""
    machine = Machine()
    before = machine.calm()
    machine.ahead += 600
    assert machine.calm() == before
    assert machine.wait(60) == pytest.approx(before + 120)
    assert machine.wait(540) == pytest.approx(machine.wall, abs=1e-3)
    assert machine.wait(60) == pytest.approx(machine.wall, abs=1e-3)


def test_jump_back_takes_its_time() -> None:
    """A minute back: half as fast for two minutes, and never back."""
    machine = Machine()
    before = machine.calm()
    machine.ahead -= 60
    assert machine.calm() == before
    assert machine.wait(60) == pytest.approx(before + 30)
    assert machine.wait(60) == pytest.approx(machine.wall, abs=1e-3)


@pytest.mark.parametrize("jump", [1.7e9, 3601.0, -3601.0])
def test_out_of_reach_is_set(jump: float) -> None:
    """A machine that had no clock when it began, or that slept for long, does not lag behind the others for as long."""
    machine = Machine()
    calm = SlewedClock(lambda: machine.wall, lambda: machine.steady, 3600.0)
    machine.ahead += jump
    assert calm() == machine.wall
    machine.ahead += 3600.0
    assert calm() == pytest.approx(machine.wall - 3600.0)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-1e7, 1e7)), max_size=20))
def test_is_never_far_from_time(steps: list[tuple[float, float]]) -> None:
    """Whatever becomes of the wall clock, between two looks it goes on by half to twice of what passed."""
    machine = Machine()
    said = machine.calm()
    for seconds, jump in steps:
        machine.ahead += jump
        later = machine.wait(seconds)
        assert seconds / 2 - 1e-5 <= later - said <= 2 * seconds + 1e-5
        said = later


def test_backoff_grows_and_ends() -> None:
    """Waits double up to the longest, also after a year of failures, and start over after a success."""
    backoff = Backoff(1.0, 30.0)
    assert [backoff.failed() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    backoff.succeeded()
    assert backoff.failed() == 1
    backoff.failures = 1_000_000
    assert backoff.failed() == 30


def test_backoff_is_jittered() -> None:
    """Waits differ by up to the jitter, so that clients do not come back together."""
    waits = [Backoff(1.0, 30.0, (0.9, 1.1), failures=10).failed() for _ in range(100)]
    assert all(27 <= wait <= 33 for wait in waits)
    assert len(set(waits)) > 50


@pytest.mark.parametrize(("wait", "least"), [(5.0, 5.0), (0.0, 0.9), (1e9, LONGEST_RETRY_AFTER_SECONDS), (None, 0.9)])
def test_server_is_left_alone(wait: float | None, least: float) -> None:
    """A server is never requested before the time that it names; a year is capped."""
    waits = [Backoff(1.0, 30.0, (0.9, 1.1)).failed(wait) for _ in range(50)]
    assert min(waits) >= least
    assert max(waits) <= max(least * 1.25, 1.1)

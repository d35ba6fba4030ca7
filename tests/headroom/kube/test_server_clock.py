"""The API server's time: whatever our own wall clock says, and whenever it is set."""

from email.utils import formatdate

from headroom.kube.server_clock import ServerClock

SERVER = 1_800_000_000.0


class _Machine:
    def __init__(self, ahead: float) -> None:
        self.steady, self.ahead = 500.0, ahead
        self.clock = ServerClock(lambda: SERVER + self.steady - 500.0 + self.ahead, lambda: self.steady)

    def hear(self) -> None:
        self.clock.learn(formatdate(SERVER + self.steady - 500.0, usegmt=True))


def test_wall_clock_before_the_first_answer() -> None:
    """Before an answer there is nothing but our own clock, and nothing is known of it."""
    machine = _Machine(600)
    assert (machine.clock(), machine.clock.ahead_seconds) == (SERVER + 600, 0)


def test_wrong_clock_does_not_matter() -> None:
    """From the first answer on the time is the server's, and goes on between answers."""
    for ahead in (600.0, -7200.0):
        machine = _Machine(ahead)
        machine.hear()
        machine.steady += 30
        assert (machine.clock(), machine.clock.ahead_seconds) == (SERVER + 30, ahead)


def test_clock_that_is_set_does_not_matter() -> None:
    """A step of our clock between two answers moves no age: none is evaluated by a clock that was just set."""
    machine = _Machine(0)
    machine.hear()
    machine.ahead = 7200
    machine.steady += 1
    assert (machine.clock(), machine.clock.ahead_seconds) == (SERVER + 1, 7200)


def test_malformed_dates_change_nothing() -> None:
    """A response without a valid time changes nothing."""
    machine = _Machine(600)
    machine.hear()
    for date in (None, "", "yesterday", "Thu, 99 Foo 2026", f"Thu, 01 Jan 1{30 * '0'} 00:00:00 GMT"):
        machine.clock.learn(date)
        assert machine.clock() == SERVER

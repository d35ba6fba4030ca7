"""The ticker: by the monotonic clock, whatever the wall clock does."""

import pytest

from agent.interval import BACK, FORWARD, SUSPENDED, Clocks, run_ticker
from agent.metrics import Metrics

WALL = 1_700_000_000.0


class World:
    """A machine whose clocks a test moves, and a count of what happened (fake)."""

    def __init__(self, ticks: int) -> None:
        self.wall = WALL
        self.running = 50.0
        self.slept = 0.0
        self.left = ticks
        self.times: list[float] = []
        self.metrics = Metrics()
        self.cost = dict.fromkeys(range(ticks), 0.0)

    @property
    def clocks(self) -> Clocks:
        """Its clocks."""
        return Clocks(lambda: self.wall, lambda: self.running, lambda: self.slept)

    def tick(self, now: float) -> None:
        """One tick, which may take long."""
        self.times.append(now)
        self.run(self.cost.get(len(self.times) - 1, 0.0))
        self.left -= 1

    def run(self, seconds: float) -> None:
        """Time passes."""
        self.wall += seconds
        self.running += seconds

    def suspend(self, seconds: float) -> None:
        """The machine sleeps."""
        self.wall += seconds
        self.slept += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait, or end the test."""
        if not self.left:
            raise StopAsyncIteration
        self.run(seconds)

    @property
    def skipped(self) -> float:
        """Ticks that were left out."""
        return self.metrics.registry.get_sample_value("headroom_agent_ticks_late_total") or 0

    @property
    def jumps(self) -> list[str]:
        """Kinds of jumps that were counted, once each."""
        (found,) = (family.samples for family in self.metrics.clock_jumps.collect())
        return [one.labels["kind"] for one in found if one.value == 1 and one.name.endswith("_total")]

    async def run_ticker(self, interval: float = 1.0) -> list[float]:
        """Times of the ticks, as seconds after the start."""
        with pytest.raises(StopAsyncIteration):
            await run_ticker(interval, self.tick, self.metrics, self.clocks, self.sleep)
        return [time - WALL for time in self.times]


async def test_ticks_come_in_time() -> None:
    """Ticks are an interval apart, whatever each of them takes."""
    world = World(4)
    world.cost |= {0: 0.3, 1: 0.9}
    assert await world.run_ticker() == pytest.approx([0.0, 1.0, 2.0, 3.0])
    assert (world.skipped, world.jumps) == (0, [])


async def test_late_ticks_are_left_out() -> None:
    """A tick that takes 3.5 intervals costs the ones it covers, and they are counted; the rhythm stays."""
    world = World(3)
    world.cost[0] = 3.5
    times = await world.run_ticker()
    assert times == pytest.approx([0.0, 3.5, 4.0])
    assert world.skipped == 2


async def test_suspension_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A machine that slept goes on with the next tick, at the new time; no tick is made up for."""
    caplog.set_level("INFO")
    world = World(3)
    asleep = world.sleep

    async def sleep(seconds: float) -> None:
        await asleep(seconds)
        if len(world.times) == 1:
            world.suspend(3600.0)

    world.sleep = sleep  # type: ignore[method-assign] # the machine sleeps while the agent waits
    assert await world.run_ticker() == pytest.approx([0.0, 3601.0, 3602.0])
    assert (world.jumps, world.skipped) == ([SUSPENDED], 0)
    assert "suspended for 3600 s" in caplog.text


@pytest.mark.parametrize(("step", "kind"), [(-7200.0, BACK), (86400.0, FORWARD)])
async def test_set_clock_is_told(step: float, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """A wall clock that is set does not move the ticker; the ticks bear the new time."""
    world = World(3)
    tick = world.tick

    def tick_and_set(now: float) -> None:
        tick(now)
        if len(world.times) == 1:
            world.wall += step

    world.tick = tick_and_set  # type: ignore[method-assign] # the clock is set during the first tick
    assert await world.run_ticker() == pytest.approx([0.0, 1.0 + step, 2.0 + step])
    assert (world.jumps, world.skipped) == ([kind], 0)
    assert f"set {kind} by {abs(step):.0f} s" in caplog.text


def test_slow_drift_adds_up() -> None:
    """Clocks that diverge slowly are reported once they are a second apart, and then anew."""
    world = World(0)
    clocks = world.clocks
    found = []
    for _ in range(25):
        found.append(clocks.jump())
        world.run(1.0)
        world.wall += 0.1
    reported = [one for one in found if one is not None]
    assert [kind for kind, _ in reported] == [FORWARD, FORWARD]
    assert found[0] is None


def test_real_clocks_agree() -> None:
    """The clocks of a machine that neither sleeps nor is set run alike."""
    clocks = Clocks()
    assert [clocks.jump() for _ in range(100)] == [None] * 100

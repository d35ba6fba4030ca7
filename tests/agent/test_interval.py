from collections.abc import Callable

import pytest

from agent.interval import BACK, FORWARD, SUSPENDED, Clocks, run_ticker
from agent.metrics import Metrics

WALL = 1_700_000_000.0


class World:
    def __init__(self) -> None:
        self.wall, self.running, self.slept = WALL, 50.0, 0.0
        self.clocks = Clocks(lambda: self.wall, lambda: self.running, lambda: self.slept)
        self.metrics = Metrics()

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.running += seconds

    async def ticks(
        self, count: int, *costs: float, during: Callable[[], object] = dict, between: Callable[[], object] = dict
    ) -> list[float]:
        """Seconds after the start of some ticks of these costs; something happens during the first, or after it."""
        times: list[float] = []

        def tick(now: float) -> None:
            times.append(now - WALL)
            self.run(costs[len(times) - 1] if len(times) <= len(costs) else 0.0)
            if len(times) == 1:
                during()

        async def sleep(seconds: float) -> None:
            if len(times) == count:
                raise StopAsyncIteration
            self.run(seconds)
            if len(times) == 1:
                between()

        with pytest.raises(StopAsyncIteration):
            await run_ticker(1.0, tick, self.metrics, self.clocks, sleep)
        return times

    @property
    def counted(self) -> tuple[float | None, list[str]]:
        (result,) = (family.samples for family in self.metrics.clock_jumps.collect())
        kinds = [entry.labels["kind"] for entry in result if entry.value == 1 and entry.name.endswith("_total")]
        return self.metrics.registry.get_sample_value("headroom_agent_ticks_late_total"), kinds


@pytest.mark.parametrize(
    ("costs", "times", "late"),
    [
        ((0.3, 0.9), [0.0, 1.0, 2.0], 0),  # an interval apart, whatever each of them takes
        ((3.5,), [0.0, 3.5, 4.0], 2),  # one that takes longer costs those it covers, and the rhythm stays
    ],
)
async def test_ticks_come_in_time(costs: tuple[float, ...], times: list[float], late: int) -> None:
    world = World()
    assert await world.ticks(3, *costs) == pytest.approx(times)
    assert world.counted == (late, [])


async def test_machine_that_slept_goes_on_with_the_next_tick(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()

    def suspend() -> None:
        world.wall += 3600.0
        world.slept += 3600.0

    assert await world.ticks(3, between=suspend) == pytest.approx([0.0, 3601.0, 3602.0])
    assert "suspended for 3600 s" in caplog.text
    assert world.counted == (0, [SUSPENDED])


@pytest.mark.parametrize(("step", "kind"), [(-7200.0, BACK), (86400.0, FORWARD)])
async def test_wall_clock_that_is_set_does_not_move_the_ticker(
    step: float, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The ticks have the new time."""
    world = World()

    def set_clock() -> None:
        world.wall += step

    assert await world.ticks(3, during=set_clock) == pytest.approx([0.0, 1.0 + step, 2.0 + step])
    assert f"set {kind} by {abs(step):.0f} s" in caplog.text
    assert world.counted == (0, [kind])


def test_clocks_that_diverge_slowly_jump_once_they_are_a_second_apart() -> None:
    world, result = World(), []
    for _ in range(25):
        result.append(world.clocks.jump())
        world.run(1.0)
        world.wall += 0.1
    assert [entry[0] for entry in result if entry is not None] == [FORWARD, FORWARD]
    assert result[0] is None


def test_clocks_of_a_machine_that_neither_sleeps_nor_is_set_run_alike() -> None:
    clocks = Clocks()
    assert [clocks.jump() for _ in range(100)] == [None] * 100

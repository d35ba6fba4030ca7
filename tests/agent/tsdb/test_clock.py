"""Wall clocks that jump: no window ever holds two recordings of one moment, or anything out of order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.samples import CPU, Sample
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.tsdb.ticks import START, fill, finish

SMALL = StoreSettings(block_ticks=60, raw_seconds=10**6)
HOUR, YEAR = 3600.0, 365 * 86400.0


@pytest.fixture(params=["memory", "blocks", "restart"])
def settled(request: pytest.FixtureRequest, tmp_path: Path) -> "Settled":
    """The place of the samples at the query: just recorded, compressed, or read from the file again."""
    return Settled(request.param, tmp_path / "t.db")


class Settled:
    def __init__(self, where: str, path: Path) -> None:
        self.store = Tsdb.open(path, SMALL)
        self._where = where

    def after(self, now: float) -> Tsdb:
        if self._where != "memory":
            finish(self.store, now)
        if self._where == "restart":
            self.store.close()
            self.store = Tsdb.open(self.store.path, SMALL)
        return self.store


def _seconds(store: Tsdb, start: float, end: float) -> list[float]:
    window = store.window(CPU, "a", start, end)
    assert np.all(np.diff(window.times) > 0)
    result: list[float] = (window.times - START).tolist()
    return result


def test_clock_set_back_hides_the_future_and_replaces_overwritten_samples(settled: Settled) -> None:
    fill(settled.store, 300, start=START + HOUR)
    fill(settled.store, 200, start=START)
    store = settled.after(START + 200)
    assert _seconds(store, START - 1, START + 199) == list(range(200))
    assert _seconds(store, START + 199, START + 260) == []
    fill(store, 350, start=START + 200, step=10.0, maintain=False)
    store = settled.after(START + 3700)
    assert _seconds(store, START + 3400, START + 3690) == list(range(3410, 3700, 10))
    values = store.window(CPU, "a", START + HOUR, START + 3690).values
    assert values == pytest.approx(np.arange(341, 350) / 1000)  # of the second recording
    fives = store.averages(CPU, START, START + 3700)["a"]
    assert np.all(np.diff(fives.times) == 300)
    minutes = store.minutes(CPU, START, START + 3700)["a"]
    assert minutes.count.tolist() == [60] * 3 + [24] + [6] * 57 + [4]
    settled.store.close()


def test_leap_forward_is_a_gap_and_earlier_samples_stay(settled: Settled) -> None:
    fill(settled.store, 200)
    fill(settled.store, 200, start=START + 5 * HOUR)
    store = settled.after(START + 5 * HOUR + 200)
    assert _seconds(store, START - 1, START + 6 * HOUR) == [*range(200), *range(18000, 18200)]
    assert _seconds(store, START + 4 * HOUR, START + 5 * HOUR - 1) == []
    assert _seconds(store, START + 5 * HOUR - 100, START + 5 * HOUR + 199) == list(range(18000, 18200))
    settled.store.close()


@pytest.mark.parametrize("wrong", [0.0, START + 10 * YEAR])
def test_wrong_by_years_for_a_while(settled: Settled, wrong: float) -> None:
    """A machine whose clock starts in 1970, or ten years ahead, hides and mixes no samples once its clock is right."""
    fill(settled.store, 200)
    fill(settled.store, 100, start=wrong)
    fill(settled.store, 200, start=START + 300)
    store = settled.after(START + 500)
    assert _seconds(store, START - 1, START + 499) == [*range(200), *range(300, 500)]
    assert len(store.window(CPU, "a", wrong - 1, wrong + 99)) == 100
    minutes = store.minutes(CPU, START, START + 499)["a"]
    assert int(minutes.count.sum()) == 400
    settled.store.close()


def test_clock_that_never_settles(tmp_path: Path) -> None:
    """A clock that goes back at every tick is bounded in memory, and the last recording is what windows have."""
    with Tsdb.open(tmp_path / "t.db", StoreSettings(block_ticks=20, memory_ticks=60)) as store:
        for number in range(400):
            now = START - number
            store.append(now, [Sample(CPU, "a", now, number / 1000)])
            store.maintain(now)
        assert store.size().head_ticks <= 120
        assert store.window(CPU, "a", START - 400, START - 399 + 0.5).values.tolist() == [0.399]


def test_pod_of_the_first_recording_alone_is_not_in_the_second(tmp_path: Path) -> None:
    with Tsdb.open(tmp_path / "t.db", SMALL) as store:
        for number in range(100):
            now = START + number
            store.append(now, [Sample(CPU, "a", now, 1.0), Sample(CPU, "gone", now, 1.0)])
        fill(store, 100)
        assert set(store.windows(CPU, START - 1, START + 99)) == {"node", "a"}
        assert "gone" not in store.minutes(CPU, START, START + 60)


STEPS = st.lists(
    st.tuples(st.sampled_from((1.0, 0.5, 30.0, 700.0, -0.5, -40.0, -1000.0)), st.integers(1, 30)), max_size=8
)


def _clock(steps: list[tuple[float, int]]) -> Iterator[float]:
    now = START
    yield now
    for jump, ticks in steps:
        now += jump
        yield now
        for _ in range(ticks):
            now += 1.0
            yield now


@settings(max_examples=40)
@given(STEPS)
def test_any_clock(steps: list[tuple[float, int]]) -> None:
    """For any clock, a window has the samples that later recordings did not overwrite."""
    tape: list[list[tuple[float, float]]] = []
    with Tsdb.in_memory(StoreSettings(block_ticks=15, memory_ticks=10**4)) as store:
        last = -1e18
        for number, now in enumerate(_clock(steps)):
            if not last < now <= last + 600:
                tape.append([])
            tape[-1].append((now, number / 1000))
            last = now
            store.append(now, [Sample(CPU, "a", now, number / 1000)])
            store.maintain(now, seconds=0.01)
        expected: dict[float, float] = {}
        for run in tape:
            first, end = run[0][0], run[-1][0]
            expected = {time: value for time, value in expected.items() if not first <= time <= end}
            expected.update(run)
        window = store.window(CPU, "a", 0, 1e11)
        assert list(zip(window.times.tolist(), window.values.tolist(), strict=True)) == sorted(expected.items())

"""Averages of the past, which the trainer takes from the store after a start, after hours away, or for a policy."""

from collections.abc import Collection, Mapping

import numpy as np
import pytest

from agent.samples import CPU, NODE, SYS
from agent.trainer.trainer import Trainer
from agent.tsdb.series import Series
from tests.agent.made import START, MadeStore, covered_seconds, highest, machine, pod


def fill(trainer: Trainer, store: MadeStore) -> None:
    while trainer.fill(store):
        pass


def known_days(count: int) -> dict[str, dict[str, Series]]:
    times = np.arange(START - count * 86400.0, START, 300.0)
    return {CPU: {"a": Series(times, np.arange(float(len(times))))}}


def covered_days(trainer: Trainer) -> float:
    rows = np.array([trainer.row("a")])
    return float(covered_seconds(trainer.histories[CPU].windows, rows, 30 * 86400.0)[0]) / 86400.0


def test_averages_of_seven_days_are_read_without_a_lost_slot() -> None:
    store, trainer = MadeStore(), Trainer()
    store.put(CPU, "a", START, [1.0] * 30)
    store.five_minutes = known_days(8)
    trainer.train(START + 30.0, store, [pod("a")])
    fill(trainer, store)
    found = trainer.histories[CPU].windows.averages[trainer.row("a") or 0]
    assert np.count_nonzero(~np.isnan(found)) == 7 * 288 - 1  # the current slot has too little
    assert np.nanmax(found) == 8 * 288 - 1


def test_longer_window_gets_older_averages_from_the_store_and_loses_none() -> None:
    store, trainer = MadeStore(), Trainer()
    store.put(CPU, "a", START, [1.0] * 60)
    store.five_minutes = known_days(14)
    trainer.train(START + 30.0, store, [pod("a")])
    fill(trainer, store)
    windows = trainer.histories[CPU].windows
    assert covered_days(trainer) < 7.01
    trainer.resize_windows(10.0)
    trainer.train(START + 60.0, store, [pod("a")])
    fill(trainer, store)
    assert windows.slots == 10 * 288
    assert covered_days(trainer) == pytest.approx(10, abs=0.01)
    trainer.resize_windows(1.0)
    assert windows.slots == 7 * 288


@pytest.mark.parametrize("days", [None, 0, 5])
def test_restart_goes_on_filling(days: int | None) -> None:
    """A restart in the midst of reading older averages loses none: before the first day of them, or after some."""
    node, pods = machine(), [pod("a")]
    node.rounds(3, {"a": 1.0}, pods)
    fill(node.trainer, node.store)
    node.store.five_minutes = known_days(14)
    node.trainer.resize_windows(10.0)
    if days is not None:
        node.rounds(1, {"a": 1.0}, pods)
        for _ in range(days):
            assert node.trainer.fill(node.store)
    saved, node.trainer = node.trainer.checkpoints(), Trainer()
    node.trainer.restore(saved)
    node.rounds(1, {"a": 1.0}, pods)
    fill(node.trainer, node.store)
    assert covered_days(node.trainer) == pytest.approx(10, abs=0.01)
    assert not node.trainer.fill(node.store)


def test_fill_reads_at_most_a_day_of_one_resource_of_present_pods() -> None:
    node, pods = machine(), [pod("a")]
    node.rounds(3, {"a": 1.0}, pods)
    fill(node.trainer, node.store)
    later = node.now + 5 * 3600.0
    asked: list[tuple[str, float, float, Collection[str]]] = []
    node.store.put(CPU, "a", later - 30.0, [1.0] * 30)
    node.store.five_minutes = {CPU: {"a": Series(np.arange(later - 9000.0, later - 6000.0, 300.0), np.full(10, 9.0))}}
    real = node.store.averages

    def averages(metric: str, start: float, end: float, of: Collection[str]) -> Mapping[str, Series]:
        asked.append((metric, start, end, of))
        return real(metric, start, end, of)

    node.store.averages = averages  # type: ignore[method-assign, assignment]
    node.trainer.train(later, node.store, pods)
    assert asked == []
    while node.trainer.fill(node.store):
        assert len(asked) == 1
        _, start, end, of = asked.pop()
        assert end - start <= 86400.0 + 300.0
        assert set(of) == {NODE, SYS, "a"}
    row = np.array([node.trainer.row("a")])
    assert highest(node.trainer.histories[CPU].windows, row, 86400.0)[0] == 9.0

import math
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pytest

from agent.numerics.packing import CheckpointError
from agent.samples import CPU, MEMORY, NODE, SYS, Sample
from agent.series_index import SeriesIndexLimits
from agent.settings import TrainSettings
from agent.trainer.trainer import Trainer, TrainingSettings
from agent.training import CheckpointedTrainer
from agent.tsdb.series import Series
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from crds.priority import PriorityBand
from tests.agent.made import GIB, START, Machine, MadeStore, covered_seconds, highest, machine, pod
from tests.agent.tsdb.ticks import START as FIRST
from tests.agent.tsdb.ticks import fill, finish

NAN = math.nan


def test_thirty_raw_seconds_become_one_sample_their_27th() -> None:
    node = machine()
    node.store.put(CPU, NODE, START, np.arange(1.0, 31.0))
    node.trainer.train(START + 30.0, node.store, [])
    assert node.cores(NODE) == 27.0
    assert node.cores(NODE, "counts") == 1.0


def test_seconds_of_high_memory_raise_the_highest_value() -> None:
    """3 s in 30 raise the pod's highest memory and nothing else; CPU, and the derived system, keep the 27th sample."""
    burst = [1.0] * 27 + [3.0] * 3
    quiet, node = machine(), machine()
    for trained, values in ((quiet, [1.0] * 30), (node, burst)):
        for entity in ("a", SYS, NODE):
            trained.store.put(CPU, entity, START, values)
            trained.store.put(MEMORY, entity, START, [GIB * value for value in values])
        trained.trainer.train(START + 30.0, trained.store, [pod("a")])
    row = node.trainer.row("a")
    memory, expected = node.trainer.histories[MEMORY], quiet.trainer.histories[MEMORY]
    assert memory.moments.highest[row] == 3 * GIB
    assert np.nanmax(memory.maxima.highest[row]) == 3 * GIB
    assert memory.moments.highest[node.trainer.row(SYS)] == GIB
    assert memory.moments.means[row] == expected.moments.means[row]
    ends = [history.histograms.percentiles(np.array([row], dtype=np.intp), 1.0) for history in (memory, expected)]
    assert ends[0] == ends[1]
    assert node.cores("a", "highest") == 1.0


def test_highest_samples_survive_a_restart_and_are_inherited() -> None:
    node = machine()
    node.rounds(1, {"a": 1.0}, [pod("a", workload="w")])
    node.store.put(MEMORY, "a", node.now, [GIB] * 29 + [5 * GIB])
    node.trainer.train(node.now + 30.0, node.store, [pod("a", workload="w")])
    again = Trainer()
    again.restore(node.trainer.checkpoints())
    again.update_pods(node.now + 31.0, [pod("a", workload="w"), pod("b", workload="w")])
    rows = np.array([again.row("a"), again.row("b")], dtype=np.intp)
    assert again.histories[MEMORY].maxima.recent(rows, node.now, 86400.0).tolist() == [5 * GIB] * 2


def test_classes_are_sums_of_ticks() -> None:
    """Pods that alternate give the class the p90 of their sum, not the sum of their p90s; no band counts as Prod."""
    node, pods = machine(), [pod("a"), pod("b", band=PriorityBand.NONE)]
    node.store.put(CPU, "a", START, [3.0, 1.0] * 15)
    node.store.put(CPU, "b", START, [1.0, 3.0] * 15)
    node.trainer.train(START + 30.0, node.store, pods)
    assert (node.cores("prod"), node.cores("a"), node.cores("b")) == (4.0, 3.0, 3.0)


def test_each_band_has_a_class() -> None:
    bands = [PriorityBand.PROD, PriorityBand.MID, PriorityBand.BATCH, PriorityBand.FREE]
    pods = [pod(str(band), band=band) for band in bands]
    node = machine()
    node.rounds(1, {str(band): 1.0 + number for number, band in enumerate(bands)}, pods)
    assert [node.cores(name) for name in ("prod", "mid", "batch", "free")] == [1.0, 2.0, 3.0, 4.0]


def test_class_without_pods_gets_nothing() -> None:
    node = machine()
    node.rounds(3, {"a": 1.0}, [pod("a")])
    assert node.cores("mid", "counts") == 0.0
    node.rounds(3, {}, [])
    assert node.cores("prod", "counts") == 3.0


def test_missing_measurement_is_skipped() -> None:
    """A pod that was not measured gets no sample, and its class none either: the sum is unknown, not smaller."""
    node, pods = machine(), [pod("a"), pod("b")]
    node.rounds(2, {"a": 1.0, "b": 2.0}, pods)
    node.rounds(1, {"a": 1.0}, pods)
    assert (node.cores("a", "counts"), node.cores("b", "counts"), node.cores("prod", "counts")) == (3.0, 2.0, 2.0)
    assert node.cores("prod") == 3.0


def test_ticks_with_a_hole_in_one_pod_are_not_in_the_sum() -> None:
    node, pods = machine(), [pod("a"), pod("b")]
    node.store.put(CPU, "a", START, [1.0] * 30)
    node.store.put(CPU, "b", START, [2.0] * 10 + [NAN] * 10 + [2.0] * 10)
    node.trainer.train(START + 30.0, node.store, pods)
    assert node.cores("prod") == 3.0


def test_negative_and_infinite_values_are_no_measurements() -> None:
    node = machine()
    node.store.put(CPU, NODE, START, [1.0] * 28 + [-5.0, math.inf])
    node.trainer.train(START + 30.0, node.store, [])
    assert node.cores(NODE, "highest") == 1.0


def test_pod_that_starts_in_the_interval_is_no_hole() -> None:
    node, pods = machine(), [pod("a"), pod("b")]
    node.store.put(CPU, "a", START, [1.0] * 30)
    node.store.put(CPU, "b", START, [NAN] * 20 + [2.0] * 10)
    node.trainer.train(START + 30.0, node.store, pods)
    assert node.cores("prod") == 3.0
    assert node.cores("prod", "counts") == 1.0


def test_pod_that_left_in_the_interval_still_counts_to_its_class() -> None:
    node = machine()
    node.rounds(1, {"a": 1.0, "b": 2.0}, [pod("a"), pod("b")])
    node.store.put(CPU, "a", node.now, [1.0] * 30)
    node.store.put(CPU, "b", node.now, [2.0] * 29)
    node.trainer.train(node.now + 30.0, node.store, [pod("a")])
    assert node.cores("prod") == pytest.approx(3.0)


def test_ended_pod_makes_no_hole() -> None:
    node = machine()
    node.rounds(2, {"a": 1.0, "b": 2.0}, [pod("a"), pod("b")])
    node.rounds(1, {"a": 1.0}, [pod("a"), pod("b", terminal=True)])
    assert node.cores("prod", "counts") == 3.0


def test_replacement_inherits_history() -> None:
    """A new pod of a known workload starts with the old pod's history, evidence included."""
    node, old, new = machine(), pod("old", workload="shop/cart"), pod("new", workload="shop/cart")
    node.rounds(100, {"old": 2.0}, [old])
    node.rounds(1, {"new": 1.0}, [new])
    row = node.trainer.row("new")
    assert node.cores("new") == pytest.approx(1.99, abs=0.005)
    assert node.trainer.histories[CPU].observed[row or 0] == 3030.0
    assert highest(node.trainer.histories[CPU].windows, np.array([row]), 86400.0)[0] == 2.0


def test_workload_outlives_its_pod() -> None:
    """Long after the pod's row was given up its workload is remembered, over a restart too, until it expires."""
    settings = TrainingSettings(index_limits=SeriesIndexLimits(workload_seconds=3 * 3600.0))
    node = Machine(Trainer(settings), MadeStore())
    node.rounds(100, {"old": 2.0}, [pod("old", workload="shop/cart")])
    node.rounds(1, {}, [])
    node.now += 3600.0
    node.rounds(1, {}, [])
    assert node.trainer.row("old") is None
    again = Trainer(settings)
    again.restore(node.trainer.checkpoints())
    node.trainer = again
    node.rounds(1, {}, [pod("new", workload="shop/cart")])
    assert node.cores("new") == pytest.approx(2.0)
    for _ in range(5):
        node.rounds(1, {}, [])
        node.now += 3600.0
    node.rounds(1, {}, [pod("newer", workload="shop/cart")])
    assert node.cores("newer", "counts") == 0.0


def test_pod_that_the_list_lacks_for_a_moment_goes_on() -> None:
    node = machine()
    node.rounds(10, {"a": 2.0}, [pod("a")])
    node.rounds(1, {}, [])
    node.rounds(1, {"a": 2.0}, [pod("a")])
    assert node.cores("a", "counts") == 11.0


def test_restore_ignores_others() -> None:
    node = machine()
    node.rounds(3, {"a": 1.0}, [pod("a")])
    before = node.trainer.checkpoints()
    node.trainer.restore({"something/else": b"?"})
    assert node.trainer.checkpoints() == before


@pytest.mark.parametrize("damage", ["training/roster", "training/cpu", "training/memory"])
def test_damaged_checkpoint_is_refused_and_the_trainer_stays_usable(damage: str) -> None:
    node = machine()
    node.rounds(3, {"a": 1.0}, [pod("a")])
    saved = node.trainer.checkpoints()
    trainer = Trainer()
    for broken in (
        {**saved, damage: saved[damage][:-5]},
        {name: data for name, data in saved.items() if name != damage},
    ):
        with pytest.raises(CheckpointError) as caught:
            trainer.restore(broken)
        assert "\n" not in str(caught.value)
    trainer.train(node.now + 30.0, node.store, [pod("a")])


@pytest.mark.parametrize("years", [-53, 77])
def test_wrong_clock_over_restarts_loses_no_windows(years: int) -> None:
    """Saves and restarts under a wrong clock delete no history for good: of pods, workloads or heirs."""
    node, old, young = machine(), pod("old", workload="shop/cart"), pod("young", workload="shop/till")
    node.rounds(130, {"old": 2.0, "young": 3.0}, [old, young])
    node.rounds(20, {"young": 3.0}, [young])
    node.now += 3600.0
    node.rounds(20, {"young": 3.0}, [young])
    assert node.trainer.row("old") is None  # its workload has its row
    right, pods = node.now, [young]
    node.now += years * 365.25 * 86400.0
    usage = {"young": 1.0}
    for _ in range(3):
        node.store = MadeStore()
        node.rounds(25, usage, pods)
        again = Trainer()
        again.restore(node.trainer.checkpoints())
        again.resize_windows(10.0)
        node.trainer = again
        usage, pods = {"young": 1.0, "new": 1.0}, [young, pod("new", workload="shop/cart")]
    node.store, node.now = MadeStore(), right + 3600.0
    node.rounds(15, usage, pods)
    again = Trainer()
    again.restore(node.trainer.checkpoints())
    for history in again.histories.values():
        rows = np.array([again.row("young"), again.row("new")])
        whole = GIB if history.resource == MEMORY else 1.0
        np.testing.assert_allclose(highest(history.windows, rows, 86400.0) / whole, [3.0, 2.0])
        assert covered_seconds(history.windows, rows, 86400.0).min() > 3000.0


@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_ticks_as_far_apart_as_rounds(jitter: float) -> None:
    """A tick for each training round counts for the whole round, so that pods become warm as with a tick a second."""
    trainer, store, pods = Trainer(), MadeStore(), [pod("a")]
    for number in range(1, 41):
        now = START + 30.0 * number + jitter * (number % 3 - 1)
        for metric in (CPU, MEMORY):
            for entity in (NODE, SYS, "a"):
                old = store.content.get((metric, entity), Series(np.empty(0), np.empty(0)))
                store.content[metric, entity] = Series(np.append(old.times, now), np.append(old.values, 1.0))
        trainer.train(now, store, pods)
    for history in trainer.histories.values():
        assert history.observed[trainer.row("a") or 0] >= 0.9 * 39 * 30.0
    assert not np.isnan(highest(trainer.histories[CPU].windows, np.array([trainer.row("a")]), 3600.0)[0])


def test_rounds_follow_one_another() -> None:
    """Rounds that come late learn whole intervals: none is cut short, none is stretched, none is lost."""
    node = machine()
    node.store.put(CPU, NODE, START, np.repeat([1.0, 2.0, 3.0, 4.0], 30))
    for seconds in (30.0, 31.5, 59.0, 65.0, 121.0):
        node.trainer.train(START + seconds, node.store, [])
    assert node.cores(NODE, "counts") == 4.0
    assert node.trainer.trained_until == START + 120.0
    assert node.cores(NODE) == pytest.approx(2.5, abs=0.001)


COARSE = StoreSettings(block_ticks=6, raw_seconds=3600, minute_days=2)
STEP, DAY = 600.0, 86400.0


def test_restart_keeps_long_windows(tmp_path: Path) -> None:
    """Minutes of a policy's long window outlive a restart, however long the first prediction is in coming."""
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        learning = CheckpointedTrainer(store, TrainSettings())
        learning.trainer.resize_windows(10)
        store.set_minute_retention(10)
        now = fill(store, 144 * 10, step=STEP)
        finish(store, now)
        learning.save(now)
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        CheckpointedTrainer(store, TrainSettings())
        finish(store, now + 3601)
        assert store.minutes(CPU, FIRST, now)["a"].starts_ms[0] / 1000 <= FIRST + DAY


def test_short_pod_is_charged(tmp_path: Path) -> None:
    """A pod that came and went between two training rounds was used by its class, not lost."""
    with Tsdb.open(tmp_path / "t.db") as store:
        learning = CheckpointedTrainer(store, TrainSettings(interval_seconds=30.0))
        always, short = pod("a"), pod("short")
        for second in range(1, 70):
            now = FIRST + second
            here = [always, short] if 35 <= second < 55 else [always]
            cores = {"a": 1.0, SYS: 0.5, "short": 4.0} if short in here else {"a": 1.0, SYS: 0.5}
            samples = [Sample(CPU, entity, now, value) for entity, value in cores.items()]
            store.append(now, [*samples, Sample(CPU, NODE, now, sum(cores.values()))])
            learning.step(now, here)
        assert learning.trainer.class_of("short") == "prod"
        history = learning.trainer.histories[CPU]
        row = learning.trainer.row("prod")
        assert row is not None
        assert history.moments.highest[row] == pytest.approx(5.0)


def fill_windows(trainer: Trainer, store: MadeStore) -> None:
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
    fill_windows(trainer, store)
    result = trainer.histories[CPU].windows.averages[trainer.row("a") or 0]
    assert np.count_nonzero(~np.isnan(result)) == 7 * 288 - 1  # the current slot has too little
    assert np.nanmax(result) == 8 * 288 - 1


def test_longer_window_gets_older_averages_from_the_store_and_loses_none() -> None:
    store, trainer = MadeStore(), Trainer()
    store.put(CPU, "a", START, [1.0] * 60)
    store.five_minutes = known_days(14)
    trainer.train(START + 30.0, store, [pod("a")])
    fill_windows(trainer, store)
    windows = trainer.histories[CPU].windows
    assert covered_days(trainer) < 7.01
    trainer.resize_windows(10.0)
    trainer.train(START + 60.0, store, [pod("a")])
    fill_windows(trainer, store)
    assert windows.slots == 10 * 288
    assert covered_days(trainer) == pytest.approx(10, abs=0.01)
    trainer.resize_windows(1.0)
    assert windows.slots == 7 * 288


@pytest.mark.parametrize("days", [None, 0, 5])
def test_restart_goes_on_filling(days: int | None) -> None:
    """A restart in the midst of reading older averages loses none: before the first day of them, or after some."""
    node, pods = machine(), [pod("a")]
    node.rounds(3, {"a": 1.0}, pods)
    fill_windows(node.trainer, node.store)
    node.store.five_minutes = known_days(14)
    node.trainer.resize_windows(10.0)
    if days is not None:
        node.rounds(1, {"a": 1.0}, pods)
        for _ in range(days):
            assert node.trainer.fill(node.store)
    saved, node.trainer = node.trainer.checkpoints(), Trainer()
    node.trainer.restore(saved)
    node.rounds(1, {"a": 1.0}, pods)
    fill_windows(node.trainer, node.store)
    assert covered_days(node.trainer) == pytest.approx(10, abs=0.01)
    assert not node.trainer.fill(node.store)


def test_fill_reads_at_most_a_day_of_one_resource_of_present_pods() -> None:
    node, pods = machine(), [pod("a")]
    node.rounds(3, {"a": 1.0}, pods)
    fill_windows(node.trainer, node.store)
    later = node.now + 5 * 3600.0
    queries: list[tuple[str, float, float, Collection[str]]] = []
    node.store.put(CPU, "a", later - 30.0, [1.0] * 30)
    node.store.five_minutes = {CPU: {"a": Series(np.arange(later - 9000.0, later - 6000.0, 300.0), np.full(10, 9.0))}}
    real = node.store.averages

    def averages(metric: str, start: float, end: float, of: Collection[str]) -> Mapping[str, Series]:
        queries.append((metric, start, end, of))
        return real(metric, start, end, of)

    node.store.averages = averages  # type: ignore[method-assign, assignment]
    node.trainer.train(later, node.store, pods)
    assert queries == []
    while node.trainer.fill(node.store):
        assert len(queries) == 1
        _, start, end, of = queries.pop()
        assert end - start <= 86400.0 + 300.0
        assert set(of) == {NODE, SYS, "a"}
    row = np.array([node.trainer.row("a")])
    assert highest(node.trainer.histories[CPU].windows, row, 86400.0)[0] == 9.0

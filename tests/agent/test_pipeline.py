import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from agent.collectors.base import Collector, NoData, Tick
from agent.pipeline import Pipeline
from agent.samples import CPU, MEMORY, NODE, SYS, CollectionResult, Missing, Sample
from agent.tsdb.schema import StoreError
from agent.tsdb.tsdb import Tsdb
from tests.agent.made_pipeline import START, Steady, made_pipeline
from tests.agent.tsdb.test_outage import full_disk
from tests.agent.tsdb.ticks import connection


class Failing:
    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)

    def collect(self, tick: Tick) -> CollectionResult:
        del tick
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return CollectionResult()


def _collectors(**fakes: object) -> dict[str, Collector]:
    return {"steady": Steady(), **fakes}  # type: ignore[dict-item] # fakes have no constructor for a machine


Make = Callable[..., Pipeline]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Pipeline] = []

    def close() -> None:
        for made_object in made:
            made_object.close(made_object.last_tick or START)
        made.clear()

    def pipeline(**fakes: object) -> Pipeline:
        close()
        made.append(made_pipeline(tmp_path, _collectors(**fakes)))
        return made[-1]

    yield pipeline
    close()


def _count(pipeline: Pipeline, name: str, **labels: str) -> float:
    return pipeline._metrics.registry.get_sample_value(f"headroom_agent_{name}", labels) or 0.0


def test_tick_stores_samples_and_derived_ones_with_one_time(make: Make) -> None:
    pipeline = make()
    pipeline.run_once(START)
    for entity in (NODE, SYS):
        window = pipeline.store.window(CPU, entity, 0, START)
        assert (window.times.tolist(), window.values.tolist()) == ([START], [0.5])
    assert _count(pipeline, "samples_total") == 4
    assert _count(pipeline, "step_seconds_count", step="store") == 1
    assert pipeline.last_tick == START


def test_failing_collector_is_logged_once_and_others_go_on(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    broken = Failing(
        OSError(5, "Input/output error"), OSError(5, "Input/output error"), ValueError("malformed"), KeyError("x")
    )
    pipeline = make(broken=broken)
    with caplog.at_level(logging.INFO):
        for number in range(6):
            pipeline.run_once(START + number)
    assert len(pipeline.store.window(CPU, NODE, 0, START + 9)) == 6
    assert _count(pipeline, "failures_total", step="broken", error="OSError") == 2
    assert _count(pipeline, "failures_total", step="broken", error="KeyError") == 1
    assert caplog.text.count("Input/output error") == 1
    assert "broken works again" in caplog.text
    assert pipeline.failing == {}


def test_full_disk_is_one_line_at_its_begin_and_one_at_its_end(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = make()
    caplog.set_level(logging.INFO)
    for number in range(70):
        pipeline.run_once(START + number)
    caplog.clear()
    with full_disk(pipeline.store):
        for number in range(70, 270):
            pipeline.run_once(START + number)
        assert set(pipeline.failing) == {"store", "save"}
        assert _count(pipeline, "checkpoint_failures_total") == 3
    for number in range(270, 340):
        pipeline.run_once(START + number)
    assert [message.partition(":")[0] for message in caplog.messages] == ["store failed", "store works again"]
    assert pipeline.failing == {}
    assert len(pipeline.store.window(CPU, NODE, START - 1, START + 340)) == 340


def test_changed_reason_of_outage_is_logged(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Another reason of the same outage is a line; another step that fails because of it is none."""
    pipeline = make()
    with caplog.at_level(logging.INFO):
        for step, why in (("maintain", "full"), ("store", "full"), ("store", "read-only"), ("save", "read-only")):
            with pipeline._step(step):
                raise StoreError(why)
        for step in ("store", "maintain", "save"):
            with pipeline._step(step):
                pass
    assert caplog.messages == ["store failed: full", "store failed: read-only", "store works again"]


def test_disk_that_does_not_tell_the_size_costs_a_metric_not_the_tick(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that has nothing for a collector is not failing."""
    pipeline = make(psi=Failing(NoData("no pressure files")))
    monkeypatch.setattr(pipeline.store, "size", Mock(side_effect=StoreError("cannot read: disk I/O error")))
    pipeline.run_once(START)
    assert pipeline.failing == {"size": "cannot read: disk I/O error"}
    assert len(pipeline.store.window(CPU, NODE, START - 1, START)) == 1


def test_value_that_is_no_number_is_a_gap_and_the_rest_of_the_tick_is_kept(make: Make) -> None:
    class Failing:
        def collect(self, tick: Tick) -> CollectionResult:
            return CollectionResult([Sample(CPU, "pod", tick.now, math.nan)])

    pipeline = make(failing=Failing())
    pipeline.run_once(START)
    assert Missing(CPU, "pod", "not-finite") in pipeline.missing
    assert _count(pipeline, "gaps_total", metric=CPU, reason="not-finite") == 1
    assert len(pipeline.store.window(MEMORY, NODE, 0, START)) == 1
    assert len(pipeline.store.window(CPU, SYS, 0, START)) == 0


def test_history_survives_a_restart(make: Make) -> None:
    pipeline = make()
    for number in range(100):
        pipeline.run_once(START + number)
    trainer = pipeline.training.trainer
    rounds = trainer.histories[CPU].moments.counts[0]
    assert rounds >= 3
    again = make()
    assert again.training.trainer.histories[CPU].moments.counts[0] == rounds
    assert again.training.trainer.trained_until == trainer.trained_until


def test_training_restarts_after_a_bad_checkpoint(tmp_path: Path, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with Tsdb.open(tmp_path / "t.db") as store:
        store.save_checkpoints({"training/roster": b"garbage"}, START)
    pipeline = make()
    assert caplog.text.count("training restarts from scratch") == 1
    pipeline.run_once(START)


@pytest.mark.parametrize("step", [-7200.0, -40.0, 86400.0])
def test_set_clock_stalls_no_trainer_and_empties_no_window(make: Make, step: float) -> None:
    pipeline = make()
    for number in range(120):
        pipeline.run_once(START + number)
    counts = pipeline.training.trainer.histories[CPU].moments.counts
    before = counts[0]
    for number in range(120, 240):
        pipeline.run_once(START + step + number)
    now = START + step + 239
    assert pipeline.failing == {}
    assert pipeline.training.trainer.histories[CPU].moments.counts[0] >= before + 3
    assert pipeline.training.trainer.trained_until == pytest.approx(now, abs=31.0)
    assert pipeline.store.window(CPU, NODE, now - 60, now).values.tolist() == [0.5] * 60


def test_damaged_store_is_replaced(tmp_path: Path, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = make()
    for number in range(40):
        pipeline.run_once(START + number)
    learned = pipeline.training.trainer
    database = connection(pipeline.store)
    database.execute("PRAGMA writable_schema = ON")
    database.execute("UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'head'")
    database.execute("PRAGMA writable_schema = RESET")
    for number in range(40, 45):
        pipeline.run_once(START + number)
    assert pipeline.failing == {}
    assert pipeline.training.trainer is learned
    assert len(pipeline.store.window(CPU, NODE, START - 1, START + 44)) == 45
    assert list(tmp_path.glob("t.db.damaged-*"))
    assert "starting with an empty database" in caplog.text

"""The training step of a tick."""

from pathlib import Path

import pytest

from agent.samples import CPU, NODE, SYS, Sample
from agent.settings import TrainSettings
from agent.training import CheckpointedTrainer
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.made import pod
from tests.agent.tsdb.ticks import START, fill, finish

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
        assert store.minutes(CPU, START, now)["a"].starts_ms[0] / 1000 <= START + DAY


def test_short_pod_is_charged(tmp_path: Path) -> None:
    """A pod that came and went between two training rounds was used by its class, not lost."""
    with Tsdb.open(tmp_path / "t.db") as store:
        learning = CheckpointedTrainer(store, TrainSettings(interval_seconds=30.0))
        always, short = pod("a"), pod("short")
        for second in range(1, 70):
            now = START + second
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

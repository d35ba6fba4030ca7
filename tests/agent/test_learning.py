"""The learner's place in the tick."""

from pathlib import Path

from agent.learning import Learning
from agent.samples import CPU
from agent.settings import LearnSettings
from agent.store.settings import StoreSettings
from agent.store.tsdb import Tsdb
from tests.agent.store.ticks import START, fill, finish

COARSE = StoreSettings(block_ticks=6, raw_seconds=3600, minute_days=2, daily_days=3)
STEP, DAY = 600.0, 86400.0


def test_restart_keeps_long_windows(tmp_path: Path) -> None:
    """Minutes of a policy's long window outlive a restart, however long the first prediction is in coming."""
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        learning = Learning(store, LearnSettings())
        learning.learner.look_back(10)
        store.keep_minutes(10)
        now = fill(store, 144 * 10, step=STEP)
        finish(store, now)
        learning.save(now)
    with Tsdb.open(tmp_path / "t.db", COARSE) as store:
        Learning(store, LearnSettings())
        finish(store, now + 3601)
        assert store.minutes(CPU, START, now)["a"].starts_ms[0] / 1000 <= START + DAY

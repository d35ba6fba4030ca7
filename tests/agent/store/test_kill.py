"""kill -9 in the middle of writing: nothing that was appended is lost."""

import signal
import subprocess
import sys
from pathlib import Path

from agent.samples import CPU
from agent.store.settings import StoreSettings
from agent.store.tsdb import Tsdb

WRITER = """
import sys
from agent.store.settings import StoreSettings
from agent.store.tsdb import Tsdb
from tests.agent.store.ticks import START, samples
store = Tsdb.open(sys.argv[1], StoreSettings(block_ticks=60))
for number in range(10**9):
    now = START + number
    store.append(now, samples(now, cpu=number / 1000))
    store.maintain(now)
    if number % 100 == 0:
        store.save_checkpoints({"n": str(number).encode()})
        store.checkpoint()
    print(number, flush=True)
"""


def test_kill_loses_no_tick(tmp_path: Path) -> None:
    """Every tick that was appended before kill -9 is there when the file is opened again, without repair."""
    path = tmp_path / "t.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 450:
                break
        writer.send_signal(signal.SIGKILL)
        last = int([line, *writer.stdout.read().split()][-1])
    with Tsdb.open(path, StoreSettings(block_ticks=60)) as store:
        values = store.window(CPU, "a", 0, 4e9).values
        assert len(values) >= last
        assert values[:450].tolist() == [number / 1000 for number in range(450)]
        assert int(store.load_checkpoints()["n"]) >= 400
    assert not list(tmp_path.glob("*.damaged-*"))

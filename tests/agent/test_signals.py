import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.process import on_signals
from agent.samples import MEMORY, NODE
from agent.tsdb.tsdb import Tsdb
from tests.agent.process import QUICK, ROOT, get, running
from tests.agent.recorded import Make
from tests.support.waiting import eventually

pytestmark = pytest.mark.alone


@pytest.fixture
def silent_server() -> Iterator[tuple[str, threading.Event]]:
    """An API server that takes connections and never answers: its URL, and whether a request came."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def take() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return
                stop.set()

        taker = threading.Thread(target=take)
        taker.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", stop
        server.shutdown(socket.SHUT_RDWR)
        taker.join()
        for connection in held:
            connection.close()


def _samples(folder: Path) -> tuple[list[float], dict[str, bytes]]:
    """Times of the node's memory samples, one a tick, and the checkpoint."""
    with Tsdb.open(folder / "agent.db") as store:
        times = [float(time) for time in store.window(MEMORY, NODE, 0.0, 4e9).times]
        return times, store.load_checkpoints()


def test_stops_while_server_hangs(recorded: Make, tmp_path: Path, silent_server: tuple[str, threading.Event]) -> None:
    url, requested = silent_server
    login = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(login))
    machine, data = recorded("v2-cgroupfs"), tmp_path / "data"
    flags = (f"--kubeconfig={tmp_path / 'config'}", "--pods-from=cgroups", "--node-name=worker")
    with running(f"--host-root={machine.live}", f"--data-dir={data}", *flags, *QUICK) as agent:
        address = agent.address()
        assert requested.wait(30)
        eventually(lambda: get(f"{address}/readyz")[0] == 200, "the agent measures without its API server")
        assert agent.stop() == 0
    assert agent.log[-1]["message"] == "stopped"
    assert [event for event in agent.log if event["level"] in ("error", "critical")] == []
    times, learned = _samples(data)
    assert times
    assert learned


@pytest.mark.long
def test_stop_among_compactions_leaves_ticks_once_and_in_order(recorded: Make, tmp_path: Path) -> None:
    machine, data = recorded("v2-cgroupfs"), tmp_path / "data"
    quick = ("--collect-interval=50ms", "--training-interval=400ms", "--stop-within=1m", "--store-block-ticks=10")
    data_flags = (f"--data-dir={data}", "--store-flush=50ms", "--listen=127.0.0.1:0")
    flags = ("--standalone", f"--host-root={machine.live}", *data_flags)
    with running(*flags, *quick) as agent:
        address = agent.address()
        eventually(lambda: _counted(address, "tick_seconds_count") > 40, "many ticks are made")
        ticks = _counted(address, "tick_seconds_count")
        assert agent.stop(signal.SIGINT) == 0
    times, learned = _samples(data)
    assert times == sorted(set(times))
    assert len(times) >= ticks
    assert learned
    assert (data / "agent.db-wal").exists() is False


def _counted(address: str, name: str) -> float:
    result = re.search(rf"^headroom_agent_{name} (\S+)$", get(f"{address}/metrics")[1], re.MULTILINE)
    return float(result[1]) if result else 0.0


HANGING = """
import asyncio, os
from agent.process import on_signals

async def hang():
    on_signals(asyncio.Event(), 0.1)
    reader, _ = os.pipe()
    print("hanging", flush=True)
    os.read(reader, 1)

asyncio.run(hang())
"""


def test_stops_while_call_hangs() -> None:
    """A call that never returns, as on a disk that does not answer, does not keep the program from ending."""
    with subprocess.Popen([sys.executable, "-c", HANGING], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hanging\n"
        process.terminate()
        assert process.wait(60) == 0


async def test_second_signal_does_not_move_the_deadline_of_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    try:
        monkeypatch.setattr("os._exit", lambda code: loop.call_soon_threadsafe(ended.set_result, code))
        on_signals(stop, 0.01)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        await stop.wait()
        assert await ended == 0
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)

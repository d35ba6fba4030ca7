"""The whole agent as a process: a machine with 110 pods, collected each second."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.measurement import Measurement
from devcluster.replay_files import CgroupV2, Group
from devcluster.replay_load import Load
from devcluster.replay_machine import Machine

ROOT = Path(__file__).parents[1]
PODS = 110
WARM_UP_SECONDS = 25.0
SECONDS = 60.0
MIB = 1 << 20


def _machine(root: Path) -> Machine:
    idle = Load(lambda _: 0.2, lambda _: 512.0 * MIB)
    machine = Machine(root, 16, 64 << 30, idle, Load(lambda _: 0.0, lambda _: 0.0), CgroupV2())
    uids = [f"00000000-0000-4000-8000-{number:012d}" for number in range(PODS)]
    load = Load(lambda _: 0.05, lambda _: 64.0 * MIB)
    machine.set_pods({uid: Group(f"kubepods/burstable/pod{uid}", load) for uid in uids})
    return machine


def measure() -> Iterator[Measurement]:
    """CPU and memory of `headroom-agent --standalone` on a replayed machine whose files advance ten times a second."""
    with tempfile.TemporaryDirectory() as folder:
        machine = _machine(Path(folder) / "host")
        flags = [f"--host-root={machine.directory}", f"--data-dir={folder}/data", "--listen=127.0.0.1:0"]
        command = [sys.executable, "-m", "agent", "--standalone", *flags]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as agent:
            process = psutil.Process(agent.pid)
            _advance(machine, WARM_UP_SECONDS)
            began, used = time.monotonic(), sum(process.cpu_times()[:2])
            _advance(machine, SECONDS)
            share = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
            memory = process.memory_info().rss / MIB
            agent.terminate()
    what = f"agent, {PODS} pods, 1 s collection, {SECONDS:.0f} s after {WARM_UP_SECONDS:.0f} s"
    yield Measurement(f"{what}: CPU", f"{share:.2%} of one core", "<= 2 % of one core", "koordlet limit 200m")
    yield Measurement(f"{what}: RSS", f"{memory:.0f} MiB", "<= 90 MiB", "koordlet limit 256 Mi")


def _advance(machine: Machine, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    before = time.monotonic()
    while (now := time.monotonic()) < deadline:
        machine.advance(now - before)
        before = now
        time.sleep(0.1)

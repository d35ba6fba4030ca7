"""The whole agent as a process: a machine with 110 pods, collected each second."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.machine import ROOT, replayed
from bench.measurement import Measurement
from bench.workload import PODS
from devcluster.replay_machine import Machine

WARM_UP_SECONDS, SECONDS = 25.0, 60.0
QUICK_SECONDS = 3.0
STEP_SECONDS = 0.1
MIB = 1 << 20


def measure(*, quick: bool = False) -> Iterator[Measurement]:
    """CPU and memory of `headroom-agent --standalone` on a replayed machine whose files advance ten times a second."""
    warm_up, seconds = (QUICK_SECONDS, QUICK_SECONDS) if quick else (WARM_UP_SECONDS, SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        machine = replayed(Path(folder) / "host")
        flags = [f"--host-root={machine.directory}", f"--data-dir={folder}/data", "--listen=127.0.0.1:0"]
        command = [sys.executable, "-m", "agent", "--standalone", "--output=json", *flags]
        with (
            (Path(folder) / "log").open("wb") as log,
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log) as agent,
        ):
            try:
                share, memory = _watch(psutil.Process(agent.pid), machine, warm_up, seconds)
            except psutil.Error as error:
                said = (Path(folder) / "log").read_text().strip()
                raise RuntimeError(f"the agent ended early: {said}") from error
            finally:
                agent.terminate()
    what = f"agent, {PODS} pods, 1 s collection, {seconds:.0f} s after {warm_up:.0f} s"
    yield Measurement(f"{what}: CPU", f"{share:.2%} of one core", "<= 2 % of one core", "koordlet limit 200m")
    yield Measurement(f"{what}: RSS", f"{memory:.0f} MiB", "<= 90 MiB", "koordlet limit 256 Mi")


def _watch(process: psutil.Process, machine: Machine, warm_up: float, seconds: float) -> tuple[float, float]:
    """Share of a core over the time after the warm-up, and memory at its end. [1, MiB]"""
    _advance(machine, warm_up)
    began, used = time.monotonic(), sum(process.cpu_times()[:2])
    _advance(machine, seconds)
    share = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    return share, process.memory_info().rss / MIB


def _advance(machine: Machine, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    before = time.monotonic()
    while (now := time.monotonic()) < deadline:
        machine.advance(now - before)
        before = now
        time.sleep(STEP_SECONDS)

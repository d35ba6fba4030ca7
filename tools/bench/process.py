"""The whole agent as a process: a machine with 110 pods, collected each second."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.bench.api_server import Run, Server, served
from tools.bench.large_pods_kinds import NODE
from tools.bench.machine import replayed
from tools.bench.rows import ROOT, Row
from tools.bench.workload import PODS
from tools.devcluster.replay_machine import Machine

WARM_UP_SECONDS, SECONDS = 25.0, 60.0
QUICK_SECONDS = 3.0
STEP_SECONDS = 0.1
MIB = 1 << 20


def measure(*, quick: bool = False) -> Iterator[Row]:
    """CPU and memory of two agents on one replayed machine, whose files advance ten times a second.

    One is a cluster's: it watches its pods and reports to an API server (of ours, on loopback). One is alone.
    """
    yield from asyncio.run(_measured(*((QUICK_SECONDS, QUICK_SECONDS) if quick else (WARM_UP_SECONDS, SECONDS))))


async def _measured(warm_up: float, seconds: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        machine = replayed(folder / "host")
        async with served(Server(Run("agent", "list", "bound", "plain", PODS)), folder):
            modes = {
                "in a cluster": [f"--kubeconfig={folder}/kubeconfig", f"--node-name={NODE}00"],
                "standalone": ["--standalone", "--output=json"],
            }
            agents = {mode: running.enter_context(_agent(folder, machine, flags)) for mode, flags in modes.items()}
            await asyncio.to_thread(_advance, machine, warm_up)
            before = {mode: agent.cpu_seconds() for mode, agent in agents.items()}
            began = time.monotonic()
            await asyncio.to_thread(_advance, machine, seconds)
            took = time.monotonic() - began
            shares = {mode: (agent.cpu_seconds() - before[mode]) / took for mode, agent in agents.items()}
            memory = {mode: agent.rss_mib() for mode, agent in agents.items()}
            running.close()
    rows = []
    what = f"agent {{}}, {PODS} pods, 1 s collection, {seconds:.0f} s after {warm_up:.0f} s: {{}}"
    for mode in modes:
        cpu = f"{shares[mode]:.2%} of one core"
        budget, value = "<= 1.3 % of one core", shares[mode] * 100
        rows.append(Row(what.format(mode, "CPU"), cpu, budget, "koordlet on the same node 3.9 to 5.4 %", value))
        rss = f"{memory[mode]:.0f} MiB"
        rows.append(Row(what.format(mode, "RSS"), rss, "<= 75 MiB", "koordlet 110 MiB", memory[mode]))
    return rows


@dataclass(frozen=True, slots=True)
class _Agent:
    """A running agent."""

    process: subprocess.Popen[bytes]  # its process
    log: Path  # its log file

    def cpu_seconds(self) -> float:
        """CPU time so far."""
        return float(sum(self._running().cpu_times()[:2]))

    def rss_mib(self) -> float:
        """Resident memory."""
        return float(self._running().memory_info().rss / MIB)

    def _running(self) -> psutil.Process:
        if self.process.poll() is not None:
            raise RuntimeError(f"the agent ended early: {self.log.read_text().strip()}")
        return psutil.Process(self.process.pid)


@contextmanager
def _agent(folder: Path, machine: Machine, flags: list[str]) -> Iterator[_Agent]:
    """An agent with a data directory of its own."""
    folder_of_agent = Path(tempfile.mkdtemp(dir=folder))
    common = [f"--host-root={machine.directory}", f"--data-dir={folder_of_agent}/data", "--listen=127.0.0.1:0"]
    command = [sys.executable, "-m", "agent", *common, *flags]
    with (
        (folder_of_agent / "log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log) as process,
    ):
        try:
            yield _Agent(process, folder_of_agent / "log")
        finally:
            process.terminate()


def _advance(machine: Machine, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    before = time.monotonic()
    while (now := time.monotonic()) < deadline:
        machine.advance(now - before)
        before = now
        time.sleep(STEP_SECONDS)

"""Memory of the real programs under pods as large as the API server allows.

Each program runs beside an API server of ours on loopback, which streams pods with uids and contents of their own.
Measured are resident memory above that with as many plain pods, and the longest step of the event loop.
"""

import asyncio
import math
import runpy
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psutil

from tools.bench.api_server import SETTLE_SECONDS, Run, Server, served
from tools.bench.costs import memory_mib
from tools.bench.large_pods_kinds import NODE
from tools.bench.machine import replayed
from tools.bench.rows import ROOT, Row

COMPONENTS: Final = {"extender": 64.0, "manager": 64.0, "agent": 16.0}
"""The budget of each program above as many plain pods. [MiB]"""
AGENT_PODS: Final = 250
PODS, QUICK_PODS = 400, 8
_PROGRAMS: Final = {"extender": "scheduler_plugins", "manager": "manager", "agent": "agent"}
_IDLE_SHARE: Final = 0.1  # of a processor
_SHORTEST_STEP = 0.002
_REFUSALS: Final = ("cannot be understood", "is left out", "ERROR ")


@dataclass(slots=True)
class Result:
    """The memory of a program."""

    rss: float = 0.0  # when all pods were read. [MiB]
    peak: float = 0.0  # [MiB]
    step: float = 0.0  # processor time of the longest step of the event loop since the first pod. [s]
    busy: float = 0.0  # of all such steps. [s]
    refusals: Sequence[str] = ()  # lines of the log about pods that are not read, and errors


async def measured(run: Run) -> Result:
    """Run one program until it has read its pods and is idle.

    Raises RuntimeError: the program ends before, or cuts its watch.
    """
    with tempfile.TemporaryDirectory(prefix="headroom-bench-") as name:
        folder, server = Path(name), Server(run)
        flags = [f"--kubeconfig={folder}/kubeconfig", "--listen=127.0.0.1:0"]
        if run.component == "agent":
            host = replayed(folder / "host", 1).directory
            flags += [f"--node-name={NODE}00", f"--host-root={host}", f"--data-dir={folder}/data", "--pods-from=api"]
        steps = [f"{folder}/steps", _PROGRAMS[run.component]]
        command = [sys.executable, "-m", "tools.bench.large_pods", *steps, *flags]
        with (folder / "log").open("wb") as log:
            async with served(server, folder):
                process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=log, stderr=log)
                try:
                    return await _observed(run, server, process, folder)
                finally:
                    if process.returncode is None:
                        process.kill()
                        await process.wait()


async def _observed(run: Run, server: Server, process: asyncio.subprocess.Process, folder: Path) -> Result:
    idle, ended = asyncio.create_task(_idle(server, process.pid)), asyncio.create_task(process.wait())
    await asyncio.wait((ended, idle), return_when=asyncio.FIRST_COMPLETED)
    text = (folder / "log").read_text(errors="replace")
    if ended.done():
        idle.cancel()
        raise RuntimeError(f"{run.name()}: the program ended with {process.returncode}: {text[-400:].strip()}")
    ended.cancel()
    if server.sent < run.pods:
        raise RuntimeError(f"{run.name()}: the program cut its watch after {server.sent:,} pods: {text[-400:].strip()}")
    noted = [[float(number) for number in line.split()] for line in (folder / "steps").read_text().splitlines()]
    steps = [took for at, took in noted if at >= server.began]
    lines = (line.partition(" ")[2] for line in text.splitlines())
    refusals = sorted(line for line in lines if any(words in line for words in _REFUSALS))
    return Result(*memory_mib(process.pid), max(steps, default=0.0), sum(steps), refusals)


async def _idle(server: Server, pid: int) -> None:
    """Wait until all pods were sent, and the process is nearly idle."""
    await server.fed.wait()
    process, used = psutil.Process(pid), -math.inf
    while sum(process.cpu_times()[:2]) - used > _IDLE_SHARE * SETTLE_SECONDS:
        used = sum(process.cpu_times()[:2])
        await asyncio.sleep(SETTLE_SECONDS)


def _note_steps(file: str, program: str, flags: list[str]) -> None:
    """Run a program; each step of its event loop above 2 ms is a line: when it ended, and its processor time. [s]"""
    step = asyncio.Handle._run  # noqa: SLF001 - the one place through which every step goes
    with Path(file).open("w", buffering=1, encoding="utf-8") as notes:

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            step(handle)
            if (took := time.thread_time() - began) > _SHORTEST_STEP:
                notes.write(f"{time.time()} {took}\n")

        asyncio.Handle._run = timed  # type: ignore[method-assign, assignment] # noqa: SLF001
        sys.argv = [program, *flags]
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def measure(*, quick: bool = False) -> Iterator[Row]:
    """A row for each program and way in which pods reach it, beside as many plain pods; all kinds in turn.

    Raises RuntimeError: a program ends before it has read its pods.
    """
    for component, budget in COMPONENTS.items():
        count = QUICK_PODS if quick else min(PODS, AGENT_PODS) if component == "agent" else PODS
        placement = "quota" if component == "extender" else "bound"  # the others see bound pods alone
        for mode in ("watch", "list"):
            run = Run(component, mode, placement, "mixed", count)
            beside, result = asyncio.run(measured(replace(run, kind="plain"))), asyncio.run(measured(run))
            above, refusals = result.rss - beside.rss, result.refusals
            text = f"; {len(refusals)} refusals, the first: {refusals[0][:200]}" if refusals else ""
            yield Row(
                f"large pods: {run.name()}",
                f"RSS {above:+.0f} MiB over {beside.rss:.0f} with plain pods ({above / count:.2f} per pod), peak "
                f"{result.peak - beside.peak:+.0f} MiB; longest step {result.step * 1000:.0f} ms "
                f"(plain {beside.step * 1000:.0f}), {result.busy / count * 1000:.0f} ms per pod{text}",
                f"<= {budget:.0f} MiB",
                value=above,
            )


if __name__ == "__main__":
    _note_steps(sys.argv[1], sys.argv[2], sys.argv[3:])

"""The real publisher under a clock moved by hand, against a server that counts bytes."""

import asyncio
import time
from collections.abc import Iterator
from typing import cast

from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.prediction.node import NodeResources
from agent.reporter.publisher import Publisher
from agent.reporter.reporter import ReportBuilder
from agent.settings import ReportSettings
from headroom import kube
from tools.bench.costs import spread
from tools.bench.counting import CountingServer
from tools.bench.rows import Row
from tools.bench.workload import CPUS, MEMORY_BYTES, PODS, Workload

DAY = 86_400.0
MIB, KIB = 1 << 20, 1 << 10
TURNS = 50  # turns of the loop for the publisher's due work: far more than it takes


class Reporting:
    """A publisher whose waits are simulated."""

    def __init__(self, pipeline: Pipeline, workload: Workload, metrics: Metrics) -> None:
        self.server = CountingServer()
        self._wake, self._waiting = 0.0, asyncio.Event()
        reports = ReportBuilder(pipeline, workload, _Node(), metrics)
        self._publisher = Publisher(
            cast("kube.ApiServer", self.server),
            "node",
            reports,
            ReportSettings(),
            metrics,
            wall=lambda: self.server.now,
            clock=lambda: self.server.now,
            sleep=self._sleep,
        )
        self._task: asyncio.Task[None] | None = None

    async def at(self, now: float) -> None:
        """Let the publisher do its due work."""
        self.server.now = now
        if self._task is None:
            self._task = asyncio.create_task(self._publisher.run())
            await asyncio.sleep(0)
        if now < self._wake:
            return
        self.server.began = time.perf_counter()
        self._waiting.set()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if self._task.done():
            self._task.result()

    def begin(self) -> None:
        """Count from now on."""
        self.server.reset()

    async def close(self) -> None:
        """End the publisher."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _sleep(self, seconds: float) -> None:
        self._wake = self.server.now + seconds
        self._waiting.clear()
        await self._waiting.wait()

    def rows(self, seconds: float) -> Iterator[Row]:
        """Sizes and rates, scaled to a day."""
        server, days = self.server, seconds / DAY
        written = {kind: server.bodies[kind] for kind in ("full", "fast")}
        for kind, sizes in written.items():
            mean = sum(sizes) / max(len(sizes), 1)
            times = spread(server.took[kind]) if sizes else "none was due"
            measured = f"{mean / KIB:.1f} KiB, {len(sizes) / days:.0f} a day; made in {times}"
            yield Row(f"{kind} report, {PODS} pods", measured)
        writes, total = sum(map(len, written.values())), sum(map(sum, written.values()))
        measured = f"{writes / days:.0f} writes and {total / days / MIB:.1f} MiB a day"
        read = f"{server.reads / days:.0f} reads, {server.answers / days / MIB:.1f} MiB of answers"
        yield Row(f"all reports of a node with {PODS} pods", f"{measured}; {read}")


class _Node:
    """A node of which nothing is reserved."""

    def __init__(self) -> None:
        amounts = {"cpu": CPUS * 1000, "memory": MEMORY_BYTES}
        self.resources = NodeResources(allocatable=amounts, capacity=amounts)

    async def run(self) -> None:
        """Nothing to follow."""

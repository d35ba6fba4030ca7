"""`python -m tools.bench.manager_load`: agents and kubelets of many nodes in one process, and a watch of the Nodes.

It writes JSON lines: when the nodes begin to report, when each has done so, at the end, and when all is published.
"""

import argparse
import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from headroom.kube import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ApiError,
    ApiServer,
    ApiUnavailable,
    Relisted,
    connect,
    list_and_watch,
    paths,
)
from manager.inputs import Resource
from manager.mid import publish
from tools.bench import manager_report as made
from tools.bench.manager_latency import Latencies

HEARTBEATS = 5
"""A kubelet patches its Node's status every so many minutes when nothing changes; its Lease is renewed elsewhere."""
AGENTS_PER_SECOND = 40  # at most so many agents of an installation begin to report: they start as their image arrives
SETTLE_SECONDS = 30.0  # how long what was reported last may take until it is published

Json = dict[str, Any]


@dataclass(slots=True)
class Load:
    """The nodes of a cluster that report."""

    api: ApiServer  # the session
    nodes: int  # how many
    levels: made.Levels  # what they report
    minute_seconds: float = 60.0  # how often each node reports [s]
    settle_seconds: float = 0.0
    """How long every Node may take, at the end, to show what was reported last, increases included. [s]"""
    latencies: Latencies = field(default_factory=Latencies)  # what becomes of it
    counts: dict[str, int] = field(default_factory=lambda: {"reports": 0, "heartbeats": 0, "failed": 0})
    """What was sent."""
    answers: list[float] = field(default_factory=list)  # how long the API server took to answer each report [s]
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, minutes: float, pods: int) -> None:
        """Report once, then once a minute for some minutes, evenly spread; print what came of it."""
        watching = asyncio.create_task(self._watch())
        await self._changed.wait()
        _say(phase="first")
        first_seconds = max(self.minute_seconds, self.nodes / AGENTS_PER_SECOND)
        heartbeats = asyncio.create_task(self._spread(HEARTBEATS * self.minute_seconds, self._heartbeat))
        await self._spread(first_seconds, lambda number: self._report(number, pods), rounds=1)
        reports = self._spread(self.minute_seconds, lambda number: self._report(number, pods))
        running = [heartbeats, asyncio.create_task(reports)]
        self.latencies.changes, before = 0, dict(self.counts)
        _say(phase="steady")
        began = time.monotonic()
        await asyncio.sleep(minutes * self.minute_seconds)
        took = time.monotonic() - began
        rates = {what: (count - before[what]) / took for what, count in self.counts.items()}
        writes = self.latencies.changes / took
        times = {**self.latencies.times, "answer": self.answers}
        _say(phase="end", times=times, missed=self.latencies.missed, writes=writes, rates=rates)
        for task in running:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settle(self.latencies.waiting), SETTLE_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settle(self.latencies.behind), self.settle_seconds)
        _say(phase="settled", behind=self.latencies.behind())
        watching.cancel()
        await asyncio.gather(watching, *running, *self._tasks, return_exceptions=True)

    async def _settle(self, missing: Callable[[], int]) -> None:
        """Wait until every answer is there and no number is missing on its Node."""
        if self._tasks:
            await asyncio.wait(self._tasks)  # which leaves them alone when its own time is over
        while missing():
            self._changed.clear()
            await self._changed.wait()

    async def _spread(
        self, seconds: float, act: Callable[[int], Coroutine[Any, Any, None]], rounds: float = math.inf
    ) -> None:
        """Do something for each node once in so many seconds, one node after the other, whatever it takes."""
        began, turn = time.monotonic(), 0
        while turn < rounds * self.nodes:
            await asyncio.sleep(began + turn * seconds / self.nodes - time.monotonic())
            task = asyncio.create_task(act(turn % self.nodes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            turn += 1

    async def _report(self, number: int, pods: int) -> None:
        name, level = made.name(number), self.levels.next(number)
        self.latencies.reports(name, made.reclaimable(level)[0])
        body, began = made.report(level, time.time(), pods), time.monotonic()
        if await self._patch(paths.status(made.metric_path(number)), body, "reports"):
            self.answers.append(time.monotonic() - began)
            self.latencies.answered(name, time.monotonic())
        else:
            self.latencies.refused(name)

    async def _heartbeat(self, number: int) -> None:
        path = paths.status(paths.node(made.name(number)))
        await self._patch(path, made.heartbeat(time.time()), "heartbeats", STRATEGIC_MERGE_PATCH)

    async def _patch(self, path: str, body: Json, what: str, content_type: str = MERGE_PATCH) -> bool:
        try:
            await self.api.patch(path, body, content_type=content_type)
        except (ApiError, ApiUnavailable):
            self.counts["failed"] += 1
            return False
        self.counts[what] += 1
        return True

    async def _watch(self) -> None:
        async for change in list_and_watch(self.api, paths.NODES):
            now = time.monotonic()
            for node in change.items if isinstance(change, Relisted) else [change.object]:
                published = publish.published_amounts(node)[Resource.CPU].amount
                self.latencies.shows(str(node["metadata"]["name"]), published, now)
            self._changed.set()


def _say(**line: object) -> None:
    print(json.dumps(line), flush=True)


async def _main(options: argparse.Namespace) -> None:
    async with ApiServer(connect(options.kubeconfig), user_agent="bench") as api:
        levels = made.Levels(options.nodes)
        load = Load(api, options.nodes, levels, options.minute_seconds, options.settle_seconds)
        await load.run(options.minutes, options.pods)


def main() -> None:
    """Run until the minutes are over."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.manager_load", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True, help="after the first one")
    parser.add_argument("--pods", type=int, default=made.REPORTED_PODS, help="in each report")
    parser.add_argument("--minute-seconds", type=float, default=60.0, help="how long a minute is")
    parser.add_argument("--settle-seconds", type=float, default=0.0, help="for every Node to show its last number")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()

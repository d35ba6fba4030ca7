"""`python -m tools.bench.manager_load`: agents and kubelets of many nodes in one process, and a watch of the Nodes.

It writes JSON lines: when the nodes begin to report, when each has done so, at the end, and when all is published.
"""

import argparse
import asyncio
import contextlib
import json
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
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
from tools.bench import objects as made

HEARTBEATS = 5
"""A kubelet patches its Node's status every so many minutes when nothing changes; its Lease is renewed elsewhere."""
AGENTS_PER_SECOND = 40  # at most so many agents of an installation begin to report: they start as their image arrives
SETTLE_SECONDS = 30.0  # time limit until the last report is published
SHARE = 0.1  # of the reports that go one level down, and as many that go one up


@dataclass(slots=True)
class _Node:
    """A node's report and its published amount. Times are of one clock. [s]"""

    level: int = made.LEVELS // 2
    reported: int | None = None  # reclaimable CPU of the last report that was taken [milli-cores]
    published: int | None = None  # the published amount [milli-cores]
    expected: str = ""  # "first" or "decrease" while the number must appear at once
    answered: float | None = None  # when the API server took the report
    seen: float | None = None  # when the Node showed it


class Load:
    """The nodes of a cluster that report."""

    def __init__(self, api: ApiServer, options: argparse.Namespace) -> None:
        self._api, self._options = api, options
        self._nodes = [_Node() for _ in range(options.nodes)]
        self._numbers = {made.name(number): number for number in range(options.nodes)}
        self._lot = random.Random(1)  # noqa: S311 - decides which report moves
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        """Kind (first, decrease) -> time from the answer to the report until the Node shows it; and answers. [s]"""
        self._counts = {"reports": 0, "heartbeats": 0, "writes": 0, "missed": 0}
        self._changed, self._tasks = asyncio.Event(), set[asyncio.Task[None]]()
        self._with_workloads = False  # whether reports have them

    async def run(self) -> None:
        """Report once, then once a minute for some minutes, evenly spread; print the results."""
        options, minute = self._options, self._options.minute_seconds
        watching = asyncio.create_task(self._watch())
        await self._changed.wait()
        _print(phase="first")
        heartbeats = asyncio.create_task(self._spread(HEARTBEATS * minute, self._heartbeat))
        await self._spread(max(minute, options.nodes / AGENTS_PER_SECOND), self._report, rounds=1)
        running = [heartbeats, asyncio.create_task(self._spread(minute, self._report))]
        rates = await self._rates("steady")
        _print(phase="end", times=self._times, missed=self._counts["missed"], rates=rates)
        if options.workloads:
            self._with_workloads = True
            await asyncio.sleep(2.2 * minute)  # the maxima are complete in the first minute, and the second has them
            rates = await self._rates("steady with workloads")
            _print(phase="end with workloads", rates=rates)
        for task in running:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settle(lambda: any(node.expected for node in self._nodes)), SETTLE_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settle(self._behind), options.settle_seconds)
        _print(phase="settled", behind=self._behind())
        watching.cancel()
        await asyncio.gather(watching, *running, *self._tasks, return_exceptions=True)

    async def _rates(self, phase: str) -> dict[str, float]:
        """Let the nodes report for some minutes, and return how often each thing happened. [1/s]"""
        before, began = dict(self._counts), time.monotonic()
        _print(phase=phase)
        await asyncio.sleep(self._options.minutes * self._options.minute_seconds)
        took = time.monotonic() - began
        return {what: (count - before[what]) / took for what, count in self._counts.items()}

    def _behind(self) -> int:
        """Return how many Nodes do not show the last report."""
        return sum(node.reported is not None and node.published != node.reported for node in self._nodes)

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
        while turn < rounds * len(self._nodes):
            await asyncio.sleep(began + turn * seconds / len(self._nodes) - time.monotonic())
            task = asyncio.create_task(act(turn % len(self._nodes)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            turn += 1

    async def _report(self, number: int) -> None:
        node, chance = self._nodes[number], self._lot.random()
        move = -1 if chance < SHARE else 1 if chance < 2 * SHARE else 0
        node.level = min(max(node.level + move, 0), made.LEVELS - 1)
        node.reported = made.reclaimable(node.level)[0]
        self._counts["missed"] += bool(node.expected)
        urgent = node.published is not None and publish.is_urgent(node.published, node.reported, Resource.CPU)
        node.expected = "first" if node.published is None else "decrease" if urgent else ""
        node.answered = node.seen = None
        body, began = made.report(node.level, time.time()), time.monotonic()
        if self._with_workloads:
            body["status"]["workloads"] = made.workloads(number, time.time(), self._options.nodes)
        if await self._patch(paths.status(made.metric_path(number)), body, "reports"):
            self._times["answer"].append(time.monotonic() - began)
            node.answered = time.monotonic()
            self._pair(node)
        else:  # nothing is expected of a report that was refused
            node.expected, node.reported = "", None

    async def _heartbeat(self, number: int) -> None:
        path = paths.status(paths.node(made.name(number)))
        await self._patch(path, made.heartbeat(time.time()), "heartbeats", STRATEGIC_MERGE_PATCH)

    async def _patch(self, path: str, body: dict[str, Any], what: str, content_type: str = MERGE_PATCH) -> bool:
        try:
            await self._api.patch(path, body, content_type=content_type)
        except (ApiError, ApiUnavailable):
            return False
        self._counts[what] += 1
        return True

    async def _watch(self) -> None:
        async for change in list_and_watch(self._api, paths.NODES):
            now = time.monotonic()
            for result in change.items if isinstance(change, Relisted) else [change.object]:
                node = self._nodes[self._numbers[str(result["metadata"]["name"])]]
                published = publish.published_amounts(result)[Resource.CPU].amount
                if published == node.published:
                    continue
                self._counts["writes"] += 1
                node.published = published
                if node.expected and node.reported == published:
                    node.seen = now
                    self._pair(node)
            self._changed.set()

    def _pair(self, node: _Node) -> None:
        """Note the time of a number that was reported and is shown."""
        if node.expected and node.answered is not None and node.seen is not None:
            self._times[node.expected].append(max(node.seen - node.answered, 0.0))
            node.expected = ""


def _print(**line: object) -> None:
    print(json.dumps(line), flush=True)


async def _main(options: argparse.Namespace) -> None:
    async with ApiServer(connect(options.kubeconfig), user_agent="bench") as api:
        await Load(api, options).run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.bench.manager_load", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True, help="after the first one")
    parser.add_argument("--minute-seconds", type=float, default=60.0, help="how long a minute is")
    parser.add_argument("--settle-seconds", type=float, default=0.0, help="for every Node to show its last number")
    parser.add_argument("--workloads", action="store_true", help="report for as long again with workloads")
    asyncio.run(_main(parser.parse_args()))

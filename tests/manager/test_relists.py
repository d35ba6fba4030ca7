"""A list is processed in slices: no deadline, renewal or decrease waits for all of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from headroom.kube.time_slices import SLICE
from manager.context import Run
from manager.handlers import node_metric, pods
from manager.inputs import PodInputs
from manager.runner import relist
from tests.headroom.kube.fake import FakeServer, answer, serving
from tests.support.objects import Json, mid_pod, node, report
from tests.support.world import World, put_pods

COUNT = 1000
LARGE = 64
"""At most so many objects of 20 KiB are read as one piece of JSON."""


class _Turns:
    def __init__(self) -> None:
        self.done = self.most = self.all = 0

    def watch(self, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        original = getattr(kind, name)

        def counted(*given: Any, **named: Any) -> Any:  # noqa: ANN401
            self.done += 1
            self.all += 1
            self.most = max(self.most, self.done)
            return original(*given, **named)

        monkeypatch.setattr(kind, name, counted)

    async def live(self) -> None:
        while True:
            self.done = 0
            await asyncio.sleep(0)


@pytest.fixture
async def served() -> AsyncIterator[tuple[FakeServer, World]]:
    async with serving() as (server, api):
        world = World()
        world.run.api = api
        yield server, world


def _listed(objects: list[Json]) -> Json:
    for number, each in enumerate(objects):
        each["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(number + 1)}
    return {"items": objects, "metadata": {"resourceVersion": "9999"}}


def _pods(count: int) -> list[Json]:
    result = [mid_pod(f"p{number}") for number in range(count)]
    for number, pod in enumerate(result):
        pod["spec"]["nodeName"] = f"n{number % 7}"
    return result


async def _beside(turns: _Turns, work: Any, until: Any) -> None:  # noqa: ANN401
    living, working = asyncio.create_task(turns.live()), asyncio.create_task(work)
    while not until():
        await asyncio.sleep(0.01)
        if working.done():
            working.result()
            break
    for task in (living, working):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_pods_come_in_slices(served: tuple[FakeServer, World], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for pods at the start, and each node is reconciled once all are known."""
    server, world = served
    cluster, turns = world.run.context.cluster, _Turns()
    cluster.pods_synced = False
    world.has_node(node())
    await world.run.queue.take()
    world.run.queue.done("n1")
    turns.watch(monkeypatch, type(cluster), "_put")
    server.add("list", answer(_listed(_pods(COUNT))))
    await _beside(turns, pods.follow(world.run), lambda: cluster.pods_synced)
    assert turns.all == cluster.pod_count == COUNT
    assert turns.most <= SLICE
    assert world.run.queue.holds("n1")


async def test_pods_go_in_slices(served: tuple[FakeServer, World], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for pods missing from a list; their nodes are reconciled."""
    server, world = served
    cluster, turns = world.run.context.cluster, _Turns()
    put_pods(cluster, [PodInputs.from_object(item) for item in _listed(_pods(COUNT))["items"]])
    turns.watch(monkeypatch, type(cluster), "drop_pod")
    server.add("list", answer(_listed(_pods(6))))
    await _beside(turns, pods.follow(world.run), lambda: cluster.pod_count == 6)
    assert cluster.pod_count == 6
    assert turns.most <= SLICE
    assert all(world.run.queue.holds(f"n{number}") for number in range(7))


@pytest.mark.parametrize(
    ("put", "made", "work"),
    [
        ("put_node", node, relist),
        ("put_node_metric", lambda name: report(name=name), node_metric.read),
        ("put_node_metric", lambda name: report(name=name), lambda run: node_metric.follow(run, "")),
    ],
)
async def test_nodes_and_node_metrics_come_in_slices(
    served: tuple[FakeServer, World],
    monkeypatch: pytest.MonkeyPatch,
    put: str,
    made: Callable[[str], Json],
    work: Callable[[Run], Any],
) -> None:
    """The same holds for Nodes and NodeMetrics; a page has few of them, for its JSON is decoded in one go."""
    server, world = served
    cluster, turns = world.run.context.cluster, _Turns()
    turns.watch(monkeypatch, type(cluster), put)
    server.add("list", answer(_listed([made(f"n{number}") for number in range(COUNT)])))
    await _beside(turns, work(world.run), lambda: len(server.requests) > 1)
    assert len(cluster.nodes) + len(cluster.node_metrics) == turns.all == COUNT
    assert turns.most <= SLICE
    assert int(server.queries("list")[0]["limit"]) <= LARGE

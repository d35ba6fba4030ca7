"""The API server, or the manager itself, stalls for some seconds in the middle of work: nothing is lost.

Time is simulated: when no task can run, the clock moves to the next moment that a task waits for.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from headroom.kube import ApiServer, ApiUnavailable
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaderElector, LeaderSettings
from manager.config.in_force import InForce, after_change
from manager.context import Context, Run
from manager.handlers import node_metric, nodes
from manager.metrics import ManagerMetrics
from manager.reconcile.queue import NodeQueue
from manager.reconcile.workers import Workers
from manager.runner import _tick
from manager.settings import Settings
from tests.support.api import FakeApi
from tests.support.objects import LEASE, NOW, Json, node, report
from tests.support.world import put_pods

STALL_AT = 100.0
DEGRADE_SECONDS = 900.0
TIMEOUT_SECONDS = 30.0
ANSWER_SECONDS = 0.5
"""A busy API server: what falls due in a stall has its turn before the Lease can be renewed."""
SILENT = [f"silent-{number:02}" for number in range(16)]
FALLING = [f"falling-{number:02}" for number in range(16)]
STALLS = [*range(1, 16), 5.5, 6.5, 7.5, 8.5]
"""From an unnoticed stall to one that loses the Lease. [s]"""


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock stops while a task can run."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready and scheduled:
            self.now = max(self.now, scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


class HeldBack:
    """A session with an API server that stalls at times, as `ApiServer` behaves then."""

    def __init__(self, server: FakeApi, running: asyncio.Event, may_write_for: Callable[[], float]) -> None:
        self._server, self._running, self._may_write_for = server, running, may_write_for

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Json]]:
        ask = getattr(self._server, name)
        may_take = (lambda: TIMEOUT_SECONDS) if name == "get" else self._may_write_for
        return lambda *given, **named: self._answer(lambda: ask(*given, **named), may_take)

    async def _answer(self, ask: Callable[[], Coroutine[Any, Any, Json]], may_take: Callable[[], float]) -> Json:
        try:
            async with asyncio.timeout(min(may_take(), TIMEOUT_SECONDS)):
                await self._running.wait()
                await asyncio.sleep(ANSWER_SECONDS)
        except (TimeoutError, ApiUnavailable):
            may_take()
            raise ApiUnavailable("no response in time") from None
        may_take()
        return await ask()


class Cluster:
    """A manager that leads, and nodes of which some fall silent and others report less, in and around a stall."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.server, self.running = loop, FakeApi(), asyncio.Event()
        self.running.set()
        context = Context(Settings(), ManagerMetrics(), wall=lambda: NOW + loop.now, steady=loop.time)
        context.in_force = after_change(InForce(), '{"enable": true, "midIncreaseHoldSeconds": 0}', present=True)
        put_pods(context.cluster, [])
        session = cast("ApiServer", HeldBack(self.server, self.running, lambda: TIMEOUT_SECONDS))

        def leader_changed() -> None:
            self.run.requeue_all()

        leader = LeaderElector(session, LEASE, "a", LeaderSettings(enabled=True), loop.time, leader_changed)
        guarded = cast("ApiServer", HeldBack(self.server, self.running, leader.may_write_for))
        queue = NodeQueue(context.settings.timing.coalesce_seconds, loop.time)
        self.run = Run(context, guarded, queue, leader, EventRecorder(guarded, "headroom-manager", clock=context.wall))

    def reports(self, name: str, reclaimable: str, reported_at: float) -> None:
        path = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{name}"
        made = report(name=name, reclaimable=(reclaimable, "10Gi"), age=-reported_at)
        stored = self.server.objects.get(path, made)
        node_metric.observe(self.run, "MODIFIED", self.server.put(path, {**stored, "status": made["status"]}))

    async def live(self, seconds: float, stall: Callable[[], None]) -> None:
        """Run everything; reports fall and expire at moments from just before a stall to long after it."""
        for name in SILENT + FALLING:
            nodes.observe(self.run, "ADDED", self.server.put(f"/api/v1/nodes/{name}", node(name)))
        for number, name in enumerate(SILENT):
            self.reports(name, "4", STALL_AT - 2 + number * 1.1 - DEGRADE_SECONDS - 1)
        for number, name in enumerate(FALLING):
            self.reports(name, "4", 0.0)
            self.loop.call_at(STALL_AT - 2 + number * 1.1, self.reports, name, "2", STALL_AT)
        workers = Workers(self.run)
        tasks = [asyncio.create_task(entry) for entry in (self.run.leader.run(), _tick(self.run))]
        tasks += [asyncio.create_task(workers.work()) for _ in range(8)]
        self.loop.call_at(STALL_AT, stall)
        await asyncio.sleep(STALL_AT - 10)
        assert {self.published(name) for name in SILENT + FALLING} == {"4000"}
        await asyncio.sleep(10 + seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def published(self, name: str) -> str | None:
        capacity = self.server.objects[f"/api/v1/nodes/{name}"]["status"]["capacity"]
        return cast("str | None", capacity.get("kubernetes.io/mid-cpu"))

    def expect_done(self) -> None:
        """Every silent node publishes nothing, and every other its last report."""
        assert {name for name in SILENT if self.published(name) is not None} == set()
        assert {name for name in FALLING if self.published(name) != "2000"} == set()


def _live(seconds: float, stall: Callable[[Cluster], None]) -> Cluster:
    loop = Loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:

        async def all_of_it() -> Cluster:
            cluster = Cluster(loop)
            await cluster.live(seconds, lambda: stall(cluster))
            return cluster

        return runner.run(all_of_it())


@pytest.mark.parametrize("seconds", STALLS)
def test_stalled_server_loses_no_work(seconds: float) -> None:
    def stall(cluster: Cluster) -> None:
        cluster.running.clear()
        cluster.loop.call_later(seconds, cluster.running.set)

    _live(60.0, stall).expect_done()


@pytest.mark.parametrize("seconds", STALLS)
def test_paused_process_loses_no_work(seconds: float) -> None:
    """A manager that stalls, and then finds that its Lease may have expired, loses no work."""

    def pause(cluster: Cluster) -> None:
        cluster.loop.now += seconds

    _live(60.0, pause).expect_done()


def test_repeated_stalls_lose_no_work() -> None:
    """Lapse after lapse, each healed by the next renewal."""

    def stall(cluster: Cluster) -> None:
        cluster.loop.now += 7.5
        if cluster.loop.now < STALL_AT + 40:
            cluster.loop.call_later(2.5, stall, cluster)

    _live(90.0, stall).expect_done()


def test_lost_turns_come_back_within_degrade_time() -> None:
    """A node that loses its turn is reconciled again within half of its degrade time."""

    def lose(cluster: Cluster) -> None:
        cluster.run.queue._pending.clear()
        cluster.run.queue._later.clear()
        if cluster.loop.now < STALL_AT + 30:
            cluster.loop.call_later(0.1, lose, cluster)

    _live(DEGRADE_SECONDS / 2, lose).expect_done()


def test_silent_nodes_are_reconciled_again() -> None:
    """Nodes whose agent never reported are reconciled within each half of the degrade time, some at a time."""
    loop, looked = Loop(), list[tuple[float, str]]()

    async def wait() -> None:
        cluster = Cluster(loop)
        for name in SILENT:
            nodes.observe(cluster.run, "ADDED", cluster.server.put(f"/api/v1/nodes/{name}", node(name)))
        add = cluster.run.queue.add

        def count(name: str) -> None:
            looked.append((loop.now, name))
            add(name)

        workers = Workers(cluster.run)
        tasks = [asyncio.create_task(entry) for entry in (cluster.run.leader.run(), workers.work(), _tick(cluster.run))]
        await asyncio.sleep(30)
        cluster.run.queue.add = count  # type: ignore[method-assign]
        await asyncio.sleep(DEGRADE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(wait())
    times = {name: [moment for moment, each in looked if each == name] for name in SILENT}
    assert {len(time) for time in times.values()} <= {1, 2}
    assert max(sum(moment == each for each, _ in looked) for moment, _ in looked) <= 2


def test_replica_reconciles_all_nodes_after_another_leader_in_between() -> None:
    loop = Loop()
    texts = []

    async def lose() -> None:
        server = FakeApi()
        settings = LeaderSettings(enabled=True)
        leader = LeaderElector(
            cast("ApiServer", server),
            LEASE,
            "a",
            settings,
            loop.time,
            lambda: texts.append(loop.now),
        )
        task = asyncio.create_task(leader.run())
        await asyncio.sleep(3)
        term, (path,) = leader.term, server.objects
        spec = server.objects[path]["spec"]
        server.put(path, {**server.objects[path], "spec": {**spec, "holderIdentity": "", "acquireTime": "later"}})
        await asyncio.sleep(3)
        assert leader.is_leader
        assert leader.term != term
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(lose())
    assert len(texts) == 2

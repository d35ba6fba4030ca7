"""Reconciliation of a node: writes, reports, requeues, and concurrent changes."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest

from crds import names
from headroom.kube import ApiError, ApiServer, Connection
from headroom.kube.server_clock import ServerClock
from manager.handlers import node_metric, nodes
from manager.inputs import PodInputs
from manager.reconcile.workers import Workers
from manager.runner import relist, serve
from tests.support.objects import NOW, Json, mid_pod, node, report
from tests.support.world import METRIC, NODE, World

GIB = 1024**3
PUBLISHED = {"cpu": "4000", "memory": str(10 * GIB)}
HOLD = '{"enable": true, "midIncreaseHoldSeconds": 60}'
NEW_NODE = {**node(), "metadata": {**node()["metadata"], "uid": "uid-new"}}


def reason(world: World) -> str:
    conditions = {condition["type"]: condition for condition in world.api.objects[METRIC]["status"]["conditions"]}
    return str(conditions[names.CONDITION_MID_PUBLISHED]["reason"])


async def work(world: World) -> None:
    """Reconcile the node for as long as it is in the queue."""
    world.run.queue.add("n1")
    while len(world.run.queue):
        name = await world.run.queue.take()
        await world.reconcile()
        world.run.queue.done(name)


async def test_new_node_gets_metric(world: World) -> None:
    await world.reconcile()
    assert world.api.objects[METRIC]["metadata"]["ownerReferences"][0]["uid"] == "uid-n1"
    assert world.api.objects[METRIC]["spec"]["predictPolicy"]["model"] == "coincidence"
    assert (world.published(), world.events_recorded()) == ({}, [])
    written = len(world.api.written("PATCH", "nodemetrics"))
    await world.reconcile()
    assert len(world.api.written("PATCH", "nodemetrics")) == written


async def test_report_is_published(world: World) -> None:
    """The first report at once; the same numbers are never written twice; when only memory falls, only that is."""
    await world.reconcile()
    world.reports(report())
    for _ in range(2):
        await world.reconcile()
        assert world.published() == PUBLISHED
    assert (len(world.api.written("PATCH", "/nodes/")), world.events_recorded()) == (1, [])
    world.reports(report(reclaimable=("4", "9Gi"), age=5))
    await world.reconcile()
    last = world.api.written("PATCH", "/nodes/")[-1]
    assert last["status"]["capacity"] == {names.MID_MEMORY: str(9 * GIB)}


async def test_expired_report_removes_mid_and_a_fresh_one_restores_it(world: World) -> None:
    world.reports(report(age=0))
    await world.reconcile()
    due = world.due_in()
    assert due == 901.0
    world.later(due)
    world.run.queue.release_due()
    assert await world.run.queue.take() == "n1"
    for _ in range(2):
        await world.reconcile()
        assert (world.published(), world.events_recorded(), world.due_in()) == ({}, ["DegradedMid"], None)
    world.reports(report(age=-900))
    await world.reconcile()
    assert (world.published(), world.events_recorded()) == (PUBLISHED, ["DegradedMid", "MidRestored"])


async def test_clocks_that_jump(world: World) -> None:
    """A wall clock that is set back makes no report younger, and one that is set ahead writes no increase earlier."""
    world.configure(HOLD)
    world.reports(report(reclaimable=("2", "10Gi"), age=0))
    await world.reconcile()
    world.reports(report(reclaimable=("4", "10Gi"), age=-1))
    await world.reconcile()
    world.wall.now += 300
    await world.reconcile()
    assert world.published()["cpu"] == "2000"
    world.wall.now -= 3600
    world.steady.now += 901
    await world.reconcile()
    assert (world.published(), world.events_recorded()) == ({}, ["DegradedMid"])


@pytest.mark.parametrize("ahead", [7200.0, -7200.0])
async def test_wrong_clock_removes_nothing(world: World, ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW + ahead)
    api, stop = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test"), asyncio.Event()
    api.server_time = ServerClock(steady=lambda: world.steady.now)
    stop.set()
    await serve(api, world.run.context, stop)
    await world.reconcile()
    for second in range(0, 20, 5):
        world.steady.now = second
        api.server_time.learn(formatdate(NOW + second, usegmt=True))
        world.reports(report(age=-second))
        await world.reconcile()
        assert world.published() == PUBLISHED
    api.server_time.learn(formatdate(NOW + 1800, usegmt=True))
    world.steady.now = 1800
    await world.reconcile()
    assert world.published() == {}


async def test_restart_does_not_hide_degrading(world: World) -> None:
    world.has_node(node(mid=("4000", "1Gi")))
    world.reports(report(age=5000))
    await world.reconcile()
    assert (world.published(), world.events_recorded()) == ({}, ["DegradedMid"])


async def test_another_strategy_is_reported(world: World) -> None:
    """An event on the Node says what changes, and from where; the first one is none, and disabling is no warning."""
    world.reports(report())
    await world.reconcile()
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 0, "midUnallocatedPercent": 20}')
    await world.reconcile()
    await world.reconcile()
    ((reason, note),) = [(body["reason"], body["note"]) for body in world.api.written("POST", "/events")]
    assert reason == "NodeStrategyApplied"
    assert "midUnallocatedPercent 20 (cluster)" in note
    assert "enable true (cluster)" in note
    world.configure('{"enable": false}')
    await world.reconcile()
    events = [(body["type"], body["reason"]) for body in world.api.written("POST", "/events")]
    applied = ("Normal", "NodeStrategyApplied")
    assert (world.published(), events) == ({}, [applied, applied, ("Normal", "MidDisabled")])


async def test_degraded_node_keeps_requests_of_running_mid_pods(world: World) -> None:
    world.reports(report(age=5000))
    world.run.context.cluster.put_pod(PodInputs.from_object(mid_pod("m", cpu="3000", memory="2Gi")))
    await world.reconcile()
    await world.reconcile()
    assert (world.published(), world.events_recorded()) == ({"cpu": "3000", "memory": str(2 * GIB)}, ["MidDeficit"])
    world.run.context.cluster.drop_pod("uid-m")
    await world.reconcile()
    assert world.published() == {}


async def test_increase_is_requeued_for_when_it_has_held(world: World) -> None:
    world.configure(HOLD)
    for reclaimable, age in (("2", 10.0), ("4", 9.0)):
        world.reports(report(reclaimable=(reclaimable, "10Gi"), age=age))
        await world.reconcile()
    assert (world.published()["cpu"], world.due_in()) == ("2000", 60.0)
    world.lead(leads=False)
    world.later(70)
    await world.reconcile()
    world.lead(leads=True)
    await world.reconcile()
    assert (world.published()["cpu"], world.due_in()) == ("2000", 60.0)
    world.later(60)
    await world.reconcile()
    assert world.published()["cpu"] == "4000"


async def test_return_after_expired_reports_must_hold_also_over_a_restart(world: World) -> None:
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 120}')
    world.reports(report())
    await world.reconcile()
    assert world.published() == PUBLISHED
    world.later(2000)
    await world.reconcile()
    world.run.context.node_states.clear()  # another replica leads
    world.reports(report(age=-1990, conditions=world.api.objects[METRIC]["status"]["conditions"]))
    await world.reconcile()
    assert (world.published(), reason(world), world.due_in()) == ({}, "Held", 120.0)
    world.later(120)
    await world.reconcile()
    assert (world.published(), reason(world)) == (PUBLISHED, "Published")


async def test_gone_node_takes_metric_along(world: World) -> None:
    await world.reconcile()
    world.reports(report())
    await world.reconcile()
    nodes.observe(world.run, "DELETED", node())
    await world.reconcile()
    assert METRIC not in world.api.objects
    assert world.run.context.node_states == {}
    await world.reconcile()
    assert len(world.api.written("DELETE", "nodemetrics")) == 1


async def test_faster_garbage_collector_is_fine(world: World) -> None:
    await world.reconcile()
    nodes.observe(world.run, "DELETED", node())
    old = {**world.api.objects[METRIC], "metadata": {"name": "n1", "uid": "old"}}
    world.api.objects[METRIC]["metadata"]["uid"] = "another"
    world.run.context.cluster.put_node_metric(old, NOW)
    await world.reconcile()
    assert METRIC in world.api.objects
    assert "n1" not in world.run.context.cluster.node_metrics


async def test_missed_deletion_is_found_by_the_next_write(world: World) -> None:
    world.reports(report())
    del world.api.objects[NODE]
    await world.reconcile()
    assert "n1" not in world.run.context.cluster.nodes
    await world.reconcile()
    assert METRIC not in world.api.objects


async def test_standby_writes_nothing_and_forgets_gone_nodes(world: World) -> None:
    world.lead(leads=False)
    world.reports(report())
    await world.reconcile()
    workers = Workers(world.run)
    await workers._reconcile("n1")
    assert (world.api.calls, list(world.run.context.node_states)) == ([], ["n1"])
    nodes.observe(world.run, "DELETED", node())
    await workers._reconcile("n1")
    assert world.run.context.node_states == {}


async def test_nothing_is_published_before_pods_are_known(world: World) -> None:
    world.run.context.cluster.pods_synced = False
    world.reports(report())
    await world.reconcile()
    assert world.api.written("PATCH", "/nodes/") == []


def before_answer(world: World, monkeypatch: pytest.MonkeyPatch, path: str, happens: Callable[[], object]) -> None:
    """Have something happen after the API server took a patch, and before its answer is there."""
    patch = world.api.patch

    async def slow(patched: str, *rest: object, **more: object) -> Json:
        answer = await patch(patched, *rest, **more)  # type: ignore[arg-type]
        if patched == path:
            happens()
        return answer

    monkeypatch.setattr(world.api, "patch", slow)


async def test_late_answer_brings_no_deleted_node_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.reports(report())
    before_answer(world, monkeypatch, f"{NODE}/status", lambda: nodes.observe(world.run, "DELETED", node()))
    await world.reconcile()
    assert world.run.context.cluster.nodes == {}


async def test_late_answer_brings_no_deleted_metric_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.reports(report())
    path, pop = f"{METRIC}/status", world.api.objects.pop
    before_answer(world, monkeypatch, path, lambda: node_metric.observe(world.run, "DELETED", pop(METRIC)))
    await world.reconcile()
    assert world.run.context.cluster.node_metrics == {}
    monkeypatch.undo()
    await world.reconcile()
    assert METRIC in world.api.objects


@pytest.mark.parametrize("path", [METRIC, f"{METRIC}/status"])
async def test_report_in_an_answer_is_reconciled(world: World, path: str) -> None:
    wrote: list[str] = []

    def reported() -> None:
        if not wrote:
            wrote.append(path)
            world.api.put(METRIC, {**world.api.objects.get(METRIC, report()), "status": report()["status"]})

    world.api.before[f"PATCH {path}"] = reported
    world.run.queue.add("n1")
    assert await world.run.queue.take() == "n1"
    await world.reconcile()
    world.run.queue.done("n1")
    assert wrote
    node_metric.observe(world.run, "MODIFIED", world.api.objects[METRIC])  # as the watch delivers it afterwards
    assert len(world.run.queue) == 1
    await world.reconcile()
    assert world.published() == PUBLISHED


async def test_label_in_an_answer_is_reconciled(world: World) -> None:
    world.reports(report())
    relabelled = node(labels={"pool": "b"})
    world.api.before[f"PATCH {NODE}/status"] = lambda: world.api.put(NODE, relabelled)
    await world.reconcile()
    assert len(world.run.queue) == 1
    world.api.before.clear()
    world.reports(report(reclaimable=("3", "9Gi"), age=5))
    world.run.queue.done(await world.run.queue.take())
    await world.reconcile()
    assert (world.published()["cpu"], len(world.run.queue)) == ("3000", 0)


async def test_node_recreated_while_its_metric_goes_gets_one(world: World) -> None:
    await world.reconcile()
    nodes.observe(world.run, "DELETED", world.api.objects.pop(NODE))
    world.api.before["DELETE"] = lambda: nodes.observe(world.run, "ADDED", world.api.put(NODE, NEW_NODE))
    await work(world)
    assert world.api.objects[METRIC]["metadata"]["ownerReferences"][0]["uid"] == "uid-new"


async def test_recreated_node_survives_news_of_the_old_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late event or response of a deleted Node does not drop its successor."""
    world.reports(report())

    def gone() -> None:
        world.api.before.clear()
        monkeypatch.undo()  # explain knows nothing of the report of the old Node
        nodes.observe(world.run, "ADDED", world.api.put(NODE, NEW_NODE))
        raise ApiError(404, "NotFound", "no such node")

    world.api.before[f"PATCH {NODE}/status"] = gone
    await work(world)
    nodes.observe(world.run, "DELETED", node())
    await work(world)
    assert world.run.context.cluster.nodes["n1"]["metadata"]["uid"] == "uid-new"
    assert METRIC in world.api.objects


async def test_relist_drops_no_node_recreated_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = world.api.list

    async def slow(path: str, params: object = None, keep: object = None) -> tuple[list[object], str]:
        del world.api.objects[NODE]
        result = await listed(path, params, keep)
        nodes.observe(world.run, "ADDED", world.api.put(NODE, NEW_NODE))
        return result

    monkeypatch.setattr(world.api, "list", slow)
    await relist(world.run)
    assert world.run.context.cluster.nodes["n1"]["metadata"]["uid"] == "uid-new"

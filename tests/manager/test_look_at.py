"""One look at one node: what is written, what is told, when it looks again."""

import asyncio
import time
from email.utils import formatdate

import pytest

from crds import names
from headroom.kube import ApiError, ApiServer, ApiUnavailable, Connection
from headroom.kube.server_clock import ServerClock
from manager.handlers import nodes
from manager.inputs import PodInputs
from manager.reconcile.workers import Workers
from manager.runner import serve
from tests.support.objects import NOW, mid_pod, node, report
from tests.support.world import METRIC, NODE, World


async def test_new_node_gets_metric(world: World) -> None:
    """A Node without NodeMetric gets one with its spec and owner, and offers nothing yet."""
    await world.reconcile()
    created = world.api.objects[METRIC]
    assert created["metadata"]["ownerReferences"][0]["uid"] == "uid-n1"
    assert created["spec"]["predictPolicy"]["model"] == "diversity"
    assert world.offered() == {}
    assert world.told() == []
    written = len(world.api.written("PATCH", "nodemetrics"))
    await world.reconcile()
    assert len(world.api.written("PATCH", "nodemetrics")) == written


async def test_report_becomes_offer(world: World) -> None:
    """The first report is published at once; the same numbers are never written twice."""
    await world.reconcile()
    world.reports(report())
    await world.reconcile()
    assert world.offered() == {"cpu": "4000", "memory": str(10 * 1024**3)}
    await world.reconcile()
    assert len(world.api.written("PATCH", "/nodes/")) == 1
    assert world.told() == []


async def test_smallest_patch_is_sent(world: World) -> None:
    """When only memory falls, only memory is written."""
    world.reports(report())
    await world.reconcile()
    world.reports(report(reclaimable=("4", "9Gi"), age=5))
    await world.reconcile()
    last = world.api.written("PATCH", "/nodes/")[-1]
    assert last["status"]["capacity"] == {names.MID_MEMORY: str(9 * 1024**3)}


async def test_stale_report_takes_it_back(world: World) -> None:
    """At the deadline Mid is degraded and the Node told; with a fresh report it comes back, and the Node is told."""
    world.reports(report(age=0))
    await world.reconcile()
    due = world.due_in()
    assert due == 901.0
    world.later(due)
    world.run.queue.release_due()
    assert await world.run.queue.take() == "n1"
    await world.reconcile()
    assert world.offered() == {}
    assert world.told() == ["DegradedMid"]
    assert world.due_in() is None
    await world.reconcile()
    world.reports(report(age=-900))
    await world.reconcile()
    assert world.offered()["cpu"] == "4000"
    assert world.told() == ["DegradedMid", "MidRestored"]


async def test_clock_set_back_degrades(world: World) -> None:
    """A wall clock that is set back by an hour makes no report younger: without a new one Mid is taken back in time."""
    world.reports(report(age=0))
    await world.reconcile()
    world.wall.now -= 3600
    world.steady.now += 901
    await world.reconcile()
    assert world.offered() == {}
    assert world.told() == ["DegradedMid"]


async def test_clock_set_forward_keeps_hold(world: World) -> None:
    """A wall clock that jumps ahead writes no increase earlier."""
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 60}')
    world.reports(report(reclaimable=("2", "10Gi")))
    await world.reconcile()
    world.reports(report(reclaimable=("4", "10Gi"), age=9))
    await world.reconcile()
    world.wall.now += 300
    await world.reconcile()
    assert world.offered()["cpu"] == "2000"


async def test_restart_does_not_hide_degrading(world: World) -> None:
    """A Node that offers Mid when the manager starts, and may not, is told so."""
    world.has_node(node(mid=("4000", "1Gi")))
    world.reports(report(age=5000))
    await world.reconcile()
    assert world.offered() == {}
    assert world.told() == ["DegradedMid"]


async def test_disabling_is_no_warning(world: World) -> None:
    """Switching colocation off takes the resources away, and says so as something that was asked for."""
    world.reports(report())
    await world.reconcile()
    world.configure('{"enable": false}')
    await world.reconcile()
    assert world.offered() == {}
    assert [body["type"] for body in world.api.written("POST", "/events")] == ["Normal", "Normal"]
    assert world.told() == ["NodeStrategyApplied", "MidDisabled"]


async def test_running_mid_pods_keep_offer(world: World) -> None:
    """A degraded Node goes on having what running Mid pods requested, tells of the deficit once, and lets go later."""
    world.reports(report(age=5000))
    mid = PodInputs.from_object(mid_pod("m", cpu="3000", memory="2Gi"))
    world.run.context.cluster.put_pod(mid)
    await world.reconcile()
    await world.reconcile()
    assert world.offered() == {"cpu": "3000", "memory": str(2 * 1024**3)}
    assert world.told() == ["MidDeficit"]
    world.run.context.cluster.drop_pod(mid.uid)
    await world.reconcile()
    assert world.offered() == {}


async def test_held_increase_is_planned(world: World) -> None:
    """An increase is written when it has held, and the node is looked at again in time for that."""
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 60}')
    world.reports(report(reclaimable=("2", "10Gi")))
    await world.reconcile()
    world.reports(report(reclaimable=("4", "10Gi"), age=9))
    await world.reconcile()
    assert (world.offered()["cpu"], world.due_in()) == ("2000", 60.0)
    world.later(60)
    await world.reconcile()
    assert world.offered()["cpu"] == "4000"


async def test_gone_node_takes_metric_along(world: World) -> None:
    """When a Node is gone, its NodeMetric is deleted, that very one only, and nothing of it is remembered."""
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
    """A NodeMetric that is already gone, or already another one, is left alone."""
    await world.reconcile()
    nodes.observe(world.run, "DELETED", node())
    world.api.objects[METRIC]["metadata"]["uid"] = "another"
    world.run.context.cluster.put_node_metric(
        {**world.api.objects[METRIC], "metadata": {"name": "n1", "uid": "old"}}, NOW
    )
    await world.reconcile()
    assert METRIC in world.api.objects
    assert "n1" not in world.run.context.cluster.node_metrics


async def test_unseen_deletion_is_found(world: World) -> None:
    """A Node whose deletion no watch told is found out by the first write to it."""
    world.reports(report())
    del world.api.objects[NODE]
    await world.reconcile()
    assert "n1" not in world.run.context.cluster.nodes
    await world.reconcile()
    assert METRIC not in world.api.objects


async def test_existing_metric_is_adopted(world: World) -> None:
    """A NodeMetric that appeared meanwhile is read instead of created, and corrected at the next look."""
    world.api.put(METRIC, {"metadata": {"name": "n1", "uid": "theirs"}, "spec": {}})
    await world.reconcile()
    await world.reconcile()
    assert world.api.objects[METRIC]["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 60
    assert world.api.objects[METRIC]["metadata"]["ownerReferences"][0]["uid"] == "uid-n1"


async def test_bad_annotation_is_told(world: World) -> None:
    """A node whose own annotation cannot be used gets one event, and the rest of its strategy applies."""
    world.has_node(node(annotations={names.ANNOTATION_COLOCATION_STRATEGY: '{"midCPUThresholdPercent": 200}'}))
    world.reports(report())
    await world.reconcile()
    await world.reconcile()
    assert world.told() == ["NodeStrategyInvalid"]
    assert world.offered()["cpu"] == "4000"


async def test_follower_writes_nothing(world: World) -> None:
    """A replica that does not lead reads, and writes nothing."""
    world.lead(leads=False)
    world.reports(report())
    await world.reconcile()
    assert world.api.calls == []


async def test_nothing_before_pods_are_known(world: World) -> None:
    """Until all pods are listed no number is published: a node would look emptier than it is."""
    world.run.context.cluster.pods_synced = False
    world.reports(report())
    await world.reconcile()
    assert world.offered() == {}
    assert world.api.written("PATCH", "/nodes/") == []


@pytest.mark.parametrize("error", [ApiUnavailable("away"), ApiError(403, "Forbidden", "no")])
async def test_failed_write_is_passed_on(world: World, error: Exception) -> None:
    """A write that fails is the worker's business, and the next look tries again."""
    world.reports(report())
    world.api.fails["/nodes/"] = error
    with pytest.raises(type(error)):
        await world.reconcile()
    world.api.fails.clear()
    await world.reconcile()
    assert world.offered()["cpu"] == "4000"


async def test_broken_node_stops_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A node that our own code cannot handle is reported once and tried again; the others are worked on."""
    world.has_node(node())
    world.run.context.cluster.nodes["odd"] = {"metadata": {"name": "odd"}}
    world.run.queue.add("odd")
    world.run.queue.add("n1")
    worker = asyncio.create_task(Workers(world.run).work())
    for _ in range(100):  # nothing in it waits for anything but its turn
        await asyncio.sleep(0)
    assert not worker.done()
    worker.cancel()
    assert METRIC in world.api.objects
    assert [line.message for line in caplog.records if "Node odd" in line.message] == [
        "Node odd: an error that should not happen, trying again; please report it"
    ]
    assert "odd" in world.run.queue._later


async def test_return_must_hold_over_a_restart(world: World) -> None:
    """After old reports what comes back holds first, also when another replica took it away; the condition says so."""
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 120}')
    world.reports(report())
    await world.reconcile()
    assert world.offered()
    world.later(2000)
    await world.reconcile()
    assert world.offered() == {}
    world.run.context.node_states.clear()  # another replica leads
    world.reports(report(age=-1990, conditions=world.api.objects[METRIC]["status"]["conditions"]))
    await world.reconcile()
    assert world.offered() == {}
    conditions = {each["type"]: each for each in world.api.objects[METRIC]["status"]["conditions"]}
    assert conditions[names.CONDITION_MID_PUBLISHED]["reason"] == "Held"
    assert (world.due_in() or 0) <= 120
    world.later(120)
    await world.reconcile()
    assert world.offered() == {"cpu": "4000", "memory": str(10 * 1024**3)}
    conditions = {each["type"]: each for each in world.api.objects[METRIC]["status"]["conditions"]}
    assert conditions[names.CONDITION_MID_PUBLISHED]["reason"] == "Published"


async def test_another_strategy_is_told(world: World) -> None:
    """When what applies to a node changes, an event on the Node says what, and from where; the first look is none."""
    await world.reconcile()
    assert world.told() == []
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 0, "midUnallocatedPercent": 20}')
    await world.reconcile()
    await world.reconcile()
    assert world.told() == ["NodeStrategyApplied"]
    (note,) = [body["note"] for body in world.api.written("POST", "/events")]
    assert "midUnallocatedPercent 20 (cluster)" in note
    assert "enable true (cluster)" in note


@pytest.mark.parametrize("ahead", [7200.0, -7200.0])
async def test_wrong_clock_takes_nothing_away(world: World, ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager whose machine is two hours off publishes what is reported, and withdraws it when reports stop."""
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
        assert world.offered() == {"cpu": "4000", "memory": str(10 * 1024**3)}
    api.server_time.learn(formatdate(NOW + 1800, usegmt=True))
    world.steady.now = 1800
    await world.reconcile()
    assert world.offered() == {}

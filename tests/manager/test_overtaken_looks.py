"""What happens between two looks at a node, or in the middle of one: another leader, a deletion."""

from collections.abc import Callable

import pytest

from headroom.kube import ApiError
from manager.handlers import node_metric, nodes
from manager.reconcile.workers import Workers
from manager.runner import relist
from tests.support.objects import Json, node, report
from tests.support.world import METRIC, NODE, World


def on_patch(world: World, monkeypatch: pytest.MonkeyPatch, path: str, happens: Callable[[], None]) -> None:
    """Have something happen after the API server took a patch, and before its answer is there."""
    patch = world.api.patch

    async def slow(patched: str, *rest: object, **more: object) -> Json:
        answer = await patch(patched, *rest, **more)  # type: ignore[arg-type]
        if patched == path:
            happens()
        return answer

    monkeypatch.setattr(world.api, "patch", slow)


async def test_follower_forgets_gone_nodes(world: World) -> None:
    """Nodes that come and go while another replica leads leave nothing behind."""
    world.lead(leads=False)
    workers = Workers(world.run)
    await workers._reconcile("n1")
    assert world.run.context.node_states.keys() == {"n1"}
    nodes.observe(world.run, "DELETED", node())
    await workers._reconcile("n1")
    assert world.run.context.node_states == {}


async def test_nothing_holds_while_another_leads(world: World) -> None:
    """An increase that waited when this replica lost the Lease has to hold again when it leads again."""
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 60}')
    world.reports(report(reclaimable=("2", "10Gi")))
    await world.reconcile()
    world.reports(report(reclaimable=("4", "10Gi"), age=9))
    await world.reconcile()
    world.lead(leads=False)
    world.later(70)
    await world.reconcile()
    world.lead(leads=True)
    await world.reconcile()
    assert (world.offered()["cpu"], world.due_in()) == ("2000", 60.0)


async def test_late_answer_brings_no_node_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Node whose deletion was told while a write to it was under way stays forgotten."""
    world.reports(report())
    on_patch(world, monkeypatch, f"{NODE}/status", lambda: nodes.observe(world.run, "DELETED", node()))
    await world.reconcile()
    assert world.run.context.cluster.nodes == {}


async def test_late_answer_brings_no_metric_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NodeMetric whose deletion was told while its conditions were written is made anew by the next look."""
    world.reports(report())

    def deleted() -> None:
        node_metric.observe(world.run, "DELETED", world.api.objects.pop(METRIC))

    on_patch(world, monkeypatch, f"{METRIC}/status", deleted)
    await world.reconcile()
    assert world.run.context.cluster.node_metrics == {}
    monkeypatch.undo()
    await world.reconcile()
    assert METRIC in world.api.objects


@pytest.mark.parametrize("path", [METRIC, f"{METRIC}/status"])
async def test_report_in_an_answer_is_looked_at(world: World, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A report that comes with the answer to a write of ours, so that its watch tells nothing new, is looked at."""
    wrote: list[str] = []

    def reported() -> None:
        if not wrote:
            wrote.append(path)
            world.api.put(METRIC, {**world.api.objects.get(METRIC, report()), "status": report()["status"]})

    _before_patch(world, monkeypatch, path, reported)
    world.run.queue.add("n1")
    assert await world.run.queue.take() == "n1"
    await world.reconcile()
    world.run.queue.done("n1")
    assert wrote
    node_metric.observe(world.run, "MODIFIED", world.api.objects[METRIC])  # as the watch tells it afterwards
    assert len(world.run.queue) == 1
    await world.reconcile()
    assert world.offered()["cpu"] == "4000"


async def test_change_in_the_answer_of_a_node_is_looked_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for what comes with the answer to a write to the Node, such as a label; our own numbers are no news."""
    world.reports(report())
    _before_patch(world, monkeypatch, f"{NODE}/status", lambda: world.api.put(NODE, node(labels={"pool": "b"})))
    await world.reconcile()
    assert len(world.run.queue) == 1
    monkeypatch.undo()
    world.reports(report(reclaimable=("3", "9Gi"), age=5))
    world.run.queue.done(await world.run.queue.take())
    await world.reconcile()
    assert world.offered()["cpu"] == "3000"
    assert len(world.run.queue) == 0


def _before_patch(world: World, monkeypatch: pytest.MonkeyPatch, path: str, happens: Callable[[], object]) -> None:
    """Have something happen just before the API server takes a patch."""
    patch = world.api.patch

    async def overtaken(patched: str, *rest: object, **more: object) -> Json:
        if patched == path:
            happens()
        return await patch(patched, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(world.api, "patch", overtaken)


def _made_anew() -> Json:
    """A Node of the same name."""
    made = node()
    return {**made, "metadata": {**made["metadata"], "uid": "uid-anew"}}


async def test_recreated_node_is_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Node that is made anew while the NodeMetric of the one before is deleted gets one of its own."""
    await world.reconcile()
    nodes.observe(world.run, "DELETED", world.api.objects.pop(NODE))
    delete = world.api.delete

    async def slow(path: str, body: Json | None = None) -> Json:
        answer = await delete(path, body)
        nodes.observe(world.run, "ADDED", world.api.put(NODE, _made_anew()))
        return answer

    monkeypatch.setattr(world.api, "delete", slow)
    await _take_turns(world)
    assert world.api.objects[METRIC]["metadata"]["ownerReferences"][0]["uid"] == "uid-anew"


async def test_recreated_node_survives_news_of_the_old_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told late of a Node that is gone, by its watch or by a write to it, does not drop the next one."""
    world.reports(report())
    patch = world.api.patch

    async def gone(patched: str, *rest: object, **more: object) -> Json:
        if patched == f"{NODE}/status":
            monkeypatch.undo()
            nodes.observe(world.run, "ADDED", world.api.put(NODE, _made_anew()))
            raise ApiError(404, "NotFound", "no such node")
        return await patch(patched, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(world.api, "patch", gone)
    await _take_turns(world)
    nodes.observe(world.run, "DELETED", node())
    await _take_turns(world)
    assert world.run.context.cluster.nodes["n1"]["metadata"]["uid"] == "uid-anew"
    assert METRIC in world.api.objects


async def test_relist_drops_no_newer_node(world: World) -> None:
    """A Node that was made anew while all were listed is not dropped because the list has neither."""
    objects, cluster = world.api.objects, world.run.context.cluster
    the_list = world.api.list

    async def slow(path: str, params: object = None, keep: object = None) -> tuple[list[object], str]:
        del objects[NODE]
        found = await the_list(path, params, keep)
        nodes.observe(world.run, "ADDED", world.api.put(NODE, _made_anew()))
        return found

    world.api.list = slow  # type: ignore[method-assign]
    await relist(world.run)
    assert cluster.nodes["n1"]["metadata"]["uid"] == "uid-anew"


async def _take_turns(world: World) -> None:
    """Work on the node for as long as it is in the queue."""
    world.run.queue.add("n1")
    while len(world.run.queue):
        name = await world.run.queue.take()
        await world.reconcile()
        world.run.queue.done(name)


async def test_remembered_ghost_goes_with_the_next_list(world: World) -> None:
    """A NodeMetric that is remembered although it is gone is forgotten when all are listed again, and made anew."""
    world.run.context.cluster.put_node_metric(report(), 0.0)
    await node_metric.read(world.run)
    assert "n1" not in world.run.context.cluster.node_metrics
    assert len(world.run.queue) == 1
    await world.reconcile()
    assert METRIC in world.api.objects

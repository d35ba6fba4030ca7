"""kopf as a library: it leaves no trace on what it watches."""

from typing import Any, cast

import kopf

from manager.handlers import config, node_metric, nodes
from manager.handlers.config import ConfigReconciler
from manager.operator import settings_for
from manager.runner import relist
from manager.settings import Settings
from tests.support.objects import NOW, node, report
from tests.support.world import METRIC, NODE, World


def _registry(world: World) -> Any:  # noqa: ANN401 - what kopf keeps its handlers in
    registry = kopf.OperatorRegistry()
    config.register(registry, world.run, ConfigReconciler(world.run))
    nodes.register(registry, world.run)
    return registry


async def test_handlers_only_listen() -> None:
    """Only `on.event` handlers exist: others would write finalizers or annotations."""
    registry = _registry(World())
    assert len(registry._watching.get_all_handlers()) == 2
    for kind in ("_changing", "_spawning", "_indexing", "_webhooks"):
        assert list(getattr(registry, kind).get_all_handlers()) == []


async def test_events_reach_the_cache() -> None:
    """What kopf tells is remembered, and the node is looked at."""
    world = World()
    handlers = {each.selector.any_name: each.fn for each in _registry(world)._watching.get_all_handlers()}
    await handlers["nodes"](event={"type": "ADDED", "object": node()})
    assert await world.run.queue.take() == "n1"
    world.run.queue.done("n1")
    other = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"colocation-config": "{"}}
    before = world.run.context.in_force
    await handlers["configmaps"](event={"type": "MODIFIED", "object": other})
    assert world.run.context.in_force is before
    wanted = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": '{"enable": false}'}}
    await handlers["configmaps"](event={"type": "MODIFIED", "object": wanted})
    assert world.run.context.in_force.config.enable is False
    await handlers["configmaps"](event={"type": "DELETED", "object": wanted})
    assert world.run.context.in_force.present is False


def test_settings_leave_no_trace() -> None:
    """It posts no events, joins no peering, scans nothing, and watches one ConfigMap by name."""
    found = settings_for(Settings(config_name="my-config"))
    assert found.posting.enabled is False
    assert found.peering.standalone is True
    assert found.scanning.disabled is True
    assert found.process.ultimate_exiting_timeout is None
    assert list(found.watching.field_selectors.values()) == ["metadata.name=my-config"]
    assert cast("tuple[float, ...]", found.networking.error_backoffs)  # without pauses an outage would be a busy loop


def test_nothing_is_compared() -> None:
    """Nothing is taken of an object and nothing of it is stored: nobody asks what changed, and a Node is large."""
    storage = settings_for(Settings()).persistence.diffbase_storage
    body, patch = kopf.Body(cast("Any", node())), kopf.Patch()
    essence = storage.build(body=body)
    assert not essence
    storage.store(body=body, patch=patch, essence=essence)
    assert not patch
    assert storage.fetch(body=body) is None


async def test_relist_finds_what_no_watch_told() -> None:
    """Listing everything again adds what is new, drops what is gone, and leaves alone what came meanwhile."""
    world = World()
    cluster = world.run.context.cluster
    world.api.put(NODE, node())
    world.api.put(METRIC, report())
    cluster.put_node(node("gone"))
    cluster.put_node_metric(report(name="gone"), NOW)
    assert await node_metric.read(world.run) == "1"
    await relist(world.run)
    assert set(cluster.nodes) == {"n1"}
    assert set(cluster.node_metrics) == {"n1"}
    assert len(world.run.queue) == 2

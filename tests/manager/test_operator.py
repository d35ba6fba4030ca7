"""kopf as a library: it leaves no trace on what it watches."""

from typing import Any

import kopf

from manager.handlers import config, node_metric, nodes
from manager.handlers.config import ConfigReconciler
from manager.runner import relist
from tests.support.objects import NOW, node, report
from tests.support.world import METRIC, NODE, World


def _registry(world: World) -> Any:  # noqa: ANN401 - what kopf keeps its handlers in
    registry = kopf.OperatorRegistry()
    config.register(registry, world.run, ConfigReconciler(world.run))
    nodes.register(registry, world.run)
    return registry


async def test_events_of_kopf_reach_the_cache_and_queue_the_node() -> None:
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


async def test_relist_adds_new_objects_and_drops_gone_ones() -> None:
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

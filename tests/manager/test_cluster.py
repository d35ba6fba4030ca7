from typing import Any

import kopf

from manager.cluster import ClusterState
from manager.handlers import config, node_metric, nodes
from manager.handlers.config import ConfigReconciler
from manager.inputs import PodInputs
from manager.runner import relist
from tests.support.objects import NOW, at, mid_pod, node, pod, report
from tests.support.world import METRIC, NODE, World, put_pods


def _version(obj: dict[str, Any], version: int) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


def _pod(name: str, cpu: str = "1", **more: Any) -> PodInputs:  # noqa: ANN401
    return PodInputs.from_object(pod(name, {"cpu": cpu}, **more))


def test_labels_resources_and_own_annotations_matter_and_heartbeats_do_not() -> None:
    cluster = ClusterState()
    assert cluster.put_node(node())
    assert not cluster.put_node(_version(node(), 2))
    heartbeat = node(annotations={"other": "x"})
    heartbeat["status"]["conditions"] = [{"type": "Ready"}]
    assert not cluster.put_node(heartbeat)
    assert cluster.put_node(node(labels={"pool": "x"}))
    assert cluster.put_node(node(cpu="8"))
    assert cluster.put_node(node(annotations={"node.koordinator.sh/reservation": "{}"}))


def test_old_list_does_not_undo_watch() -> None:
    """A listed object is ignored where a watch has a newer one; a watch always counts."""
    cluster = ClusterState()
    cluster.put_node(_version(node(cpu="8"), 20))
    assert not cluster.put_node(_version(node(cpu="4"), 10), listed=True)
    assert cluster.nodes["n1"]["status"]["allocatable"]["cpu"] == "8"
    assert cluster.put_node(_version(node(cpu="4"), 10))  # a restored backup resets versions
    cluster.put_node_metric(_version(report(), 20), NOW)
    assert not cluster.put_node_metric(_version(report(usage=("9", "9Gi")), 10), NOW, listed=True)


def test_time_of_receipt_is_that_of_the_change() -> None:
    cluster = ClusterState()
    cluster.put_node_metric(report(age=10, prediction_age=10), 1.0)
    assert not cluster.put_node_metric(report(age=10, prediction_age=10), 2.0)
    fast = report(age=10, prediction_age=5)
    assert cluster.put_node_metric(fast, 3.0)
    observed_at = cluster.node_metrics["n1"].observed_at
    assert (observed_at.report, observed_at.prediction) == (1.0, 3.0)
    assert fast["status"]["updateTime"] == at(-10)


def test_metric_without_status_has_not_been_received() -> None:
    cluster = ClusterState()
    empty = report()
    del empty["status"]
    cluster.put_node_metric(empty, 1.0)
    assert cluster.node_metrics["n1"].observed_at.report is None
    cluster.put_node_metric(report(), 2.0)
    assert cluster.node_metrics["n1"].observed_at.report == 2.0


def test_changes_of_pods_name_the_nodes_that_they_touch() -> None:
    cluster = ClusterState()
    assert put_pods(cluster, [_pod("a"), _pod("b", on="n2"), _pod("w", on=""), _pod("e", phase="Failed")]) == {
        "n1",
        "n2",
    }
    assert cluster.pods_synced
    assert cluster.pod_count == 2
    assert cluster.put_pod(_pod("a")) == set()  # nothing that formulas need has changed
    assert cluster.put_pod(_pod("a", "2")) == {"n1"}
    assert cluster.put_pod(_pod("a", phase="Succeeded")) == {"n1"}
    assert list(cluster.pods_on("n1")) == []
    assert cluster.drop_pod("uid-b") == {"n2"}
    assert cluster.drop_pod("uid-b") == set()
    assert cluster.put_pod(PodInputs.from_object(mid_pod("m"))) == {"n1"}


def test_relist_drops_gone_pods_and_touches_nodes_with_a_difference() -> None:
    cluster = ClusterState()
    put_pods(cluster, [_pod("a"), _pod("b", on="n2")])
    assert put_pods(cluster, [_pod("a"), _pod("c", on="n3")]) == {"n2", "n3"}
    assert cluster.pod_count == 2


def _registry(world: World) -> Any:  # noqa: ANN401 - what kopf keeps its handlers in
    registry = kopf.OperatorRegistry()
    config.register(registry, world.run, ConfigReconciler(world.run))
    nodes.register(registry, world.run)
    return registry


async def test_events_of_kopf_reach_the_cache_and_queue_the_node() -> None:
    world = World()
    handlers = {handler.selector.any_name: handler.fn for handler in _registry(world)._watching.get_all_handlers()}
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

"""The reasons of the shipped plugins, and how they go away."""

from typing import Any

from scheduler_plugins.plugins import load_aware as load_aware_plugin
from scheduler_plugins.plugins import mid_resources
from scheduler_plugins.plugins.mid_resources import MidResources
from tests.scheduler_plugins.objects import Json, load_aware, node, node_metric
from tests.scheduler_plugins.requeue.site import Site, made


def _load_aware(**arguments: Any) -> Site:  # noqa: ANN401 - any argument of the plugin
    site = Site(plugin=load_aware(**arguments), name=load_aware_plugin.NAME)
    site.cache.put_node(node("a"))
    return site


async def test_cooled_node() -> None:
    site = _load_aware()
    site.cache.put_node_metric(node_metric("a", cpu="90"))
    site.refuse("p")
    assert await site.reconcile() == []
    site.cache.put_node_metric(node_metric("a", cpu="20", updated=2))
    assert await site.reconcile() == ["p"]


async def test_metrics_come_back() -> None:
    site = _load_aware()
    site.cache.put_node_metric(node_metric("a", cpu="20", updated=-600))
    site.refuse("p")
    assert await site.reconcile() == []
    site.cache.put_node_metric(node_metric("a", cpu="20", updated=1))
    assert await site.reconcile() == ["p"]


async def test_expired_report_lets_pass() -> None:
    """Where nodes with expired reports are used unchecked, the expiry ends a refusal: nothing changes but time."""
    site = _load_aware(enable_schedule_when_node_metrics_expired=True)
    site.cache.put_node_metric(node_metric("a", cpu="90"))
    site.refuse("p")
    assert await site.reconcile(after=100.0) == []
    assert await site.reconcile(after=80.0) == ["p"]


async def test_pod_leaves_node() -> None:
    site = _load_aware()
    site.cache.put_node_metric(node_metric("a", cpu="20"))
    site.cache.put_pod(made("large", "60", nodeName="a"), site.now)
    site.refuse("p", cpu="5")
    assert await site.reconcile() == []
    site.cache.delete_pod("uid-large")
    assert await site.reconcile() == ["p"]


def _deficit(status: str) -> Json:
    metric = node_metric("a")
    metric["status"]["conditions"] = [{"type": "MidDeficit", "status": status}]
    return metric


async def test_deficit_ends() -> None:
    site = Site(plugin=MidResources(), name=mid_resources.NAME)
    site.cache.put_node(node("a"))
    site.cache.put_node_metric(_deficit("True"))
    site.refuse("p", priority=7500)
    assert await site.reconcile() == []
    site.cache.put_node_metric(_deficit("False"))
    assert await site.reconcile() == ["p"]

import pytest

from headroom.kube import ApiError, ApiUnavailable
from manager.handlers import node_metric
from tests.support.objects import report
from tests.support.world import METRIC, World

MISSING = ApiError(404, "", "404 page not found")


async def test_metric_that_is_not_listed_is_forgotten_and_its_node_reconciled(world: World) -> None:
    world.reports(report())
    world.run.context.cluster.put_node_metric(report(name="gone"), 0.0)
    assert await node_metric.read(world.run) == "1"
    assert set(world.run.context.cluster.node_metrics) == {"n1"}
    assert world.run.context.progress.node_metrics.synced
    assert await world.run.queue.take() == "n1"
    assert await world.run.queue.take() == "gone"


async def test_missing_definition_is_no_failure(world: World) -> None:
    """Without the definition there is nothing to read, and cached NodeMetrics stay."""
    world.reports(report())
    world.api.fails["LIST"] = MISSING
    assert await node_metric.read(world.run) == ""
    assert world.run.context.progress.node_metrics.not_found
    assert set(world.run.context.cluster.node_metrics) == {"n1"}


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), ApiUnavailable("away")])
async def test_refusal_is_a_failure(world: World, error: Exception) -> None:
    world.api.fails["LIST"] = error
    with pytest.raises(type(error)):
        await node_metric.read(world.run)
    assert not world.run.context.progress.node_metrics.not_found


async def test_node_is_degraded_in_time(world: World) -> None:
    """While the definition is missing a report counts until it expires; nothing is written to NodeMetrics."""
    world.reports(report(age=0))
    await world.reconcile()
    world.run.context.progress.node_metrics.not_found = True
    world.api.fails["nodemetrics"] = MISSING
    before = len(world.api.calls)
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 0, "metricReportIntervalSeconds": 30}')
    await world.reconcile()
    assert world.published()["cpu"] == "4000"
    due = world.due_in()
    assert due is not None
    world.later(due)
    await world.reconcile()
    assert set(world.published().values()) <= {"0"}
    touched = [path for _, path, _ in world.api.calls[before:]]
    assert not [path for path in touched if path == METRIC]


async def test_returning_definition_is_used(world: World) -> None:
    world.run.context.progress.node_metrics.not_found = True
    await world.reconcile()
    assert METRIC not in world.api.objects
    world.run.context.progress.node_metrics.not_found = False
    await world.reconcile()
    assert METRIC in world.api.objects

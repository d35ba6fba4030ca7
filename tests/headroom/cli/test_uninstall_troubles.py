"""Uninstalling while others are at work: services that end, or do not, failures that pass, and pods that come late."""

import asyncio
from typing import Any

import pytest

from headroom.cli.errors import CommandError
from headroom.kube import ApiError, ApiUnavailable, paths
from manager import node_metric
from tests.headroom.cli.uninstalled import CONFIG, DEPLOYMENT, LEASE, NS, PLACER, SCHEDULER, SECRET, Stage
from tests.manager.made import Json, mid_pod, node


@pytest.fixture
def stage() -> Stage:
    """A cluster to uninstall from."""
    return Stage()


async def test_mid_pod_that_comes_late(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A Mid pod that is placed while the manager ends keeps what it bought, and the end is not reached."""
    del stage.api.objects["/api/v1/pods/m"]
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 1
    stage.lease("m-1")
    stage.renews(3)

    def comes() -> None:
        stage.lease("")
        stage.api.put("/api/v1/pods/l", mid_pod("l", "1000", on="idle"))

    stage.happens[4.0] = comes
    assert await stage.run(delete_config=True) == 1
    assert stage.mid("idle")["cpu"] == "1000"
    assert CONFIG in stage.api.objects
    assert "Node idle keeps what Mid pods bought that still run there: shop/l." in capsys.readouterr().out


async def test_scheduler_is_stopped_last(stage: Stage) -> None:
    """The scheduler ends before its Lease goes, whatever the values call it; but not while Mid pods run."""
    stage.api.objects[SCHEDULER]["spec"]["replicas"] = 2
    assert await stage.run(stop_selling=True) == 1
    assert stage.api.objects[SCHEDULER]["spec"]["replicas"] == 2
    assert PLACER in stage.api.objects
    del stage.api.objects["/api/v1/pods/m"]
    assert await stage.run() == 0
    assert stage.api.objects[SCHEDULER]["spec"]["replicas"] == 0
    assert PLACER not in stage.api.objects
    methods = [(method, path) for method, path, _ in stage.api.calls]
    assert methods.index(("PATCH", f"{SCHEDULER}/scale")) < methods.index(("DELETE", PLACER))


async def test_without_scheduler(stage: Stage) -> None:
    """Where the chart was installed without a scheduler there is none to stop, and a Lease of its name is deleted."""
    del stage.api.objects[SCHEDULER]
    usual = paths.lease(NS, "headroom-scheduler")
    stage.api.put(usual, {"metadata": {"name": "headroom-scheduler"}})
    assert await stage.run(force=True) == 0
    assert usual not in stage.api.objects


async def test_running_manager_is_stopped_first(stage: Stage) -> None:
    """The Deployment is scaled to nothing, and only when nobody holds the Lease any more is anything taken away."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 2
    stage.lease("m-1")
    stage.renews(6)
    stage.happens[7.0] = lambda: stage.lease("")
    await stage.run(force=True)
    assert stage.api.objects[DEPLOYMENT]["spec"]["replicas"] == 0
    assert stage.now >= 7.0
    methods = [(method, path) for method, path, _ in stage.api.calls]
    assert methods.index(("PATCH", f"{DEPLOYMENT}/scale")) < methods.index(("PATCH", paths.status(paths.node("idle"))))


async def test_killed_manager_is_waited_out(stage: Stage) -> None:
    """A Lease that nobody renews any more is free when its time is over, by our own clock."""
    stage.lease("m-dead")
    await stage.run(force=True)
    assert 10.0 < stage.now < 20.0
    assert LEASE not in stage.api.objects


async def test_standby_may_not_take_over(stage: Stage) -> None:
    """While pods of the manager are left, one may take a Lease that was given back: it must stay free first."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 2
    stage.api.put(f"{paths.pods(NS)}/headroom-manager-2", {"metadata": {"name": "headroom-manager-2"}})
    stage.happens[2.0] = lambda: stage.lease("m-2", 2)
    stage.happens[4.0] = lambda: stage.lease("")
    await stage.run(force=True)
    assert stage.now >= 4.0 + 5.0


async def test_unknown_manager_is_refused(stage: Stage) -> None:
    """A manager that no Deployment runs is not stopped but named, and nothing is taken away under it."""
    del stage.api.objects[DEPLOYMENT]
    stage.lease("laptop")
    stage.renews(30)
    before = {path for path in stage.api.objects if path != LEASE}
    with pytest.raises(
        CommandError, match=r"no Deployment headroom-system/headroom-manager runs.* m-1 holds the Lease"
    ):
        await stage.run(force=True)
    assert {path for path in stage.api.objects if path != LEASE} == before
    assert stage.mid("idle") != {}


async def test_manager_that_does_not_end(stage: Stage) -> None:
    """When the manager does not end in time, nothing is taken away, and it is said where to look."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 1
    stage.api.put(f"{paths.pods(NS)}/headroom-manager-1", {"metadata": {"name": "headroom-manager-1"}})
    stage.lease("m-1")
    stage.renews(400)
    with pytest.raises(CommandError, match="m-1 still holds the Lease"):
        await stage.run(force=True)
    assert stage.mid("idle") != {}


@pytest.mark.parametrize(
    "error",
    [
        ApiError(409, "Conflict", "the object has been modified"),
        ApiUnavailable("too many requests", status=429, retry_after=7.0),
        ApiUnavailable("cannot be reached"),
    ],
)
async def test_passing_failures_are_repeated(stage: Stage, error: Exception) -> None:
    """A conflict, an API server that is busy or away for a moment: it is tried again, when the server asks."""
    original, failures = stage.api.patch, [error, error]

    async def patch(path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        if "/nodes/idle" in path and failures:
            raise failures.pop()
        return await original(path, body, content_type, params)

    stage.api.patch = patch  # type: ignore[method-assign]
    assert await stage.run(force=True) == 0
    assert stage.mid("idle") == {}
    assert stage.now >= (14.0 if isinstance(error, ApiUnavailable) and error.retry_after else 0.5)


async def test_one_failure_stops_no_other(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be changed is reported with its reason, everything else is done, and the exit code is 1."""
    stage.api.fails["PATCH /api/v1/nodes/idle"] = ApiError(403, "Forbidden", "no permission for nodes/status")
    stage.api.fails[f"DELETE {SECRET}"] = ApiUnavailable("The API server answers 500: etcd", status=500)
    assert await stage.run(force=True) == 1
    said = capsys.readouterr().out
    assert "failed: no permission for nodes/status" in said
    assert "2 of 11 changes failed: run this again, it goes on where it stopped." in said
    assert stage.mid("busy") == {}
    assert LEASE not in stage.api.objects
    stage.api.fails.clear()
    assert await stage.run(force=True) == 0
    assert stage.mid("idle") == {}
    assert SECRET not in stage.api.objects


async def test_vanished_objects_are_done(stage: Stage) -> None:
    """What somebody else has deleted meanwhile is as good as done."""
    for part in ("DELETE /apis/slo", "PATCH /api/v1/nodes"):
        stage.api.fails[part] = ApiError(404, "NotFound", "gone")
    stage.api.objects = {
        path: obj for path, obj in stage.api.objects.items() if "/nodes/" not in path or "plain" in path
    }
    assert await stage.run() == 0


async def test_numbers_that_come_back_are_told(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A Node that offers Mid again afterwards, or got a Mid pod meanwhile, is told: somebody else is at work."""
    original = stage.api.delete

    async def delete(path: str, body: Json | None = None) -> Json:
        if path == node_metric.path("idle"):
            stage.api.put(paths.node("idle"), node("idle", mid=("1", "1")))
            stage.api.put("/api/v1/pods/late", mid_pod("late", on="idle"))
        return await original(path, body)

    stage.api.delete = delete  # type: ignore[method-assign]
    assert await stage.run(force=True) == 1
    said = capsys.readouterr().out
    assert "Node idle offers Mid resources again (is another manager at work" in said
    assert "Mid pod shop/late was placed on Node idle meanwhile" in said


async def test_many_nodes_at_a_time(stage: Stage) -> None:
    """Many Nodes are worked on some at a time, never more at once than the API server should bear."""
    for number in range(200):
        name = f"n-{number}"
        stage.api.objects[paths.node(name)] = {
            "metadata": {"name": name},
            "status": {part: {"kubernetes.io/mid-cpu": "1"} for part in ("capacity", "allocatable")},
        }
    busy, most = 0, 0

    async def patch(path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401, ARG001
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        status = stage.api.objects.get(path.removesuffix("/status"), {}).get("status", {})
        for part in status.values():
            part.pop("kubernetes.io/mid-cpu", None)
            part.pop("kubernetes.io/mid-memory", None)
        return {}

    stage.api.patch = patch  # type: ignore[method-assign]
    assert await stage.run(force=True) == 0
    assert most == 16


async def test_mid_pod_placed_while_the_scheduler_ends(stage: Stage) -> None:
    """Until the scheduler has ended it places pods: one that comes in that time keeps what it bought, too."""
    del stage.api.objects["/api/v1/pods/m"]
    stage.api.objects[SCHEDULER]["spec"]["replicas"] = 1
    original = stage.api.patch

    async def patch(path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        if path == f"{SCHEDULER}/scale":
            stage.api.put("/api/v1/pods/last", mid_pod("last", "1000", on="idle"))
        return await original(path, body, content_type, params)

    stage.api.patch = patch  # type: ignore[method-assign]
    assert await stage.run(delete_config=True) == 1
    assert stage.mid("idle")["cpu"] == "1000"
    assert stage.mid("busy") == {}
    assert CONFIG in stage.api.objects

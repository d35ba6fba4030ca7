"""Many nodes and an API server that refuses some of them, all of them, or does not answer."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from headroom.kube import ApiError, ApiUnavailable
from headroom.kube.lease import NotLeading
from manager.handlers import node_metric, nodes
from manager.inputs import PodInputs
from manager.reconcile.workers import Workers
from tests.support.objects import Json, mid_pod, node, report
from tests.support.world import World

NAMES = [f"n{number:02}" for number in range(9)]


class Crowd(World):
    def __init__(self, names: Sequence[str] = NAMES) -> None:
        super().__init__()
        self.names = names
        for name in names:
            nodes.observe(self.run, "ADDED", self.api.put(f"/api/v1/nodes/{name}", node(name)))
            path = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{name}"
            node_metric.observe(self.run, "ADDED", self.api.put(path, report(name=name)))
        self.workers = Workers(self.run)

    async def work(self, seconds: float = 0.0) -> None:
        self.later(seconds)
        self.run.queue.release_due()
        tasks = [asyncio.create_task(self.workers.work()) for _ in range(4)]
        for _ in range(2000):  # they wait only for their turn
            if not len(self.run.queue) and not self.run.queue._busy:
                break
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def publishing(self) -> set[str]:
        result = {name: self.api.objects[f"/api/v1/nodes/{name}"]["status"]["capacity"] for name in self.names}
        return {name for name, capacity in result.items() if any("mid-" in entry for entry in capacity)}

    def attempts(self, name: str) -> int:
        return len(self.api.written("PATCH", f"/nodes/{name}/"))


@pytest.mark.parametrize(
    "error", [ApiError(409, "Conflict", "changed"), ApiError(422, "Invalid", "bad"), ApiUnavailable("x", status=500)]
)
async def test_refused_node_stops_no_other(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    crowd = Crowd()
    crowd.api.fails["/nodes/n07/"] = error
    await crowd.work()
    assert crowd.publishing() == set(NAMES) - {"n07"}
    assert len([line for line in caplog.records if "n07" in line.message]) == 1
    crowd.api.fails.clear()
    await crowd.work(30.0)
    assert crowd.publishing() == set(NAMES)


async def test_node_with_an_error_of_ours_is_logged_once_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    crowd = Crowd(["a"])
    crowd.run.context.cluster.nodes["malformed"] = {"metadata": {"name": "malformed"}}
    crowd.run.queue.add("malformed")
    for _ in range(3):
        await crowd.work(1.0)
    assert crowd.publishing() == {"a"}
    assert [line.message for line in caplog.records if "Node malformed" in line.message] == [
        "Node malformed: an error that should not happen, trying again; please report it"
    ]
    assert "malformed" in crowd.run.queue._later


async def test_refused_node_is_tried_at_growing_intervals() -> None:
    crowd = Crowd(["a", "b"])
    crowd.api.fails["/nodes/a/"] = ApiError(422, "Invalid", "bad")
    for _ in range(150):
        await crowd.work(2.0)
    assert 10 <= crowd.attempts("a") <= 30
    assert crowd.attempts("b") == 1


async def test_retry_after_is_kept_though_the_first_pause_is_shorter() -> None:
    crowd = Crowd(["a"])
    crowd.api.fails["/nodes/a/"] = ApiUnavailable("busy", status=429, retry_after=20.0)
    await crowd.work()
    crowd.api.fails.clear()
    await crowd.work(19.0)
    assert crowd.publishing() == set()
    await crowd.work(1.0)
    assert crowd.publishing() == {"a"}


async def test_deadline_is_not_put_off() -> None:
    """Where a NodeMetric cannot be written, its node publishes nothing once its report expires, and no later."""
    crowd = Crowd(["a"])
    crowd.api.fails["nodemetrics/a"] = ApiError(422, "Invalid", "bad")
    await crowd.work()
    while crowd.steady.now < 880.0:
        await crowd.work(10.0)
    assert crowd.publishing() == {"a"}
    assert crowd.run.context.node_state("a").failures > 9  # the pauses have grown by now
    crowd.run.queue.add_at("a", 890.0)  # a try after which the next one would be after the report has expired
    for _ in range(22):
        await crowd.work(1.0)
    assert crowd.publishing() == set()


async def test_outage_is_found_out_once(caplog: pytest.LogCaptureFixture) -> None:
    """While the server does not answer, few of many nodes find that out, and one line is logged."""
    crowd = Crowd()
    crowd.api.fails["/"] = ApiUnavailable("The API server cannot be reached")
    await crowd.work()
    assert len(crowd.api.calls) <= 4 * 3  # each worker began with one node
    assert len([line for line in caplog.records if "cannot be reached" in line.message]) == 1
    crowd.api.fails.clear()
    for _ in range(5):
        await crowd.work(1.0)
    assert crowd.publishing() == set(NAMES)


async def test_write_without_leadership_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    crowd = Crowd(["a"])
    crowd.api.fails["PATCH"] = NotLeading("this replica no longer leads")
    await crowd.work()
    assert crowd.run.context.node_state("a").failures == 0
    assert not [line for line in caplog.records if "a write failed" in line.message]
    crowd.api.fails.clear()
    await crowd.work(1.0)
    assert crowd.publishing() == {"a"}


async def contested(crowd: Crowd, again: Callable[[], bool], status: Json) -> None:
    """For two minutes another writer rewrites a status; the manager writes at a limited rate, which is reported."""
    for _ in range(60):
        if again():
            nodes.observe(crowd.run, "MODIFIED", crowd.api.put("/api/v1/nodes/a", status))
        await crowd.work(2.0)
    timing = crowd.run.context.settings.timing
    expected = timing.write_burst + 120.0 / timing.write_refill_seconds
    assert expected - 2 <= crowd.attempts("a") <= expected + 2
    assert crowd.events_recorded().count("MidContested") == 1


async def test_kubelet_wipes_status() -> None:
    """A kubelet that drops our resources finds them back; if it does so all the time, now and then."""
    crowd = Crowd(["a"])
    await crowd.work()
    await contested(crowd, lambda: crowd.publishing() == {"a"}, node("a"))
    await crowd.work(60.0)
    assert crowd.publishing() == {"a"}


@pytest.mark.parametrize("config", ['{"enable": false}', '{"enable": true, "mode": "shadow"}'])
async def test_numbers_of_another_manager(config: str) -> None:
    """Another manager's amounts are removed where nothing is to be published, but for requests of running pods."""
    crowd = Crowd(["a"])
    crowd.configure(config)
    path, theirs = "/api/v1/nodes/a", node("a", mid=("4000", str(8 * 2**30)))
    nodes.observe(crowd.run, "MODIFIED", crowd.api.put(path, theirs))
    await crowd.work()
    assert (crowd.publishing(), crowd.attempts("a")) == (set(), 1)
    await contested(crowd, lambda: not crowd.publishing(), theirs)
    crowd.run.context.cluster.put_pod(PodInputs.from_object(mid_pod("m", cpu="3000", memory="2Gi", on="a")))
    nodes.observe(crowd.run, "MODIFIED", crowd.api.put(path, theirs))
    crowd.run.queue.add("a")
    await crowd.work(60.0)
    assert crowd.api.objects[path]["status"]["allocatable"]["kubernetes.io/mid-cpu"] == "3000"

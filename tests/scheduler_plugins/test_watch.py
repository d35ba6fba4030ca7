"""Feeding the cache from watches. The API server's side is tested in kubeapi, and here on a cluster."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from crds import quantity
from headroom.cluster import pod as crds_pod
from headroom.kube import ApiServer, Changed, Connection, Decode, Relisted, WatchHealth, WatchTiming, paths
from headroom.kube.decoding import plain
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.snapshot import watch
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.watch import NODE_METRICS, ClusterWatch
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod, pod_metric

Change = Relisted | Changed


async def _follow(world: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, list[Change]]) -> ClusterWatch:
    """Let the watches bring these changes, and return when they have."""

    async def brought(
        _api: ApiServer,
        path: str,
        _selector: str,
        *,
        health: WatchHealth,
        keep: Callable[[Json], str],
        timing: WatchTiming,  # noqa: ARG001 - as there
        decode: Decode | None,
    ) -> AsyncIterator[Change]:
        def sent(item: Json) -> Any:  # noqa: ANN401 - what `decode` makes
            return (decode or plain)(msgspec.Raw(json.dumps(item).encode()))

        health.synced = True
        health.responded()
        for change in changes.get(path, []):
            if isinstance(change, Relisted):
                yield Relisted([keep(sent(item)) for item in change.items])
            else:
                yield Changed(change.type, sent(change.object))

    monkeypatch.setattr(watch, "list_and_watch", brought)
    api = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test")
    following = ClusterWatch(api, world.cache, lambda: NOW)
    await following.run()
    return following


async def test_changes_reach_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await _follow(
        world,
        monkeypatch,
        {
            paths.NODES: [
                Relisted([node("old")]),
                Relisted([node("a"), node("b")]),
                Changed("ADDED", node("c")),
                Changed("DELETED", node("b")),
            ],
            NODE_METRICS: [Relisted([node_metric("a", cpu="1")]), Changed("MODIFIED", node_metric("a", cpu="90"))],
            paths.PODS: [
                Relisted([pod("p", {"cpu": "1"}, node="c"), pod("q", {"cpu": "2"}, node="c")]),
                Changed("DELETED", pod("p", node="c")),
            ],
        },
    )
    assert sorted(world.cache.nodes) == ["a", "c"]
    ledgers = world.cache.ledger("a"), world.cache.ledger("c")
    assert ledgers[0] is not None
    assert ledgers[1] is not None
    assert (ledgers[0].load()[0], ledgers[1].sums.node_delta[0]) == (90_000, 2000)


async def test_unreadable_object_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    bad = node_metric("a", cpu="lots")
    following = await _follow(
        world,
        monkeypatch,
        {
            NODE_METRICS: [
                Relisted([node_metric("a", cpu="7")]),
                *[Changed("MODIFIED", bad)] * 3,
                Changed("ADDED", node_metric("b")),
            ]
        },
    )
    assert [record.getMessage().partition(" cannot")[0] for record in caplog.records] == ["NodeMetric a"]
    assert following.unreadable == {"NodeMetric a"}
    ledger = world.cache.ledger("a")
    assert ledger is not None
    assert ledger.load()[0] == 7000
    assert world.cache.ledger("b") is not None


@pytest.mark.parametrize("end", [Changed("DELETED", pod("p")), Relisted([])])
async def test_unreadable_object_that_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch, end: Change) -> None:
    """Pods come and go for ever: one that could not be read is not kept in mind when it is gone, nor mixed up."""
    bad, other = pod("p", {"cpu": "lots"}), pod("p", {"cpu": "lots"})
    other["metadata"] |= {"namespace": "elsewhere", "uid": "other"}
    changes = [Changed("ADDED", bad), Changed("ADDED", other), Changed("DELETED", other)]
    assert (await _follow(World(), monkeypatch, {paths.PODS: [*changes]})).unreadable == {"Pod default/p"}
    assert (await _follow(World(), monkeypatch, {paths.PODS: [*changes, end]})).unreadable == set()


@pytest.mark.parametrize(
    "bad",
    [
        {"metadata": {"name": "a"}, "status": {"updateTime": "yesterday"}},
        {"metadata": {"name": "a"}, "status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": None}}}}},
        {"metadata": {"name": "a"}, "status": {"podsMetric": [5]}},
        {"metadata": {"name": "a"}, "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 10**400}}},
    ],
)
async def test_odd_objects_do_no_harm(monkeypatch: pytest.MonkeyPatch, bad: Json) -> None:
    following = await _follow(World(), monkeypatch, {NODE_METRICS: [Changed("ADDED", bad)]})
    assert following.unreadable == {"NodeMetric a"}


async def test_large_pod_counts_with_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound pod of thousands of amounts is not read whole, and is no less there; a pending one is named alone."""
    many = {f"a.b/{each}": "1" for each in range(5000)}
    large = pod("p", {**many, "cpu": "2", "memory": "1Gi"}, {**many, "cpu": "3"}, node="a", overhead={"cpu": "1"})
    looked_at = []

    def counting(amount: str) -> object:
        looked_at.append(amount)
        return quantity.parse_quantity(amount)

    monkeypatch.setattr(crds_pod, "parse_quantity", counting)
    world = World()
    world.cache = ClusterCache(world.rules, {"LoadAware": world.plugin, "CapacityScheduling": CapacityScheduling()})
    relisted = Relisted([large, pod("q", many)])
    following = await _follow(world, monkeypatch, {paths.NODES: [Relisted([node("a")])], paths.PODS: [relisted]})
    found = world.cache.ledger("a")
    assert found is not None
    assert found.sums.estimated[0] == 4000  # limit and overhead
    assert following.unreadable == {"Pod default/q"}
    assert len(looked_at) < 10_000


async def test_large_report_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes a NodeMetric of more than can be read in time spoils that node's alone, whatever there is much of."""
    windows = [{"duration": f"{each}s", "usage": {"avg": {"resources": {"cpu": "1"}}}} for each in range(1001)]
    kinds = [{"duration": "5m", "usage": {f"p{each}": {"resources": {"cpu": "1"}} for each in range(1001)}}]
    larger = [node_metric("a", cpu="2") for _ in range(5)]
    larger[0]["status"]["podsMetric"] = [pod_metric(f"p{each}") for each in range(1001)]
    larger[1]["status"]["nodeMetric"]["aggregatedNodeUsages"] = windows
    larger[2]["status"]["nodeMetric"]["aggregatedNodeUsages"] = kinds
    larger[3]["status"]["conditions"] = [{"type": str(each), "status": "True"} for each in range(1001)]
    larger[4]["status"]["prediction"] = {"classes": [{"name": str(each)} for each in range(1001)]}
    for large in larger:
        listed = Relisted([node_metric("a", cpu="1"), node_metric("b", cpu="1")])
        reports: list[Change] = [listed, Changed("MODIFIED", large)]
        world = World().put(node("a"), node("b"))
        following = await _follow(world, monkeypatch, {NODE_METRICS: reports})
        found = world.cache.ledger("a")
        assert found is not None
        assert (found.load()[0], following.unreadable) == (1000, {"NodeMetric a"})


async def test_large_node_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    resources, taints = node("a", cpu="9"), node("a", cpu="9")
    resources["status"]["allocatable"] |= {f"a.b/{each}": "1" for each in range(1001)}
    taints["spec"] = {"taints": [{"key": str(each), "effect": "NoSchedule"} for each in range(1001)]}
    for large in (resources, taints):
        world = World()
        changes: list[Change] = [Relisted([node("a", cpu="1"), node("b")]), Changed("MODIFIED", large)]
        following = await _follow(world, monkeypatch, {paths.NODES: changes})
        assert (world.cache.own_allocatable("a") or {})["cpu"] == 1000
        assert following.unreadable == {"Node a"}


async def test_complaints_name_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    api = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test")
    fresh = ClusterWatch(api, World().cache, lambda: NOW)
    assert not fresh.synced
    assert [line.split(" ")[0] for line in fresh.complaints(180)] == ["Nodes", "NodeMetrics", "Pods"]
    assert "nodemetrics.slo.koordinator.sh" in fresh.complaints(180)[1]
    following = await _follow(World(), monkeypatch, {})
    assert following.synced
    assert following.complaints(180) == []
    for source in following.sources:
        source.health.last_contact = (source.health.last_contact or 0.0) - 200
    assert following.complaints(180)[0] == "Nodes: the API server has not been heard for 200 s"


class _Pages(ApiServer):
    """An API server whose list of pods comes in two pages; `between` looks at the world when the first is there."""

    def __init__(self, between: Callable[[], None]) -> None:
        super().__init__(Connection("http://127.0.0.1:1", None, lambda: None), "test")
        self._between = between

    async def _text(self, method: str, path: str, **given: Any) -> bytes:  # noqa: ANN401, ARG002 - as there
        items, more = list[Json](), {}
        if path == paths.PODS and "continue" in given["params"]:
            self._between()
            items = [pod("q", node="b")]
        elif path == paths.PODS:
            items, more = [pod("p", node="a")], {"continue": "more"}
        return json.dumps({"items": items, "metadata": {"resourceVersion": "1", **more}}).encode()


async def test_lists_are_taken_page_by_page() -> None:
    world, seen = World(), []
    api = _Pages(lambda: seen.append([world.cache.ledger(name) is not None for name in "ab"]))
    following = asyncio.create_task(ClusterWatch(api, world.cache, lambda: NOW).run())
    while world.cache.ledger("b") is None:  # noqa: ASYNC110 - the cache tells nobody
        await asyncio.sleep(0.001)
    following.cancel()
    assert seen == [[True, False]]

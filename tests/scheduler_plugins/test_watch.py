"""Feeding the cache from watches. The API server's side is tested in kubeapi, and here on a cluster."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kubeapi import ApiServer, Changed, Connection, Relisted, WatchHealth, paths
from scheduler_plugins.snapshot import watch
from scheduler_plugins.snapshot.watch import NODE_METRICS, ClusterWatch
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod

Change = Relisted | Changed


async def _follow(world: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, list[Change]]) -> ClusterWatch:
    """Let the watches bring these changes, and return when they have."""

    async def brought(_api: ApiServer, path: str, _selector: str, *, health: WatchHealth) -> AsyncIterator[Change]:
        health.synced = True
        health.heard()
        for change in changes.get(path, []):
            yield change

    monkeypatch.setattr(watch, "list_and_watch", brought)
    api = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test")
    following = ClusterWatch(api, world.cache, lambda: NOW)
    await following.run()
    return following


async def test_changes_reach_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists replace, changes add up, deletions remove, for each kind."""
    world = World().put(node("old"))
    await _follow(
        world,
        monkeypatch,
        {
            paths.NODES: [Relisted([node("a"), node("b")]), Changed("ADDED", node("c")), Changed("DELETED", node("b"))],
            NODE_METRICS: [Relisted([node_metric("a", cpu="1")]), Changed("MODIFIED", node_metric("a", cpu="90"))],
            paths.PODS: [
                Relisted([pod("p", {"cpu": "1"}, node="c"), pod("q", {"cpu": "2"}, node="c")]),
                Changed("DELETED", pod("p", node="c")),
            ],
        },
    )
    assert list(world.cache.nodes) == ["a", "c"]
    ledgers = world.cache.ledger("a"), world.cache.ledger("c")
    assert ledgers[0] is not None
    assert ledgers[1] is not None
    assert (ledgers[0].load()[0], ledgers[1].node_delta[0]) == (90_000, 2000)


async def test_unreadable_object_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A NodeMetric that somebody else wrote badly is told once; its last good state and all others count."""
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
    """Whatever a NodeMetric holds, the watch goes on."""
    following = await _follow(World(), monkeypatch, {NODE_METRICS: [Changed("ADDED", bad)]})
    assert following.unreadable == {"NodeMetric a"}


async def test_complaints_name_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first list, and after a long silence, it says which kind is not to be trusted."""
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


async def test_long_list_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a long list is taken in, requests are answered."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    nodes = [node(f"n{index}") for index in range(1000)]
    await _follow(World(), monkeypatch, {paths.NODES: [Relisted(nodes)]})
    counting.cancel()
    assert turns >= 5

"""The cost of a relist beyond reading it."""

import asyncio
import copy
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headroom.kube import ApiError, ApiServer, ApiUnavailable, Connection, paths
from scheduler_plugins.plugins.capacity_scheduling import NAME as QUOTAS
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling, quota_cluster
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.snapshot.arrays import NodeState
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.watch import NODE_METRICS, ClusterWatch
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod, records


def test_relist_of_the_same_changes_nothing() -> None:
    world = World()
    objects = [item for name in "abc" for item in (node(name), node_metric(name), pod(name, {"cpu": "1"}, node=name))]
    world.put(*objects)
    before = world.nodes("a", "b", "c")
    recorded: list[str] = []
    former = LoadAware.record

    def counting(plugin: LoadAware, state: NodeState) -> tuple[Any, ...]:
        recorded.append(state.name)
        return former(plugin, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoadAware, "record", counting)
        world.put(*copy.deepcopy(objects))
        again = world.nodes("a", "b", "c")
        assert recorded == []
        world.put(pod("b", {"cpu": "2"}, node="b"), node_metric("c", cpu="51"))
        world.nodes("a", "b", "c")
        assert sorted(recorded) == ["b", "c"]
    assert records(before) == records(again)


class _Listed(ApiServer):
    def __init__(self, lot: random.Random) -> None:
        super().__init__(Connection("http://127.0.0.1:1", None, lambda: None), "test")
        self.lot, self.objects = lot, dict[str, list[Json]]()
        self.fails = 0.0
        self.lists = dict[str, int]()

    async def _text(self, method: str, path: str, **given: Any) -> bytes:  # noqa: ANN401, ARG002 - as the base class
        await asyncio.sleep(0)
        first = int(given["params"].get("continue", 0))
        if first and self.lot.random() < self.fails:
            raise self.lot.choice([ApiUnavailable("away"), ApiError(410, "Expired", "too old")])
        limit, items = int(given["params"]["limit"]), self.objects.get(path, [])
        more = {"continue": str(first + limit)} if first + limit < len(items) else {}
        if not more:
            self.lists[path] = self.lists.get(path, 0) + 1
        return json.dumps(
            {"items": items[first : first + limit], "metadata": {"resourceVersion": "1", **more}}
        ).encode()

    @asynccontextmanager
    async def stream(self, path: str, *_: Any) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ANN401
        yield self._gone(path)

    async def _gone(self, _: str) -> AsyncIterator[bytes]:
        await asyncio.sleep(0)
        yield json.dumps({"type": "ERROR", "object": {"code": 410}}).encode() + b"\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headroom.kube.watch._Outage.wait", lambda *_, **__: asyncio.sleep(0))


def _world() -> tuple[ClusterCache, QuotaCluster]:
    cache = ClusterCache(LoadRules(), {QUOTAS: CapacityScheduling(), NAME: LoadAware()})
    return cache, quota_cluster(cache.freeze(NOW))


def _state(cache: ClusterCache, quotas: QuotaCluster, names: list[str]) -> list[object]:
    nodes, unknown = cache.select(sorted(cache.nodes), NOW)
    ledgers = [sorted(ledger.pods) if (ledger := cache.ledger(name)) else [] for name in names]
    reports = [ledger.report is not None if (ledger := cache.ledger(name)) else False for name in names]
    used = [quotas.ledger.used(entry) for entry in ("default", "other")]
    return [list(nodes.names), unknown, records(nodes), ledgers, reports, used, quotas.ledger.total_used]


def _fed(objects: dict[str, list[Json]]) -> tuple[ClusterCache, QuotaCluster]:
    cache, quotas = _world()
    for item in objects.get(paths.NODES, []):
        cache.put_node(item)
    for item in objects.get(NODE_METRICS, []):
        cache.put_node_metric(item)
    for item in objects.get(paths.PODS, []):
        cache.put_pod(item, NOW)
    return cache, quotas


def _some(lot: random.Random, names: list[str], pods: list[str]) -> dict[str, list[Json]]:
    nodes = lot.sample(names, lot.randint(1, len(names)))
    reported = lot.sample(names, lot.randint(0, len(names)))
    bound = lot.sample(pods, lot.randint(0, len(pods)))
    return {
        paths.NODES: [node(entry, cpu=str(lot.randint(8, 64))) for entry in nodes],
        NODE_METRICS: [node_metric(item, cpu=str(lot.randint(1, 9))) for item in reported],
        paths.PODS: [pod(element, {"cpu": f"{lot.randint(1, 9)}00m"}, node=lot.choice(names)) for element in bound],
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("impatient")
async def test_any_relist_ends_in_current_state(seed: int) -> None:
    lot = random.Random(seed)  # noqa: S311 - it hides nothing
    names, pods = [f"n{index}" for index in range(60)], [f"p{number}" for number in range(300)]
    api, (cache, quotas) = _Listed(lot), _world()
    api.objects, api.fails = _some(lot, names, pods), 0.3
    cluster = ClusterWatch(api, cache, lambda: NOW)
    following = asyncio.create_task(cluster.run())
    count = 0
    for _ in range(4):
        api.objects, api.lists = _some(lot, names, pods), {}
        # A list that began earlier has earlier objects: the second list to end began with these objects.
        while min((api.lists.get(path, 0) for path in (paths.NODES, NODE_METRICS, paths.PODS)), default=0) < 3:
            await asyncio.sleep(0)
            if cluster.synced and lot.random() < 0.05:
                incoming = cache.read(pod(f"incoming{count}", {"cpu": "1"}))
                cache.charge(incoming, lot.sample(names, 3), NOW)
                cache.select(names, NOW)
                count += 1
        for uid in list(cache.in_flight):
            cache.release(uid)
        assert _state(cache, quotas, names) == _state(*_fed(api.objects), names)
    following.cancel()

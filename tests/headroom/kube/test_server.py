import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headroom import kube
from headroom.kube import ApiServer, Changed, Relisted, WatchHealth, WatchTiming, gathering, list_and_watch, paths
from headroom.kube.events import EventRecorder

if TYPE_CHECKING:
    from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster
MAPS = "/api/v1/namespaces/default/configmaps"
LABEL = "headroom.test/part=kubeapi"
QUICK = WatchTiming(first_delay_seconds=0.01, longest_delay_seconds=0.1)


@pytest.fixture
async def api(cluster: "Cluster") -> AsyncIterator[ApiServer]:
    async with ApiServer(kube.connect(str(cluster.kubeconfig)), user_agent="headroom-tests") as session:
        yield session
        items, _ = await session.list(MAPS, {"labelSelector": LABEL})
        for result in items:
            await session.delete(f"{MAPS}/{result['metadata']['name']}")


@pytest.fixture(autouse=True)
def _each_change_begins_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait begins after one change in place of eight, where a test lets changes wait."""
    monkeypatch.setattr(gathering, "_MANY", 1)


def _map(name: str, size: int = 1) -> dict[str, object]:
    key, value = LABEL.split("=")
    return {"metadata": {"name": name, "labels": {key: value}}, "data": {"x": "x" * size}}


async def test_pages_of_a_real_list(api: ApiServer) -> None:
    """A list in pages is complete, and its version can be watched from."""
    for number in range(5):
        await api.create(MAPS, _map(f"kubeapi-{number}"))
    items, version = await api.list(MAPS, {"labelSelector": LABEL, "limit": 2})
    assert [result["metadata"]["name"] for result in items] == [f"kubeapi-{number}" for number in range(5)]
    assert int(version) > 0


@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_changes_of_a_real_object(api: ApiServer, seconds: float) -> None:
    """Create, patch and delete of an object of a megabyte arrive in order, with the object."""
    timing = replace(QUICK, gather=lambda: seconds)
    health, observed = WatchHealth(), []
    async with (
        asyncio.timeout(30),
        aclosing(list_and_watch(api, MAPS, label_selector=LABEL, health=health, timing=timing)) as changes,
    ):
        async for change in changes:
            if isinstance(change, Relisted):
                await api.create(MAPS, _map("kubeapi-large", size=900_000))
                await api.patch(f"{MAPS}/kubeapi-large", {"data": {"y": "1"}})
                await api.delete(f"{MAPS}/kubeapi-large")
            if isinstance(change, Changed):
                observed.append((change.type, sorted(change.object["data"]), len(change.object["data"]["x"])))
                if change.type == "DELETED":
                    break
    assert observed == [
        ("ADDED", ["x"], 900_000),
        ("MODIFIED", ["x", "y"], 900_000),
        ("DELETED", ["x", "y"], 900_000),
    ]
    assert health.synced


@pytest.mark.parametrize("seconds", [0.0, 0.1])
async def test_short_watches_lose_nothing(api: ApiServer, seconds: float) -> None:
    """Watches that the server ends every second are resumed without a gap and without another list."""
    timing = WatchTiming(first_delay_seconds=0.01, shortest_watch_seconds=0.5, healthy_seconds=0.2)
    hasty = replace(timing, gather=lambda: seconds)
    lists, names = 0, []
    async with asyncio.timeout(60), aclosing(list_and_watch(api, MAPS, label_selector=LABEL, timing=hasty)) as changes:
        writer: asyncio.Task[None] | None = None
        async for change in changes:
            if isinstance(change, Relisted):
                lists += 1
                writer = writer or asyncio.create_task(_write_slowly(api, count=12))
            elif change.type == "ADDED":
                names.append(change.object["metadata"]["name"])
                if len(names) == 12:
                    break
        if writer:
            await writer
    assert lists == 1
    assert names == [f"kubeapi-slow-{number:02}" for number in range(12)]


async def _write_slowly(api: ApiServer, count: int) -> None:
    for number in range(count):
        await api.create(MAPS, _map(f"kubeapi-slow-{number:02}"))
        await asyncio.sleep(0.25)


async def test_refusals_of_a_real_server(api: ApiServer) -> None:
    with pytest.raises(kube.ApiError) as missing:
        await api.get(f"{MAPS}/kubeapi-none")
    created = await api.create(MAPS, _map("kubeapi-twice"))
    with pytest.raises(kube.ApiError) as exists:
        await api.create(MAPS, _map("kubeapi-twice"))
    await api.patch(f"{MAPS}/kubeapi-twice", {"data": {"y": "1"}})
    with pytest.raises(kube.ApiError) as stale:
        await api.replace(f"{MAPS}/kubeapi-twice", created)
    with pytest.raises(kube.ApiError) as invalid:
        await api.create(MAPS, _map("Not A Name"))
    assert (missing.value.not_found, exists.value.conflict, stale.value.conflict) == (True, True, True)
    assert (invalid.value.status, invalid.value.reason) == (422, "Invalid")


async def test_event_on_a_real_server(api: ApiServer, cluster: "Cluster") -> None:
    """An event and its repetitions, by another replica too, are accepted, and `kubectl get events` shows them."""
    clock = iter((1_700_000_000.0, 1_700_000_100.0, 1_700_000_200.0, 1_700_000_300.0))
    first, other = (EventRecorder(api, "headroom-tests", clock=lambda: next(clock)) for _ in range(2))
    regarding = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kubeapi-event", "namespace": "default"}
    for recorder in (first, first, other, other):  # another replica counts on
        await recorder.record(regarding, "Warning", "KubeapiTest", "Testing", "Said by a test.")
    selector = {"fieldSelector": "reason=KubeapiTest"}
    events, _ = await api.list(paths.events("default"), selector)
    assert [(event["note"], event["series"]["count"]) for event in events] == [("Said by a test.", 4)]
    assert "Said by a test." in cluster.kubectl("get", "events", "--field-selector", "reason=KubeapiTest")
    await api.delete(f"{paths.events('default')}/{events[0]['metadata']['name']}")

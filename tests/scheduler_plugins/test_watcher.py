"""load-watcher's protocol, served from NodeMetrics."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from headroom.runtime.http import Pages, Reply, Request, serve
from scheduler_plugins.__main__ import main
from scheduler_plugins.extender.watcher import WatcherPages, short_duration, window_of
from scheduler_plugins.providers.load_watcher import LoadWatcher
from scheduler_plugins.providers.provider import ProviderError
from scheduler_plugins.providers.spec import MetricProvider
from scheduler_plugins.providers.web import Site
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW, node, node_metric

Json = dict[str, Any]
WINDOWS = {
    "5m": {"avg": {"cpu": "10", "memory": "10Gi"}, "stdev": {"cpu": "1", "memory": "0"}},
    "10m": {"avg": {"cpu": "25", "memory": "50Gi"}, "stdev": {"cpu": "5", "memory": "1Gi"}, "p99": {"cpu": "40"}},
    "30m": {"avg": {"cpu": "30", "memory": "60Gi"}},
}


def served(*objects: Json, now: float = 0) -> Pages:
    cache = ClusterCache(LoadRules())
    for item in objects:
        if "allocatable" in item["status"]:
            cache.put_node(item)
        else:
            cache.put_node_metric(item)
    return WatcherPages(cache, lambda: NOW + now, lambda: True).pages()


async def ask(server: Pages, path: str = "/watcher", **query: str) -> Reply:
    made = server["GET", path](Request("GET", path, query))
    return made if isinstance(made, Reply) else await made


async def metrics(server: Pages, name: str = "n") -> list[Any]:
    nodes: Mapping[str, Any] = json.loads((await ask(server)).body)["data"]["NodeMetricsMap"]
    return [
        (metric["type"], metric["operator"], metric["rollup"], metric["value"]) for metric in nodes[name]["metrics"]
    ]


async def test_answers_take_a_share_of_the_time() -> None:
    """Concurrent requests, for all nodes or one, share one new document; documents are built one at a time."""
    cache = ClusterCache(LoadRules())
    for name in "ab":
        cache.put_node(node(name))
        cache.put_node_metric(node_metric(name, aggregated=WINDOWS, updated=-20))
    made = running = 0

    class Counted(WatcherPages):
        async def document(self) -> Mapping[str, Any] | None:
            nonlocal made, running
            made, running = made + 1, running + 1
            assert running == 1
            await asyncio.sleep(0)
            result = await super().document()
            running -= 1
            return result

    pages = Counted(cache, lambda: NOW, lambda: True).pages()
    queries: list[dict[str, str]] = [{}, {"host": "a"}, {"host": "absent"}]
    replies = await asyncio.gather(*(ask(pages, **query) for query in queries * 50))
    assert Counter(reply.status for reply in replies) == {200: 100, 404: 50}
    assert made == 1
    leaver = asyncio.create_task(ask(pages))
    for _ in range(3):
        await asyncio.sleep(0)
    more = asyncio.gather(*(ask(pages) for _ in range(50)))
    leaver.cancel()
    assert {reply.status for reply in await more} == {200}
    assert made <= 3


async def test_document_has_upstreams_names() -> None:
    reply = await ask(served(node("n"), node_metric("n", aggregated=WINDOWS, updated=-20)))
    assert (reply.status, reply.content_type) == (200, "application/json")
    document = json.loads(reply.body)
    assert document["timestamp"] == NOW
    assert document["window"] == {"duration": "10m", "start": NOW - 620, "end": NOW - 20}
    assert document["source"] == "Headroom"
    (result,) = document["data"]["NodeMetricsMap"].items()
    assert result[0] == "n"
    assert result[1]["tags"] == {}
    assert result[1]["metadata"] == {"dataCenter": ""}
    assert result[1]["metrics"][0] == {
        "name": "NodeMetric", "type": "CPU", "operator": "AVG", "rollup": "10m", "value": 25.0,
    }  # fmt: skip


WINDOW = [
    ("CPU", "AVG", "10m", 25.0),
    ("Memory", "AVG", "10m", 50.0),
    ("CPU", "STD", "10m", 5.0),
    ("Memory", "STD", "10m", 1.0),
]


@pytest.mark.parametrize(
    ("metric", "served_as"),
    [
        # The average and deviation of the window that load-watcher uses, in percent of the node's allocatable.
        (node_metric("n", aggregated=WINDOWS), WINDOW),
        (node_metric("n", "50", "10Gi"), [("CPU", "Latest", "", 50.0), ("Memory", "Latest", "", 10.0)]),
        # No node runs without memory: zero means no measurement, but an idle CPU does not.
        (node_metric("n", "0", "0"), [("CPU", "Latest", "", 0.0)]),
    ],
)
async def test_metrics_are_served(metric: Json, served_as: list[Any]) -> None:
    assert await metrics(served(node("n"), metric)) == served_as


async def test_old_reports_are_skipped() -> None:
    objects = node("n"), node("m"), node_metric("n", updated=0), node_metric("m", updated=-100)
    assert set(json.loads((await ask(served(*objects))).body)["data"]["NodeMetricsMap"]) == {"n", "m"}
    assert set(json.loads((await ask(served(*objects, now=100))).body)["data"]["NodeMetricsMap"]) == {"n"}
    assert (await ask(served(*objects, now=200))).status == 500


async def test_reports_without_nodes_are_skipped() -> None:
    nodes = json.loads((await ask(served(node("n"), node("m"), node_metric("n"), node_metric("x")))).body)
    assert set(nodes["data"]["NodeMetricsMap"]) == {"n"}


async def test_changes_are_served() -> None:
    cache = ClusterCache(LoadRules())
    pages = WatcherPages(cache, lambda: NOW, lambda: True).pages()
    cache.put_node(node("n"))
    cache.put_node_metric(node_metric("n", "50"))
    assert (await metrics(pages))[0] == ("CPU", "Latest", "", 50.0)
    cache.put_node_metric(node_metric("n", "60"))
    assert (await metrics(pages))[0] == ("CPU", "Latest", "", 60.0)
    cache.put_node(node("n", cpu="120"))
    assert (await metrics(pages))[0] == ("CPU", "Latest", "", 50.0)


async def test_own_client_reads_document() -> None:
    listener = await serve(served(node("n"), node_metric("n", aggregated=WINDOWS, updated=-20)), "127.0.0.1", 0)
    try:
        site = Site(f"http://127.0.0.1:{listener.port}", MetricProvider())
        answer = await LoadWatcher(site, smoothed=False).fetch(NOW)
        assert answer.nodes["n"].measured_at == NOW - 20
        assert {metric["value"] for metric in answer.nodes["n"].metrics} == {25.0, 50.0, 5.0, 1.0}
        with pytest.raises(ProviderError, match="404"):
            await LoadWatcher(Site(f"{site.address}/other", MetricProvider()), smoothed=False).fetch(NOW)
    finally:
        await listener.close()


@pytest.mark.parametrize(
    ("windows", "taken"),
    [([900.0, 600.0], 900.0), ([600.0, 300.0, 850.0], 600.0), ([300.0, 1800.0], 1800.0), ([300.0], 300.0), ([], None)],
)
def test_windows_fall_back_one_step(windows: list[float], taken: float | None) -> None:
    """15m falls back to 10m, but not to 5m; other windows of agents are used unchanged."""
    assert window_of(windows) == taken


@pytest.mark.parametrize(
    ("seconds", "text"), [(900, "15m"), (600, "10m"), (3600, "1h"), (5400, "1h30m"), (90, "1m30s"), (30, "30s")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


def test_needs_the_metrics_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--watcher"]) == 2
    assert "--watcher needs --metrics-listen" in capsys.readouterr().err
